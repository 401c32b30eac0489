"""Compare the predictors of a run, or two runs over the same questions, and check for regressions.

Runs with different questions can't be compared. Questions whose gold changed between the runs are compared
apart (:mod:`branchrank.runs.question_changes`). Holm's correction adjusts the p-values of all pairs of
predictors together. A positive difference means that the candidate is better.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from branchrank.core.errors import RunError, UsageError
from branchrank.core.io.printable import safe
from branchrank.core.records import NOT_REPORTED, Record
from branchrank.runs.comparisons import seen_with
from branchrank.runs.estimates import difference
from branchrank.runs.question_changes import (
    KINDS,
    CommonQuestions,
    Kind,
    QuestionChange,
    by_page,
    common_questions,
    described,
    question_changes,
)
from branchrank.runs.run_data import RunData
from branchrank.runs.scores import Estimate
from branchrank.runs.summary import SummaryRow
from branchrank.runs.tables import comparisons_sheet
from branchrank.runs.warnings import different_chunks, several_factors
from branchrank.runs.words import (
    change,
    effect,
    failed_words,
    gap_between,
    milliseconds,
    number,
    opening,
    plural,
    score,
    sentence,
)
from branchrank.scoring.comparison import MOST_FAILURES, CompareOptions, Comparison, Decision, Gate, gate
from branchrank.scoring.measures import NamedMeasure, mean, measure_names, named_measures, named_once
from branchrank.scoring.verdicts import compare_pairs

if TYPE_CHECKING:
    import pandas as pd


class PredictorComparisons(Record, frozen=True, kw_only=True):
    """The comparisons of a run's predictors on one measure, adjusted together with Holm's correction.

    ``failed`` are the predictors whose queries all failed, and which are not compared. ``str()`` returns the
    text that ``branchrank compare`` prints.
    """

    comparisons: tuple[Comparison, ...]
    failed: tuple[str, ...] = ()

    def __str__(self) -> str:
        said = [f"{opening(each)} {sentence(each)} Effect size: {effect(each)}." for each in self.comparisons]
        return _text([*said, *(f"{name}: not compared, because all queries failed." for name in self.failed)])

    @property
    def frame(self) -> pd.DataFrame:
        """A table with one row per comparison and the columns of ``comparisons.csv``."""
        return comparisons_sheet(self.comparisons).frame


class Change(Record, frozen=True, kw_only=True):
    """The difference in a measure between the two runs, without a significance test.

    ``difference`` is candidate - baseline, with its 95% interval. If ``gold`` is not empty, only the
    questions with this gold level are compared. ``str()`` returns one line with the two means and their
    difference.
    """

    measure: str
    baseline: float
    candidate: float
    difference: Estimate
    gold: str = ""

    def __str__(self) -> str:
        found = self.difference
        where = f"{self.gold} gold, " if self.gold else ""
        return (
            f"{where}{self.measure} {score(self.candidate, self.measure)} vs "
            f"{score(self.baseline, self.measure)} over {plural(found.n, 'question')}, "
            f"{change(found.value, self.measure)} "
            f"(95% interval, not tested: {gap_between(found.low, found.high, self.measure)})"
        )


class Pair(Record, frozen=True, kw_only=True):
    """The test of a predictor in the candidate run against a predictor in the baseline run.

    ``str()`` returns the text that ``branchrank compare`` prints for the pair.
    """

    #: The test of the primary measure, with the predictor's name in each run.
    comparison: Comparison
    #: The questions on which the candidate scored higher or lower, and those whose gold changed.
    questions: tuple[QuestionChange, ...]
    #: Whether one of them failed every query; then no verdict is printed.
    failed: bool
    #: The summary of each predictor in its run.
    baseline: SummaryRow
    candidate: SummaryRow
    #: The differences in the other chosen measures, and in the primary one for each of two gold levels and
    #: for the questions whose gold changed.
    others: tuple[Change, ...] = ()
    by_gold: tuple[Change, ...] = ()

    @property
    def won(self) -> tuple[str, ...]:
        """The questions on which the candidate scored higher."""
        return self.ids("won")

    @property
    def lost(self) -> tuple[str, ...]:
        """The questions on which the candidate scored lower."""
        return self.ids("lost")

    def ids(self, kind: Kind) -> tuple[str, ...]:
        """Return the ids of the questions with this kind of change."""
        return tuple(each.id for each in self.questions if each.kind == kind)

    def listed(self, kind: Kind) -> str:
        """Return one line with the ids of the questions with this kind of change, and their number."""
        ids = self.ids(kind)
        return f"{kind} ({len(ids)}): {', '.join(ids) or 'none'}"

    @property
    def labeled(self) -> Comparison:
        """The comparison for text, with the run of each predictor in its name."""
        found = self.comparison
        names = {"baseline": f"{found.baseline} (baseline)", "candidate": f"{found.candidate} (candidate)"}
        return msgspec.structs.replace(found, **names)

    def __str__(self) -> str:
        old, new, found = self.baseline, self.candidate, self.labeled
        verdict = [f"{opening(found)} {sentence(found)}", f"effect size: {effect(found)}"]
        if self.failed:
            verdict = [
                f"{found.candidate} vs {found.baseline}: no verdict, because every query of one failed."
            ]
        return _text(
            (
                *map(str, self.by_gold),
                *verdict,
                *map(str, self.others),
                f"p50: {milliseconds(old.latency_p50_ms)} -> {milliseconds(new.latency_p50_ms)} ms",
                f"p95: {milliseconds(old.latency_p95_ms)} -> {milliseconds(new.latency_p95_ms)} ms",
                f"LLM tokens per query: {number(old.llm_tokens_per_query, 0, NOT_REPORTED)} -> "
                f"{number(new.llm_tokens_per_query, 0, NOT_REPORTED)}; "
                f"lines per hit: {old.lines_per_hit or 0:.1f} -> {new.lines_per_hit or 0:.1f}",
                *(self.listed(kind) for kind in KINDS if kind in ("won", "lost") or self.ids(kind)),
            )
        )


class RunComparison(Record, frozen=True, kw_only=True):
    """A candidate run compared with a baseline run.

    ``changes`` contains the settings that differ between the runs. ``str()`` returns the text that
    ``branchrank compare`` prints.
    """

    baseline: Path
    candidate: Path
    questions: int
    conditions: tuple[str, ...]
    changes: tuple[str, ...]
    pairs: tuple[Pair, ...]

    def __str__(self) -> str:
        lines = [f"baseline: {self.baseline}", f"candidate: {self.candidate}"]
        if self.conditions:
            lines.append(f"only {' and '.join(self.conditions)}: {self.questions} questions")
        lines += [f"changed: {change}" for change in self.changes]
        return "\n\n".join([_text(lines), *map(str, self.pairs)])


class RunGate(Record, frozen=True, kw_only=True):
    """The outcome of a regression check, for each predictor and for the run.

    The run's outcome is the worst of its predictors' outcomes: ``fail`` is worse than ``undecided``, and
    ``undecided`` is worse than ``pass``. Only the primary measure affects the outcome. ``compared`` is the
    comparison of the runs, with the differences in all chosen measures.
    """

    outcome: Decision
    decisions: dict[str, Gate]
    compared: RunComparison

    def __str__(self) -> str:
        lines: list[str] = []
        for pair, (name, each) in zip(self.compared.pairs, self.decisions.items(), strict=True):
            lines += [f"{name}: {change}" for change in pair.by_gold]
            lines.append(f"{each.outcome}: {name}: {each.reason}")
            lines += [f"{name}: {change}" for change in pair.others]
            lines += [f"{name}: {pair.listed('won')}"] if pair.ids("won") else []
            lines += [f"{name}: {change}" for change in pair.questions if change.kind != "won"]
        return _text(lines)


def _text(lines: Iterable[str]) -> str:
    """Join the lines into one string, and replace characters that are not printable with U+FFFD."""
    return "\n".join(map(safe, lines))


def compare_runs(candidate: RunData, baseline: RunData, options: CompareOptions) -> RunComparison:
    """Compare each predictor of ``candidate`` with the predictor of the same name in ``baseline``.

    ``options.predictor`` selects one predictor of the candidate run, and ``options.baseline`` selects one
    predictor of the baseline run. If only one of them is given, its value is used for both runs. Only the
    primary measure is tested. Its default is the candidate run's primary measure. The candidate run's other
    measures and ``options.measures`` are reported with an interval, but not tested. Alpha and the seed are
    those of the candidate run.

    Raises :class:`RunError` if the two runs have different questions. Raises :class:`UsageError` if a
    predictor is not in its run, if a measure is unknown, or if a measure needs more hits than the runs
    stored.
    """
    common = common_questions(candidate, baseline)
    chosen = candidate.measure(options.primary)
    named = named_measures(name for text in options.measures for name in measure_names(text))
    others = [each for each in named_once(*candidate.extra, *named) if not each.same(chosen)]
    for each in others:
        candidate.check_kept(each)
        baseline.check_kept(each)
    pairs = tested_pairs(candidate, baseline, options)
    old, new = ({each.name: each for each in run.record.predictors} for run in (baseline, candidate))
    named_pairs = ((old[each.baseline.predictor], new[each.candidate.predictor]) for each in pairs)
    several = map(str, several_factors(named_pairs, " of the baseline run"))
    candidate, baseline = common.restricted(candidate), common.restricted(baseline)
    return RunComparison(
        baseline=baseline.directory,
        candidate=candidate.directory,
        questions=len(candidate.asked),
        conditions=candidate.conditions,
        changes=(*changed_settings(candidate, baseline), *several),
        pairs=tuple(
            msgspec.structs.replace(
                pair,
                others=tuple(_change(baseline, candidate, pair.comparison, each) for each in others),
                by_gold=(
                    *(
                        _change(baseline.by_gold[level], part, pair.comparison, chosen, level)
                        for level, part in candidate.by_gold.items()
                        if part is not candidate
                    ),
                    *pair.by_gold,
                ),
            )
            for pair in pairs
        ),
    )


def tested_pairs(candidate: RunData, baseline: RunData, options: CompareOptions) -> list[Pair]:
    """Return only the tests of :func:`compare_runs`. Raises the same errors."""
    common = common_questions(candidate, baseline)
    new_run, old_run = candidate, baseline
    candidate, baseline = common.restricted(candidate), common.restricted(baseline)
    chosen = candidate.measure(options.primary)
    baseline.check_kept(chosen)
    pairs = _pairs(candidate, baseline, options)
    before = {old: baseline.scores.per_question(old, chosen) for old, _ in pairs}
    after = {new: candidate.scores.per_question(new, chosen) for _, new in pairs}
    comparisons = compare_pairs(
        pairs,
        after,
        candidate.clusters,
        measure=chosen.name,
        merged=candidate.scores.merged,
        baselines=before,
        options=msgspec.structs.replace(
            options,
            alpha=candidate.settings.alpha,
            seed=candidate.record.seed,
            documents=candidate.options.documents,
        ),
    )
    return [
        Pair(
            comparison=seen_with(comparison, chosen, baseline.scores, candidate.scores),
            questions=tuple(
                described(key, kind, new_run, old_run, new)
                for key, kind in question_changes(before[old], after[new], common.apart)
            ),
            by_gold=_apart(old_run, new_run, comparison, chosen, common),
            failed=baseline.scores.failed(old) or candidate.scores.failed(new),
            baseline=baseline.summary_row(old),
            candidate=candidate.summary_row(new),
        )
        for (old, new), comparison in zip(pairs, comparisons, strict=True)
    ]


def _apart(
    baseline: RunData, candidate: RunData, pair: Comparison, measure: NamedMeasure, common: CommonQuestions
) -> tuple[Change, ...]:
    """Return the change on the questions whose gold changed, by page, if there are any."""
    relaxed, before = by_page(baseline, pair.baseline, measure, common.apart)
    _, after = by_page(candidate, pair.candidate, measure, common.apart)
    if not before:
        return ()
    gap = Estimate(value=mean(after) - mean(before), low=None, high=None, n=len(before))
    change = Change(
        measure=relaxed.name, baseline=mean(before), candidate=mean(after), difference=gap, gold="changed"
    )
    return (change,)


def _change(
    baseline: RunData, candidate: RunData, pair: Comparison, measure: NamedMeasure, gold: str = ""
) -> Change:
    before = baseline.scores.per_question(pair.baseline, measure)
    after = candidate.scores.per_question(pair.candidate, measure)
    return Change(
        measure=measure.name,
        baseline=mean(before.values()),
        candidate=mean(after.values()),
        difference=difference(candidate, before, after),
        gold=gold,
    )


def gate_runs(compared: RunComparison, delta: float) -> RunGate:
    """Check that no predictor is worse than in the baseline run by ``delta`` or more."""
    for pair in compared.pairs:
        if pair.comparison.failed_a > MOST_FAILURES:
            raise RunError(
                f"{failed_words(pair.comparison)} in the baseline run {compared.baseline}",
                remedy="make a new baseline run",
            )
    decisions = {pair.candidate.predictor: gate(pair.comparison, delta) for pair in compared.pairs}
    return RunGate(outcome=worst(decisions.values()), decisions=decisions, compared=compared)


def worst(decided: Iterable[Gate | RunGate]) -> Decision:
    """Return the worst outcome."""
    order: tuple[Decision, ...] = ("pass", "undecided", "fail")
    return max((each.outcome for each in decided), key=order.index)


def _pairs(candidate: RunData, baseline: RunData, options: CompareOptions) -> list[tuple[str, str]]:
    """Return pairs of predictor names, each with the name in the baseline run first."""
    wanted, wanted_old = options.predictor, str(options.baseline)
    if wanted or wanted_old:
        baseline.check_predictor(wanted_old or wanted, "the baseline run ")
        candidate.check_predictor(wanted or wanted_old, "the candidate run ")
        return [(wanted_old or wanted, wanted or wanted_old)]
    common = [name for name in candidate.predictors if name in baseline.predictors]
    if common:
        return [(name, name) for name in common]
    if len(baseline.predictors) == len(candidate.predictors) == 1:
        return [(baseline.predictors[0], candidate.predictors[0])]
    raise UsageError(
        f"the runs have no predictor in common: {', '.join(baseline.predictors)}; "
        f"{', '.join(candidate.predictors)}",
        remedy="choose a predictor from each run",
    )


def changed_settings(candidate: RunData, baseline: RunData) -> Iterator[str]:
    """Describe the settings that differ between two runs, each with the baseline's value first."""
    old, new = baseline.record, candidate.record
    for place, one, other in (("baseline", baseline, candidate), ("candidate", candidate, baseline)):
        alone = [name for name in one.predictors if name not in other.predictors]
        if alone and len(one.predictors) + len(other.predictors) > 2:  # two single systems are compared
            yield f"only in the {place} run: {', '.join(alone)}"
    for name in ("corpus_digest", "top_k", "mode", "seed"):
        if getattr(old, name) != getattr(new, name):
            yield f"{name}: {getattr(old, name)} -> {getattr(new, name)}"
    built = {each.name: each.digest for each in old.indexes}
    for index in new.indexes:
        if index.name in built and built[index.name] != index.digest:
            yield f"index {index.name}: another build"
    yield from different_chunks((*old.indexes, *new.indexes))
    shared = sorted(old.settings.keys() & new.settings.keys())
    before, after = (
        {f"{section}.{name}": value for section in shared for name, value in run.settings[section].items()}
        for run in (old, new)
    )
    yield from _differing(before, after)
    systems = {each.name: each.system for each in old.predictors}
    for each in new.predictors:
        system, section = systems.get(each.name), each.name.replace("-", "_")
        if system and each.system and section not in new.settings:
            was, now = (dict(_leaves(msgspec.to_builtins(of), each.name)) for of in (system, each.system))
            yield from _differing(was, now)


def _differing(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    """Describe the values that differ. A value that only one run has is ``None`` in the other."""
    for name in old | new:
        if old.get(name) != new.get(name):
            yield f"{name}: {old.get(name)} -> {new.get(name)}"


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Return each value inside nested dicts, lists and tuples, with its path."""
    if not isinstance(value, dict | list | tuple):
        yield name, value
        return
    for key, part in value.items() if isinstance(value, dict) else enumerate(value, start=1):
        yield from _leaves(part, f"{name}.{key}")
