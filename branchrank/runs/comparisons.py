"""What a run declares before it starts, and the comparisons that follow from it.

1. The unit is the question; repeats of an LLM predictor are averaged first. A cluster is a gold source.
2. Every predictor is compared with the declared baseline on the declared primary measure.
"""

from __future__ import annotations

from collections.abc import Sequence

from branchrank.errors import UsageError, suggestion
from branchrank.measures.matching import source_cluster
from branchrank.measures.names import NamedMeasure, named_measure
from branchrank.measures.verdicts import Comparison, compare_predictors
from branchrank.records import Record
from branchrank.runs.scores import Scores, extra_measures
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
    return named_measure(f"{settings.mode}_{settings.primary.removeprefix(f'{measure.mode}_')}")


def check_plan(settings: BenchmarkSettings, predictors: Sequence[str]) -> None:
    """Raise :class:`UsageError`, before any work, for a measure or a baseline that does not exist."""
    extra_measures(primary_measure(settings), settings.measures)
    if settings.baseline and settings.baseline not in predictors:
        raise UsageError(
            f"the baseline {settings.baseline!r} is not among the predictors {', '.join(predictors)}",
            remedy=suggestion(settings.baseline, predictors) or "name one of them with --baseline",
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
