"""Figures of a run with what they can claim: intervals, percentiles of latency, cost, the frontier.

1. A rate has a Wilson interval; a mean that is not a rate (MRR, averaged repeats) a bootstrap interval over
   clusters.
2. A percentile of latency comes with the bound that its number of queries supports, or with none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from branchrank.llm.ledger import totals
from branchrank.measures.frontier import Choice, Standing, cheapest_not_inferior, frontier
from branchrank.measures.intervals import paired_bootstrap, rate
from branchrank.measures.latency import Percentile, percentile
from branchrank.measures.repeats import flip_rate as flipping
from branchrank.records import Record
from branchrank.runs.scores import NamedMeasure, mean
from branchrank.runs.timings import WARM, Timing

if TYPE_CHECKING:
    from branchrank.runs.run import RunData


class Estimate(Record, frozen=True, kw_only=True):
    """A mean over ``n`` questions with its 95% interval."""

    value: float
    low: float
    high: float
    n: int


def estimate(run: RunData, values: Mapping[str, float]) -> Estimate | None:
    """The mean of a predictor's scores per question with its interval; ``None`` without questions."""
    if not values:
        return None
    if set(values.values()) <= {0.0, 1.0}:
        found = rate(sum(value == 1.0 for value in values.values()), len(values))
        return Estimate(value=found.value, low=found.low, high=found.high, n=found.n)
    interval = paired_bootstrap(
        list(values.values()),
        [run.clusters[key] for key in values],
        seed=run.record.seed,
        resamples=run.settings.bootstrap,
    )
    return Estimate(
        value=mean(list(values.values())),
        low=max(0.0, interval.low),
        high=min(1.0, interval.high),
        n=len(values),
    )


def difference(run: RunData, a: Mapping[str, float], b: Mapping[str, float]) -> tuple[float, float, float]:
    """The mean of b - a over the questions, and its 95% interval."""
    differences = [b[key] - a[key] for key in run.clusters]
    interval = paired_bootstrap(
        differences,
        list(run.clusters.values()),
        seed=run.record.seed,
        resamples=run.settings.bootstrap,
    )
    return mean(differences), interval.low, interval.high


def flip_rate(run: RunData, predictor: str, measure: NamedMeasure) -> float:
    """The share of questions on which a predictor's repeats disagree."""
    scores = run.scores
    return flipping(
        [scores.value(row, measure) for row in scores.rows_of(predictor, key)] for key in scores.answerable
    )


def latencies(timings: Sequence[Timing], predictor: str) -> dict[str, tuple[Percentile, Percentile]]:
    """Stage -> (p50, p95) of a predictor's warm queries, in the order in which the stages appear."""
    times: dict[str, list[float]] = {}
    for timing in timings:
        if timing.predictor == predictor and timing.phase == WARM:
            times.setdefault(timing.stage, []).append(timing.ms)
    return {stage: (percentile(ms, 0.5), percentile(ms, 0.95)) for stage, ms in times.items()}


def cost_per_query(run: RunData, predictor: str) -> float | None:
    """Money per query under the run's price table; ``None`` without a price."""
    rows = run.scores.rows(predictor)
    found = totals([call for row in rows for call in row.calls], run.record.prices).cost
    return None if found is None or not rows else found / len(rows)


def standings(run: RunData) -> list[Standing]:
    """Quality on the primary measure, p95 and LLM cost per query (money where all is priced, else tokens).

    Empty when no latency was measured.
    """
    costs = [cost_per_query(run, row.predictor) for row in run.summary_rows]
    priced = run.record.prices is not None and None not in costs
    return [
        Standing(
            name=row.predictor,
            quality=run.scores.average(row.predictor, run.primary),
            p95_ms=row.latency_p95_ms,
            cost=cost if priced and cost is not None else row.llm_tokens_per_query,
        )
        for row, cost in zip(run.summary_rows, costs, strict=True)
        if row.latency_p95_ms is not None
    ]


def choice(run: RunData, found: Sequence[Standing]) -> tuple[tuple[Standing, ...], Choice]:
    """The frontier, and the cheapest predictor that is not inferior to the best one by delta."""
    cheapest = cheapest_not_inferior(
        found,
        {name: run.scores.per_question(name, run.primary) for name in run.predictors},
        run.clusters,
        measure=run.primary.name,
        delta=run.settings.delta,
        seed=run.record.seed,
    )
    return frontier(found), cheapest
