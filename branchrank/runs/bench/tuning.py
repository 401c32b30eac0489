"""Choose the weights and BM25 settings of each system by cross-validation, without human labels.

1. The tuned settings are the weight of the BM25 branch, the weight of MaxSim, and BM25's ``k1`` and ``b``, if
   the system uses them. Each setting has a short list of values to try. Each combination of values from the
   lists is called a point.
2. At most ``budget`` combinations are tried for each system. The first combination contains the values before
   tuning, and the other combinations are a seeded random sample. All combinations are tried on the same
   questions, so query vectors, branch results and MaxSim scores are computed only once.
3. The questions are split into folds by the source of their gold. The questions in each fold are answered
   with the settings that scored best on the other folds. The gain is the mean score of the answers from all
   folds minus the mean score with the untuned settings. The gain estimates how much tuning improves the
   answers to questions about pages that were not used for tuning. The interval for the gain allows for
   correlation between questions with gold in the same file.
4. Tuning chooses the combination of values with the best score on all questions. If several combinations have
   the best score, the first combination is chosen. The untuned values are tried first, so other values are
   chosen only if their score is better.

To test whether the chosen values are also better on questions that people wrote, benchmark the tuned and the
untuned systems in one experiment.
"""

from __future__ import annotations

import itertools
import math
import random
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from branchrank.core.errors import QuestionError, UsageError
from branchrank.core.execution.executors import open_executor
from branchrank.core.io.files import write_text
from branchrank.core.io.progress import Notify, Progress, no_notice, shown_progress
from branchrank.core.io.text_files import read_text
from branchrank.core.records import Question, Record
from branchrank.core.settings import BenchmarkSettings, Bm25Settings, Resolved, read_toml
from branchrank.core.settings.fields import value_at, with_values
from branchrank.core.spec import System
from branchrank.runs.bench.answering import AnsweringTask, Wanted, shards_of
from branchrank.runs.bench.experiment import plan_from_experiment
from branchrank.runs.bench.opening import open_plan
from branchrank.runs.bench.plan import Plan, PlannedSystem, check_plan, planned_system
from branchrank.runs.comparisons import primary_measure
from branchrank.runs.directory import DEFAULT_INDEX
from branchrank.runs.rows import Row
from branchrank.runs.scores import Scores
from branchrank.runs.slices import gold_facts
from branchrank.scoring.intervals import Interval
from branchrank.scoring.measures import mean
from branchrank.scoring.significance import difference_interval

#: Tuned setting -> its field in the system, and the factors by which the system's value is multiplied.
WEIGHTS = {
    "bm25_weight": ("branches.bm25.weight", (0.6, 0.8, 1.2, 1.5)),
    "maxsim_weight": ("rescore.weight", (0.5, 1.5, 2.0)),
}
#: Tuned BM25 setting -> the values to try.
BM25_VALUES = {"k1": (0.6, 0.9, 1.2), "b": (0.2, 0.4, 0.75)}
TUNED = "tuned"
#: Default arguments of :func:`tune`.
FOLDS = 5
BUDGET = 16

Point = dict[str, float]


class TunedSystem(Record, frozen=True, kw_only=True):
    """The result of tuning one system.

    ``own`` contains the values before tuning, and ``chosen`` contains the values after tuning. ``before`` is
    the mean score with the values in ``own``. ``validated`` is the cross-validated mean score: each fold is
    scored with the values that were chosen on the other folds. ``gain`` is ``validated`` - ``before``.
    ``interval`` is the 95% confidence interval of ``gain``, or ``None`` if the gold is in too few files.
    ``agreeing`` is the number of folds for which cross-validation chose the same values as in ``chosen``.
    """

    system: str
    own: Point
    chosen: Point
    points: int
    before: float
    validated: float
    gain: float
    interval: Interval | None
    agreeing: int

    @property
    def name(self) -> str:
        """The name of the tuned system."""
        return f"{self.system}-{TUNED}"

    @property
    def interval_words(self) -> str:
        """The 95% confidence interval of the gain as text, such as ``[-0.010, +0.035]``."""
        if self.interval is None:
            return "(few documents)"
        return f"[{self.interval.low:+.3f}, {self.interval.high:+.3f}]"

    @property
    def changes(self) -> Point:
        """The chosen values that differ from the values before tuning."""
        return {name: value for name, value in self.chosen.items() if value != self.own[name]}


