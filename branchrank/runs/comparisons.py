"""What a run declares before it starts, and the comparisons that follow from it.

1. The unit is the question; repeats of an LLM predictor are averaged first. A cluster is a gold source.
2. Every predictor is compared with the declared baseline on the declared primary measure.
"""

from __future__ import annotations

from collections.abc import Sequence

from branchrank.errors import UsageError, suggestion
from branchrank.measures.matching import SHARES, source_cluster
from branchrank.measures.names import NamedMeasure, measure_names, named_measure, named_measures, named_once
from branchrank.measures.verdicts import Comparison, compare_predictors
from branchrank.records import Record
from branchrank.runs.scores import Scores
from branchrank.settings import BenchmarkSettings


class Judgement(Record, frozen=True, kw_only=True):
    """The comparisons of a run on one measure, and the predictor that stands out.

    ``winner`` is a predictor whose lead passed its adjusted test: the best candidate if it is better than the
    baseline, or the baseline if every candidate is worse; else ``None``.
    """

    measure: str
    baseline: str
    comparisons: tuple[Comparison, ...]
    winner: str | None


def primary_measure(settings: BenchmarkSettings) -> NamedMeasure:
    """The declared primary measure, under the scoring that ``--mode`` reports."""
    measure = named_measure(settings.primary)
    if settings.mode == "both" or measure.mode in (settings.mode, "graded"):
        return measure
    if settings.mode == "strict" and measure.mode in SHARES:
        return measure
    return named_measure(f"{settings.mode}_{settings.primary.removeprefix(f'{measure.mode}_')}")


def declared_measures(settings: BenchmarkSettings) -> tuple[NamedMeasure, ...]:
    """The primary measure and the others that were chosen, each once. Raises :class:`UsageError`."""
    return named_once(primary_measure(settings), *named_measures(measure_names(settings.measures)))


def check_plan(settings: BenchmarkSettings, predictors: Sequence[str]) -> None:
    """Raise :class:`UsageError`, before any work, for a measure or a baseline that does not exist, and for a
    measure that looks deeper than the run keeps hits."""
    for measure in declared_measures(settings):
        check_depth(measure, settings.top_k)
    if settings.baseline and settings.baseline not in predictors:
        raise UsageError(
            f"the baseline {settings.baseline!r} is not among the predictors {', '.join(predictors)}",
            remedy=suggestion(settings.baseline, predictors) or "name one of them with --baseline",
        )


def check_depth(measure: NamedMeasure, top_k: int) -> None:
    """Raise :class:`UsageError` for a measure that looks deeper than ``top_k`` hits."""
    cutoff = measure.measure.cutoff or 0
    if cutoff > top_k:
        raise UsageError(
            f"measure {measure.name!r} looks at {cutoff} hits, and --top-k {top_k} keeps fewer",
            remedy=f"--top-k {cutoff}, or a cutoff of at most {top_k}",
        )


def check_kept(measure: NamedMeasure, kept: int) -> None:
    """Raise :class:`UsageError` for a measure that looks deeper than finished runs kept hits."""
    cutoff = measure.measure.cutoff or 0
    if cutoff > kept:
        raise UsageError(
            f"measure {measure.name!r} looks at {cutoff} hits, and {kept} were kept for each question",
            remedy=f"take a cutoff of at most {kept}, or run the benchmark again with this measure",
        )


def clusters_of(scores: Scores) -> dict[str, str]:
    """Question id -> the source of its gold, for the answerable questions."""
    return {key: source_cluster(scores.questions[key]) for key in scores.answerable}


def judge(scores: Scores, measure: NamedMeasure, settings: BenchmarkSettings, seed: int) -> Judgement:
    """Compare every predictor with the declared baseline (the first predictor where none is declared)."""
    baseline = settings.baseline or scores.predictors[0]
    clusters = clusters_of(scores)
    if not clusters or len(scores.predictors) == 1:
        return Judgement(measure=measure.name, baseline=baseline, comparisons=(), winner=None)
    comparisons = compare_predictors(
        {name: scores.per_question(name, measure) for name in scores.predictors},
        clusters,
        baseline=baseline,
        measure=measure.name,
        delta=settings.delta,
        alpha=settings.alpha,
        seed=seed,
    )
    return Judgement(
        measure=measure.name, baseline=baseline, comparisons=comparisons, winner=_winner(comparisons)
    )


def _winner(comparisons: Sequence[Comparison]) -> str | None:
    best = max(comparisons, key=lambda each: each.mean_b)
    if best.verdict == "better":
        return best.candidate
    return best.baseline if all(each.verdict == "worse" for each in comparisons) else None
