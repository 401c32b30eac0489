"""What a run says about its predictors: intervals, verdicts, latency bounds and the frontier.

1. The unit is the question; repeats of an LLM predictor are averaged first. A cluster is a gold source.
2. Every predictor is held against the declared baseline on the declared primary measure.
3. A rate has a Wilson interval; a mean that is no rate (MRR, averaged repeats) a bootstrap interval over
   clusters.
4. A percentile of latency comes with the bound that its number of queries supports, or with none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from branchrank.errors import UsageError
from branchrank.llm.ledger import totals
from branchrank.measures.frontier import Choice, Standing, cheapest_not_inferior, frontier
from branchrank.measures.intervals import paired_bootstrap, rate
from branchrank.measures.latency import Percentile, percentile
from branchrank.measures.matching import source_cluster
from branchrank.measures.repeats import average_repeats
from branchrank.measures.verdicts import Comparison, compare_predictors
from branchrank.records import LLMCall, Record
from branchrank.runs.directory import RunRecord
from branchrank.runs.scores import NamedMeasure, Scores, mean, named_measure
from branchrank.runs.summary import SummaryRow
from branchrank.runs.timings import Timing
from branchrank.settings import BenchmarkSettings


class Estimate(Record, frozen=True, kw_only=True):
    """A mean over ``n`` questions with its 95% interval."""

    value: float
    low: float
    high: float
    n: int


class Judgement(Record, frozen=True, kw_only=True):
    """The comparisons of a run on one measure, and who stands out.

    ``winner`` is a predictor whose lead passed its adjusted test: the best candidate if it is better than the
    baseline, or the baseline if every candidate is worse; else ``None``.
    """

    measure: str
    baseline: str
    comparisons: tuple[Comparison, ...]
    winner: str | None


def benchmark_settings(run: RunRecord) -> BenchmarkSettings:
    """The settings under which the run was made."""
    return msgspec.convert(run.settings.get(BenchmarkSettings.section, {}), BenchmarkSettings)


def primary_measure(settings: BenchmarkSettings) -> NamedMeasure:
    """The declared primary measure, under the scoring that ``--mode`` reports."""
    measure = named_measure(settings.primary)
    if settings.mode == "both" or measure.mode in (settings.mode, "graded"):
        return measure
    return named_measure(settings.mode + settings.primary.removeprefix(measure.mode))


def check_plan(settings: BenchmarkSettings, predictors: Sequence[str]) -> None:
    """Raise :class:`UsageError`, before any work, for a primary measure or baseline that isn't there."""
    primary_measure(settings)
    if settings.baseline and settings.baseline not in predictors:
        raise UsageError(
            f"the baseline {settings.baseline!r} is not among the predictors {', '.join(predictors)}",
            remedy="name one of them with --baseline",
        )


def clusters_of(scores: Scores) -> dict[str, str]:
    """Question id -> the source of its gold, for the answerable questions."""
    return {key: source_cluster(scores.questions[key]) for key in scores.answerable}


def judge_run(scores: Scores, run: RunRecord) -> Judgement:
    """Hold every predictor against the baseline on the primary measure."""
    settings = benchmark_settings(run)
    measure = primary_measure(settings)
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
        seed=run.seed,
        resamples=settings.bootstrap,
    )
    return Judgement(
        measure=measure.name, baseline=baseline, comparisons=comparisons, winner=_winner(comparisons)
    )


def _winner(comparisons: Sequence[Comparison]) -> str | None:
    best = max(comparisons, key=lambda each: each.mean_b)
    if best.verdict == "better":
        return best.candidate
    return best.baseline if all(each.verdict == "worse" for each in comparisons) else None


def estimate(values: Mapping[str, float], scores: Scores, run: RunRecord) -> Estimate | None:
    """The mean of a predictor's scores per question with its interval; ``None`` without questions."""
    if not values:
        return None
    if set(values.values()) <= {0.0, 1.0}:
        found = rate(sum(value == 1.0 for value in values.values()), len(values))
        return Estimate(value=found.value, low=found.low, high=found.high, n=found.n)
    clusters = clusters_of(scores)
    interval = paired_bootstrap(
        list(values.values()),
        [clusters[key] for key in values],
        seed=run.seed,
        resamples=benchmark_settings(run).bootstrap,
    )
    return Estimate(
        value=mean(list(values.values())),
        low=max(0.0, interval.low),
        high=min(1.0, interval.high),
        n=len(values),
    )


def difference(
    a: Mapping[str, float], b: Mapping[str, float], scores: Scores, run: RunRecord
) -> tuple[float, float, float]:
    """The mean of b - a over the questions, and its 95% interval."""
    clusters = clusters_of(scores)
    differences = [b[key] - a[key] for key in clusters]
    interval = paired_bootstrap(
        differences,
        list(clusters.values()),
        seed=run.seed,
        resamples=benchmark_settings(run).bootstrap,
    )
    return mean(differences), interval.low, interval.high


def flip_rate(scores: Scores, predictor: str, measure: NamedMeasure) -> float:
    """The share of questions on which a predictor's repeats disagree."""
    return average_repeats(
        {
            key: [scores.value(row, measure) for row in scores.rows_of(predictor, key)]
            for key in scores.answerable
        }
    ).flip_rate


def latencies(timings: Sequence[Timing], predictor: str) -> dict[str, tuple[Percentile, Percentile]]:
    """Stage -> (p50, p95) of a predictor's warm queries, in the order in which the stages appear."""
    times: dict[str, list[float]] = {}
    for timing in timings:
        if timing.predictor == predictor and timing.phase == "warm":
            times.setdefault(timing.stage, []).append(timing.ms)
    return {stage: (percentile(ms, 0.5), percentile(ms, 0.95)) for stage, ms in times.items()}


def cost_per_query(calls: Sequence[LLMCall], queries: int, run: RunRecord) -> float | None:
    """Money per query under the run's price table; ``None`` without a price."""
    found = totals(calls, run.prices).cost
    return None if found is None or not queries else found / queries


def standings(scores: Scores, summary: Sequence[SummaryRow], run: RunRecord) -> list[Standing]:
    """Quality on the primary measure, p95 and LLM cost per query (money where all is priced, else tokens).

    Empty when no latency was measured.
    """
    measure = primary_measure(benchmark_settings(run))
    costs = []
    for row in summary:
        rows = scores.rows(row.predictor)
        costs.append(cost_per_query([call for each in rows for call in each.calls], len(rows), run))
    priced = run.prices is not None and None not in costs
    return [
        Standing(
            name=row.predictor,
            quality=scores.average(row.predictor, measure),
            p95_ms=row.latency_p95_ms,
            cost=cost if priced and cost is not None else row.llm_tokens_per_query,
        )
        for row, cost in zip(summary, costs, strict=True)
        if row.latency_p95_ms is not None
    ]


def choice(found: Sequence[Standing], scores: Scores, run: RunRecord) -> tuple[tuple[Standing, ...], Choice]:
    """The frontier, and the cheapest predictor that is not inferior to the best one by delta."""
    settings = benchmark_settings(run)
    measure = primary_measure(settings)
    cheapest = cheapest_not_inferior(
        found,
        {name: scores.per_question(name, measure) for name in scores.predictors},
        clusters_of(scores),
        measure=measure.name,
        delta=settings.delta,
        seed=run.seed,
    )
    return frontier(found), cheapest