class Tuning(Record, frozen=True, kw_only=True):
    """The results of tuning all systems in an experiment. ``toml`` contains the tuned systems.

    ``questions`` is the number of answerable questions that were asked. ``questions_digest`` is the digest of
    all questions in the question file, even if only a sample was asked.
    """

    measure: str
    questions: int
    questions_digest: str
    sources: int
    folds: int
    seed: int
    systems: tuple[TunedSystem, ...]
    toml: str


def tune(
    experiment: str | Path,
    questions: str | Path,
    *,
    folds: int = FOLDS,
    budget: int = BUDGET,
    flags: Mapping[str, object] | None = None,
    notify: Notify = no_notice,
    progress: bool | Progress = False,
) -> Tuning:
    """Choose the weights, ``k1`` and ``b`` of every system in an experiment file by cross-validation.

    ``questions`` is a question file, preferably with mined questions. The questions are divided into
    ``folds`` parts, and all questions about the same document are in the same part. For each system,
    ``budget`` combinations of values are tried. ``flags`` maps ``"section.name"`` to the value of a setting.
    The experiment file is not changed. :func:`write_tuned` adds the tuned systems to the file.

    Raises :class:`~branchrank.core.errors.UsageError` for systems in a sweep and systems that call an LLM,
    and
    :class:`~branchrank.core.errors.QuestionError` if the questions come from fewer documents than there are
    folds.

    >>> from pathlib import Path
    >>> _ = Path("e.toml").write_text('name = "e"\\n[systems.local]')
    >>> tuning = tune("e.toml", "data/benchmark/questions.jsonl", folds=2, budget=2)
    >>> [each.points for each in tuning.systems]
    [2]
    """
    path = Path(experiment)
    read = plan_from_experiment(path, flags, notify=notify, dry_run=True)  # predictors are not tuned
    given = msgspec.structs.replace(read, questions=Path(questions))
    seed = given.settings.part(BenchmarkSettings).sample_seed
    contenders = [each for each in given.planned if not each.origin]
    _check(path, contenders)
    points = {
        each.system.name: _points(each.system, given.indexes[each.index], budget, seed) for each in contenders
    }
    plan = _plan(given, contenders, points)
    every, digest = check_plan(plan)
    asked = [question for question in every if question.is_scored]
    with shown_progress(progress) as shown:
        scores = _scores(plan, asked, notify, shown)
    fold_of = _folds(scores.clusters, folds, seed)
    measure = primary_measure(plan.settings.part(BenchmarkSettings))
    systems = []
    for each in contenders:
        name = each.system.name
        values = [scores.per_question(_label(name, number), measure) for number in range(len(points[name]))]
        systems.append(_chosen(name, points[name], values, scores.clusters, fold_of))
    return Tuning(
        measure=measure.name,
        questions=len(asked),
        questions_digest=digest,
        sources=len(set(scores.clusters.values())),
        folds=folds,
        seed=seed,
        systems=tuple(systems),
        toml=_toml(path, contenders, systems, digest),
    )


def write_tuned(experiment: str | Path, tuning: Tuning, *, force: bool = False) -> None:
    """Add the tuned systems to the experiment file, and remove the systems that an earlier tuning added.

    The comments, the order of the tables, and the tables of other systems are not changed. A tuned system has
    the name of the original system with the suffix ``-tuned``. In ``run.json``, the origin of a tuned system
    is ``tuned``, and ``tuned_on`` is the digest of the tuning questions.

    Raises :class:`~branchrank.core.errors.UsageError` if the cross-validated gain of a tuned system is below
    zero, except with ``force``, and :class:`~branchrank.core.errors.StorageError` if the file can't be
    written.
    """
    path = Path(experiment)
    worse = [f"{each.name}: {each.gain:+.3f}" for each in tuning.systems if each.changes and each.gain < 0]
    if worse and not force:
        raise UsageError(
            f"on documents not used for tuning, tuning lowers {tuning.measure} ({', '.join(worse)}); "
            f"{path} was not changed",
            remedy="keep the current values, or write the tuned systems anyway with --force",
        )
    import tomlkit

    document = tomlkit.parse(read_text(path))
    for section, tables in tomllib.loads(tuning.toml).items():
        place = document.setdefault(section, tomlkit.table(is_super_table=True))
        for name, table in tables.items():
            place[name] = table
    write_text(path, tomlkit.dumps(document).rstrip("\n") + "\n")


