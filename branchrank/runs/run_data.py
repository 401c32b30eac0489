"""The base of the class :class:`~branchrank.run.Run`: a run's stored data, and what is computed from it.

1. A run's stored data consists of the record (``run.json``), the rows, the questions, the timings and facts
   about the gold (:class:`~branchrank.runs.slices.GoldFacts`).
2. Scores, summary, settings, measures and verdicts are properties that are computed on first use.
3. A run is read from its directory (:meth:`RunData.load`), or made in memory at the end of a benchmark. A
   run can also be made from another run by restricting the questions (:meth:`RunData.where`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Self

import msgspec

from branchrank.core.errors import QuestionError, RunError, UsageError, suggestion
from branchrank.core.io.text_files import read_jsonl
from branchrank.core.records import LLMCall, Question
from branchrank.core.settings import BenchmarkSettings
from branchrank.questions.question_files import load_questions, questions_digest
from branchrank.runs import directory as names
from branchrank.runs.comparisons import (
    ALL_PAIRS,
    Judgment,
    baselines_of,
    check_size,
    compare_scored,
    declared_measures,
    judge,
    primary_measure,
)
from branchrank.runs.directory import RunRecord, check_files, read_run
from branchrank.runs.rows import Row, read_rows
from branchrank.runs.scores import Scores, standard_measures
from branchrank.runs.slices import GoldFacts, questions_where
from branchrank.runs.summary import SummaryRow, summarize
from branchrank.runs.timings import Timing, read_timings
from branchrank.runs.words import judged_words
from branchrank.scoring.comparison import CompareOptions, Comparison
from branchrank.scoring.matching import GOLD_LEVELS, gold_level, is_judged
from branchrank.scoring.measures import NamedMeasure, judged_measure, mean, named_measure

#: The key in ``by_gold`` for the questions of both gold levels together.
BOTH = "both"
#: The most gold items of a question that a report is computed from.
MOST_GOLD = 10_000


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RunData:
    """The data of a finished run, and the scores and verdicts that are computed from the data."""

    #: The run's directory, as an absolute path. If the run is restricted to some of its questions, it is the
    #: directory of the complete run.
    directory: Path
    #: The content of ``run.json``.
    record: RunRecord
    #: One row per question, predictor and repeat.
    rows: tuple[Row, ...]
    #: The questions, in order.
    asked: tuple[Question, ...]
    #: The times that the latency pass measured.
    timed: tuple[Timing, ...] = ()
    gold_facts: tuple[GoldFacts, ...] = ()
    #: The conditions (``SLICE=VALUE``) that selected the run's questions, empty for a complete run.
    conditions: tuple[str, ...] = ()

    @classmethod
    def load(cls, directory: str | Path, row: type[Row] = Row) -> Self:
        """Load a finished run from its directory.

        ``row`` can be :class:`~branchrank.runs.rows.UntracedRow`, if no trace is needed. Raises
        :class:`~branchrank.core.errors.RunError` if the run is missing, unfinished, damaged or from another
        version of BranchRank.
        """
        directory = Path(directory)
        record = read_run(directory)
        check_files(directory)
        rows = read_rows(directory / record.rows_file, row)
        if record.status == "running":
            wanted = len(record.question_ids) * sum(each.repeats for each in record.predictors)
            raise RunError(
                f"{directory} is not finished: it has {len(rows)} of {wanted} rows",
                remedy=f"branchrank resume {directory}",
            )
        path = directory / names.GOLD
        run = cls(
            directory=directory.absolute(),
            record=record,
            rows=tuple(rows),
            asked=_asked(directory, record),
            timed=tuple(read_timings(directory / names.TIMINGS_CSV)),
            gold_facts=tuple(read_jsonl(path, GoldFacts, error=RunError)) if path.exists() else (),
        )
        _check(run)
        return run

    def publish(self) -> None:
        """Write the report at the end of a benchmark (:class:`~branchrank.run.Run` does)."""

    @cached_property
    def settings(self) -> BenchmarkSettings:
        """The benchmark settings that the run used."""
        return msgspec.convert(self.record.settings.get(BenchmarkSettings.section, {}), BenchmarkSettings)

    @cached_property
    def scores(self) -> Scores:
        """The value of every measure for every row."""
        return Scores(self.rows, self.asked, self.gold_facts)

    @property
    def predictors(self) -> list[str]:
        """The names of the predictors, in the order in which the run lists them."""
        return self.scores.predictors

    @cached_property
    def primary(self) -> NamedMeasure:
        """The declared primary measure, in the variant (strict or relaxed) that ``--mode`` selects."""
        return primary_measure(self.settings)

    @cached_property
    def standard(self) -> tuple[NamedMeasure, ...]:
        """The standard measures that are reported for the run's ``--mode`` (strict, relaxed or both)."""
        return standard_measures(self.record.mode)

    @cached_property
    def extra(self) -> tuple[NamedMeasure, ...]:
        """The measures that were requested by name, starting with the primary measure."""
        return declared_measures(self.settings)

    @cached_property
    def shown(self) -> tuple[NamedMeasure, ...]:
        """The measures shown in printed tables.

        The standard measures come first, followed by the requested measures. If the primary measure uses
        grades from qrels, only the requested measures are shown.
        """
        return self.extra if self.primary.mode == "graded" else with_others(self.standard, self.extra)

    @cached_property
    def judged(self) -> tuple[str, bool]:
        """What :func:`judged_words` says about the run, or nothing if its gold is not judged documents."""
        if self.primary.mode != "graded" or not all(is_judged(each) for each in self.asked if each.gold):
            return "", False
        name = str(judged_measure(self.primary.measure))
        measure = named_measure(name, "graded")
        rows = {each: self.scores.answerable_rows(each) for each in self.predictors}
        values = {
            each: [self.scores.value(row, measure) for row in of if row.hits] for each, of in rows.items()
        }
        return judged_words(name, {each: mean(of) for each, of in values.items() if of})

    @cached_property
    def summary_rows(self) -> tuple[SummaryRow, ...]:
        """One row per predictor, with scores, passage sizes, latency and LLM usage."""
        return tuple(summarize(self.scores, self.timed, (*self.standard, *self.extra)))

    def summary_row(self, predictor: str) -> SummaryRow:
        """Return a predictor's row of the summary."""
        return next(row for row in self.summary_rows if row.predictor == predictor)

    @property
    def clusters(self) -> dict[str, str]:
        """A dict from each answerable question's id to its cluster, which is the source file of its gold."""
        return self.scores.clusters

    @property
    def options(self) -> CompareOptions:
        """The options of the run's significance tests."""
        settings = self.settings
        documents = max((each.documents for each in self.record.indexes), default=0)
        return CompareOptions(
            delta=settings.delta, alpha=settings.alpha, seed=self.record.seed, documents=documents
        )

    @cached_property
    def judgment(self) -> Judgment:
        """The declared comparisons on the primary measure, and the winner if there is one."""
        return judge(self.scores, self.primary, self.settings.baseline, self.options)

    @cached_property
    def facts(self) -> Mapping[str, GoldFacts]:
        """A mapping from question ids to facts about the document and section of each question's gold."""
        return {each.question_id: each for each in self.gold_facts}

    @cached_property
    def by_gold(self) -> Mapping[str, Self]:
        """A mapping from gold levels to the run restricted to each level, and from ``both`` to the whole run.

        If all gold has the same level, this level is the only key. A whole file is easier to find than some
        of its lines, so a score over all questions depends on the share of questions with file-level gold.
        """
        levels = {gold_level(question) for question in self.asked if question.gold and question.is_scored}
        if len(levels) < 2:
            return {"".join(levels): self}
        return {**{level: self.where(f"gold={level}") for level in GOLD_LEVELS}, BOTH: self}

    @property
    def ledger(self) -> list[LLMCall]:
        """Every LLM call, in the order of the rows. Each entry covers one call and its retries."""
        return [call for row in self.rows for call in row.calls]

    @cached_property
    def hard_set(self) -> tuple[Question, ...]:
        """The answerable questions for which no predictor has a strict hit at rank 1."""
        first = named_measure("strict_hit@1")
        solved: set[str] = set()
        for predictor in self.predictors:
            solved |= {key for key, value in self.scores.per_question(predictor, first).items() if value > 0}
        return tuple(self.scores.questions[key] for key in self.scores.answerable if key not in solved)

    def measure(self, name: str) -> NamedMeasure:
        """Return the measure with this name, or the primary measure if ``name`` is empty.

        Raises :class:`UsageError` if the measure is unknown, or needs more hits than the run stored.
        """
        found = named_measure(name) if name else self.primary
        self.check_kept(found)
        return found

    def check_kept(self, measure: NamedMeasure) -> None:
        """Raise :class:`UsageError` if a measure needs more hits than the run stored."""
        cutoff, kept = measure.measure.cutoff or 0, self.record.top_k
        if cutoff > kept:
            raise UsageError(
                f"measure {measure.name!r} needs {cutoff} hits, but the run has only {kept} for each "
                "question",
                remedy=f"choose a cutoff of at most {kept}, or run the benchmark again with this measure",
            )

    def check_predictor(self, name: str, role: str = "") -> None:
        """Raise :class:`UsageError` if the run has no predictor of this name."""
        if name not in self.predictors:
            raise UsageError(
                f"{role}{self.directory} has no predictor {name!r}",
                remedy=suggestion(name, self.predictors) or f"choose one of {', '.join(self.predictors)}",
            )

    def compare_pairs(
        self, measure: NamedMeasure, pairs: Sequence[tuple[str, str]], delta: float | None = None
    ) -> tuple[Comparison, ...]:
        """Compare pairs (baseline, candidate) as one family, by default with the delta of the run."""
        options = self.options if delta is None else msgspec.structs.replace(self.options, delta=delta)
        found = compare_scored(self.scores, measure, pairs, options)
        if not found:
            raise UsageError(
                f"{self.directory} has nothing to compare: it has only one predictor that answered, or no "
                "answerable questions",
                remedy="choose a run with two predictors that answered",
            )
        return found

    def where(self, *conditions: str) -> Self:
        """Return the run restricted to the questions in a slice.

        >>> from branchrank import Run, library
        >>> run = Run.load(library.list_runs("reports")[0].directory)
        >>> set(run.where("kind=error").questions["question_id"])
        {'coffee'}

        A condition has the form ``SLICE=VALUE``. SLICE is ``gold``, ``kind``, ``difficulty``, ``overlap``,
        ``content``, ``size`` or ``depth``. Conditions on different slices must all be met. Of several
        conditions on the same slice, at least one must be met. Scores on a slice are exploratory, since the
        slice was not declared before the run.

        Raises :class:`~branchrank.core.errors.UsageError` for an unknown slice or value.
        """
        if not conditions:
            return self
        kept = questions_where(self.asked, self.facts, conditions, self.directory)
        run = self.asking([question.id for question in kept])
        cut = (
            f"The run is restricted to {' and '.join(conditions)}: {len(kept)} of its {len(self.asked)} "
            "questions. The slice was not declared before the run, so the verdicts are exploratory."
        )
        record = msgspec.structs.replace(run.record, warnings=(cut, *self.record.warnings))
        return replace(run, record=record, conditions=(*self.conditions, *conditions))

    def asking(self, ids: Collection[str]) -> Self:
        """Return the run restricted to the questions with these ids."""
        ids = set(ids)
        kept = tuple(question for question in self.asked if question.id in ids)
        run = self._keeping(
            lambda each: each.question_id in ids,
            question_ids=tuple(question.id for question in kept),
            questions_digest=questions_digest(kept),
            sampled_from=self.record.sampled_from or self.record.questions_digest,
        )
        facts = tuple(each for each in self.gold_facts if each.question_id in ids)
        return replace(run, asked=kept, gold_facts=facts)

    def _keeping(self, keeps: Callable[[Row | Timing], bool], **changes: object) -> Self:
        """Return the run with some of its rows and timings, and with changes to its record."""
        rows = tuple(filter(keeps, self.rows))
        counts = {
            "failures": sum(row.status == "failed" for row in rows),
            "fallbacks": sum(bool(row.fallbacks) for row in rows),
        }
        record = msgspec.structs.replace(self.record, **changes, **counts)
        return replace(self, record=record, rows=rows, timed=tuple(filter(keeps, self.timed)))

    def only(self, predictors: Collection[str]) -> Self:
        """Return the run restricted to some of its predictors.

        If a declared baseline is not among them, every pair of predictors is compared.
        """
        kept = tuple(each for each in self.record.predictors if each.name in predictors)
        run = self._keeping(lambda each: each.predictor in predictors, predictors=kept)
        lost = set(baselines_of(self.settings.baseline, self.predictors)) - set(predictors)
        return run.with_benchmark(baseline=ALL_PAIRS) if lost else run

    def joined(self, other: RunData) -> Self:
        """Return the run with the predictors of another run over the same questions in addition."""
        predictors = (*self.record.predictors, *other.record.predictors)
        warnings = tuple(dict.fromkeys((*self.record.warnings, *other.record.warnings)))
        prices = self.record.prices or other.record.prices
        record = msgspec.structs.replace(self.record, predictors=predictors, warnings=warnings, prices=prices)
        return replace(self, record=record, rows=(*self.rows, *other.rows), timed=(*self.timed, *other.timed))

    def with_benchmark(self, **settings: object) -> Self:
        """Return the run with other settings of the benchmark, such as ``delta``."""
        section = BenchmarkSettings.section
        changed = {**self.record.settings, section: {**self.record.settings.get(section, {}), **settings}}
        return replace(self, record=msgspec.structs.replace(self.record, settings=changed))


