"""Two runs over the same questions: paired comparisons, and the questions that flipped.

Runs over other questions, or with other gold, can't be paired and are refused. Predictors that are compared
at once are one family for Holm's correction.
"""

from __future__ import annotations

from collections.abc import Sequence

from branchrank.errors import RunError, UsageError
from branchrank.measures.verdicts import Comparison, compare_pairs
from branchrank.records import Record
from branchrank.runs.comparisons import benchmark_settings, clusters_of, primary_measure
from branchrank.runs.loading import LoadedRun
from branchrank.runs.scores import NamedMeasure, named_measure


class Flip(Record, frozen=True, kw_only=True):
    """A question on which the two differ, with both scores."""

    question_id: str
    before: float
    after: float


class Pair(Record, frozen=True, kw_only=True):
    """A predictor of run B against one of run A; ``flips`` in the order of the questions."""

    before: str
    after: str
    comparison: Comparison
    flips: tuple[Flip, ...]


def chosen_measure(name: str, run: LoadedRun) -> NamedMeasure:
    """The named measure, or the run's primary one."""
    return named_measure(name) if name else primary_measure(benchmark_settings(run.outcome.run))


def compare_runs(
    a: LoadedRun,
    b: LoadedRun,
    *,
    predictor_a: str = "",
    predictor_b: str = "",
    measure: NamedMeasure,
    delta: float,
) -> list[Pair]:
    """Hold the predictors of ``b`` against those of the same name in ``a``, or one named against one named.

    Raises :class:`RunError` when the questions are not the same, :class:`UsageError` when a predictor is not
    in its run.
    """
    check_same_questions(a, b)
    scores_a, scores_b = a.scores, b.scores
    clusters = clusters_of(scores_b)
    settings = benchmark_settings(b.outcome.run)
    pairs = _pairs(scores_a.predictors, scores_b.predictors, predictor_a, predictor_b)
    values = [
        (scores_a.per_question(before, measure), scores_b.per_question(after, measure))
        for before, after in pairs
    ]
    comparisons = compare_pairs(
        [
            ((f"{before} (A)", old), (f"{after} (B)", new))
            for (before, after), (old, new) in zip(pairs, values, strict=True)
        ],
        clusters,
        measure=measure.name,
        delta=delta,
        alpha=settings.alpha,
        seed=b.outcome.run.seed,
        resamples=settings.bootstrap,
    )
    compared = []
    for (before, after), (old, new), comparison in zip(pairs, values, comparisons, strict=True):
        flips = tuple(
            Flip(question_id=key, before=old[key], after=new[key])
            for key in scores_b.answerable
            if old[key] != new[key]
        )
        compared.append(Pair(before=before, after=after, comparison=comparison, flips=flips))
    return compared


def check_same_questions(a: LoadedRun, b: LoadedRun) -> None:
    """Raise :class:`RunError` unless both runs asked the same questions with the same gold."""
    run_a, run_b = a.outcome.run, b.outcome.run
    alone = sorted(set(run_a.question_ids) ^ set(run_b.question_ids))
    if alone:
        shown = ", ".join(alone[:5])
        raise RunError(
            f"the runs asked different questions: {len(alone)} are in one of them only ({shown}, ...)",
            remedy="run both on the same questions, sample size and seed",
        )
    if run_a.questions_digest != run_b.questions_digest:
        questions = {question.id: question for question in a.questions}
        changed = [each.id for each in b.questions if questions[each.id] != each]
        raise RunError(
            f"the runs asked the same ids with other text or gold: {', '.join(changed[:5])}",
            remedy="run both on the same question file",
        )


def _pairs(in_a: Sequence[str], in_b: Sequence[str], wanted_a: str, wanted_b: str) -> list[tuple[str, str]]:
    for wanted, there, run in ((wanted_a, in_a, "A"), (wanted_b, in_b, "B")):
        if wanted and wanted not in there:
            raise UsageError(
                f"run {run} has no predictor {wanted!r}", remedy=f"name one of {', '.join(there)}"
            )
    if wanted_a or wanted_b:
        return [(wanted_a or wanted_b, wanted_b or wanted_a)]
    common = [name for name in in_b if name in in_a]
    if common:
        return [(name, name) for name in common]
    if len(in_a) == len(in_b) == 1:
        return [(in_a[0], in_b[0])]
    raise UsageError(
        f"the runs have no predictor in common: {', '.join(in_a)}; {', '.join(in_b)}",
        remedy="name one of each",
    )


def changed_settings(a: LoadedRun, b: LoadedRun) -> list[str]:
    """What else differs between two runs, in words."""
    run_a, run_b = a.outcome.run, b.outcome.run
    changes = [
        f"{name}: {getattr(run_a, name)} -> {getattr(run_b, name)}"
        for name in ("corpus_digest", "top_k", "mode", "seed")
        if getattr(run_a, name) != getattr(run_b, name)
    ]
    indexes_a = {each.name: each.digest for each in run_a.indexes}
    changes += [
        f"index {each.name}: another build"
        for each in run_b.indexes
        if indexes_a.get(each.name) != each.digest
    ]
    for section in sorted(run_a.settings.keys() & run_b.settings.keys()):
        old, new = run_a.settings[section], run_b.settings[section]
        changes += [
            f"{section}.{name}: {old.get(name)} -> {new[name]}" for name in new if old.get(name) != new[name]
        ]
    return changes