def _check(path: Path, contenders: Sequence[PlannedSystem]) -> None:
    """Raise :class:`UsageError` for systems that can't be tuned."""
    if not contenders:
        raise UsageError(f"{path} contains no system that can be tuned (tuned systems are not tuned again)")
    for each in contenders:
        name = each.system.name
        if "[" in name:
            raise UsageError(
                f"{name} was generated by a sweep, so it can't be tuned",
                remedy=f"replace the sweep in {path} by separate systems",
            )
        if each.system.asks_llm:
            raise UsageError(
                f"{name} calls an LLM for every query, and tuning runs many queries",
                remedy='switch the LLM off with rerank.method = "none"',
            )


def _points(system: System, settings: Resolved, budget: int, seed: int) -> list[Point]:
    """Return at most ``budget`` combinations of values to try, starting with the untuned values."""
    own = _own(system, settings)
    grids = []
    for name, value in own.items():
        tried = BM25_VALUES.get(name) or [round(factor * value, 4) for factor in WEIGHTS[name][1]]
        grids.append((value, *(each for each in tried if each != value)))
    first, *others = (dict(zip(own, values, strict=True)) for values in itertools.product(*grids))
    drawn = random.Random(f"{seed} {system.name}").sample(  # noqa: S311 - a seeded draw
        others, min(budget - 1, len(others))
    )
    return [first, *drawn]


def _own(system: System, settings: Resolved) -> Point:
    """Return the current values of a system's tunable settings."""
    own: Point = {}
    kinds = [branch.kind for branch in system.searched]
    if "bm25" in kinds and len(kinds) > 1:
        own["bm25_weight"] = value_at(system, WEIGHTS["bm25_weight"][0])
    if system.rescore.method != "none":
        own["maxsim_weight"] = value_at(system, WEIGHTS["maxsim_weight"][0])
    if "bm25" in kinds:
        words = settings.part(Bm25Settings)
        own |= {"k1": words.k1, "b": words.b}
    return own


def _label(system: str, number: int) -> str:
    return f"{system} {number}"


def _plan(given: Plan, contenders: Sequence[PlannedSystem], points: Mapping[str, Sequence[Point]]) -> Plan:
    """Return a plan with one predictor per combination of values.

    Predictors with the same ``k1`` and ``b`` share an index if they come from the same index.
    """
    predictors: list[PlannedSystem] = []
    indexes: dict[str, Resolved] = {}
    for each in contenders:
        for number, point in enumerate(points[each.system.name]):
            words = {name: point[name] for name in BM25_VALUES if name in point}
            index = f"{each.index} {sorted(words.items())}"
            settings = given.indexes[each.index]
            tried = msgspec.structs.replace(settings.part(Bm25Settings), **words)
            indexes[index] = settings.with_parts(tried)
            weights = {WEIGHTS[name][0]: value for name, value in point.items() if name in WEIGHTS}
            system = with_values(each.system, {**weights, "name": _label(each.system.name, number)})
            predictors.append(planned_system(system, index=index))
    part = msgspec.structs.replace(given.settings.part(BenchmarkSettings), baseline="", trace_depth=0)
    settings = given.settings.with_parts(part)
    return msgspec.structs.replace(given, predictors=tuple(predictors), indexes=indexes, settings=settings)