def with_others(
    measures: tuple[NamedMeasure, ...], others: Sequence[NamedMeasure]
) -> tuple[NamedMeasure, ...]:
    """Add the measures in ``others`` that ``measures`` does not contain under any name."""
    for other in others:
        measures = measures if any(map(other.same, measures)) else (*measures, other)
    return measures


def _asked(directory: Path, record: RunRecord) -> tuple[Question, ...]:
    """Read the run's copy of its questions. Raises :class:`RunError` if the copy has changed."""
    path = directory / names.QUESTIONS
    try:
        questions = {question.id: question for question in load_questions(path)}
    except QuestionError as error:
        raise RunError(error.message, remedy="run the benchmark again") from error
    missing = [key for key in record.question_ids if key not in questions]
    if missing:
        raise RunError(f"{path} does not have the question {missing[0]!r} of the run")
    asked = tuple(questions[key] for key in record.question_ids)
    if questions_digest(asked) != record.questions_digest:
        raise RunError(f"{path} has changed since the run: its digest is different")
    return asked


def _check(run: RunData) -> None:
    """Raise :class:`RunError` if the settings or rows are invalid or inconsistent."""
    path = run.directory / names.RUN_JSON
    try:
        check_size(run.settings, [each.name for each in run.record.predictors])
    except msgspec.ValidationError as error:
        raise RunError(f"{path}: a setting of the benchmark is invalid: {error}") from None
    except UsageError as error:
        raise RunError(f"{path}: {error.message}") from None
    if crowded := next((each for each in run.asked if len(each.gold) > MOST_GOLD), None):
        count = len(crowded.gold)
        raise RunError(f"{path}: a question has {count} gold items, and at most {MOST_GOLD} are allowed")
    if not run.record.predictors or not run.asked:
        raise RunError(f"{path} does not list at least one predictor and one question")
    golds = {question.id: len(question.gold) for question in run.asked}
    rows = run.directory / run.record.rows_file
    known = {each.name for each in run.record.predictors}
    for row in run.rows:
        gold = max((item for hit in row.hits for item in hit.credits), default=-1)
        if row.predictor not in known:
            raise RunError(f"{rows}: a row has the unknown predictor {row.predictor!r}")
        if gold >= golds.get(row.question_id, -1):
            raise RunError(f"{rows}: the question or the gold of a row is unknown: {row.question_id!r}")
    if not run.rows:
        lost = "does not have a row" if rows.exists() else "is missing"
        raise RunError(f"{rows} {lost}", remedy="restore the file, or run the benchmark again")
    if len(known) < len(run.record.predictors) or len(set(run.record.question_ids)) < len(run.asked):
        raise RunError(f"{path} lists a predictor or a question twice")