def _scores(plan: Plan, asked: Sequence[Question], notify: Notify, progress: Progress) -> Scores:
    """Return the scores of each predictor and question, and raise an error for a failed query."""
    rows: list[Row] = []
    every = tuple((number, 0) for number in range(len(plan.predictors)))
    wanted = [Wanted(question=question, answers=every) for question in asked]
    with (
        open_executor(plan.settings, notify) as executor,
        open_plan(plan, asked, progress=progress, notify=notify) as opened,
    ):
        if not executor.in_process:
            opened.load_models()
        task = AnsweringTask(opened)
        progress("questions", 0, len(asked))
        for answered in executor.map(task, shards_of(wanted)):
            row = answered.row
            if row.status == "failed":
                raise QuestionError(f"{row.predictor} failed at {row.question_id!r}: {row.error}")
            rows.append(row)
            progress("questions", len(rows) // len(every), len(asked))
        return Scores(rows, asked, gold_facts(asked, opened.corpus) if opened.corpus else ())


def _folds(clusters: Mapping[str, str], folds: int, seed: int) -> dict[str, int]:
    """Return the fold of each question id. Sources are assigned at random to folds of about equal size."""
    sources = sorted(set(clusters.values()))
    if len(sources) < folds:
        raise QuestionError(
            f"the gold is in {len(sources)} sources, too few for {folds} folds",
            remedy="mine more questions, or reduce --folds",
        )
    random.Random(seed).shuffle(sources)  # noqa: S311 - a seeded order
    fold_of = {source: number % folds for number, source in enumerate(sources)}
    return {key: fold_of[source] for key, source in clusters.items()}


def _chosen(
    name: str,
    points: Sequence[Point],
    values: Sequence[Mapping[str, float]],
    clusters: Mapping[str, str],
    fold_of: Mapping[str, int],
) -> TunedSystem:
    """Return the values with the best score on all questions, and the cross-validated gain."""
    ids = sorted(clusters)
    best = _best(values, ids)
    best_without = {
        fold: _best(values, [key for key in ids if fold_of[key] != fold]) for fold in set(fold_of.values())
    }
    before = [values[0][key] for key in ids]
    after = [values[best_without[fold_of[key]]][key] for key in ids]
    differences = [b - a for a, b in zip(before, after, strict=True)]
    interval = difference_interval(differences, [clusters[key] for key in ids])
    return TunedSystem(
        system=name,
        own=points[0],
        chosen=points[best],
        points=len(points),
        before=mean(before),
        validated=mean(after),
        gain=mean(differences),
        interval=interval,
        agreeing=sum(each == best for each in best_without.values()),
    )


def _best(values: Sequence[Mapping[str, float]], ids: Sequence[str]) -> int:
    """Return the index of the first combination with the highest total score over the questions."""
    sums = [math.fsum(of[key] for key in ids) for of in values]
    return sums.index(max(sums))


def _toml(
    path: Path, contenders: Sequence[PlannedSystem], systems: Sequence[TunedSystem], digest: str
) -> str:
    """Return the systems with changed values, and the indexes of these systems, as TOML tables."""
    import tomlkit

    indexes = read_toml(path).get("indexes", {})
    tables: dict[str, dict[str, Any]] = {"systems": {}, "indexes": {}}
    for each, tuned in zip(contenders, systems, strict=True):
        if not tuned.changes:
            continue
        table: dict[str, Any] = {"from": tuned.system, "origin": TUNED, "tuned_on": digest}
        if each.index != DEFAULT_INDEX:
            table["index"] = each.index
        words = {name: tuned.chosen[name] for name in BM25_VALUES if name in tuned.chosen}
        if not words.keys().isdisjoint(tuned.changes):
            base = indexes.get(each.index, {})
            table["index"] = tuned.name
            own = base.get(Bm25Settings.section, {})
            tables["indexes"][tuned.name] = {**base, Bm25Settings.section: {**own, **words}}
        table |= {name: value for name, value in tuned.changes.items() if name in WEIGHTS}
        tables["systems"][tuned.name] = table
    return tomlkit.dumps({section: content for section, content in tables.items() if content})
