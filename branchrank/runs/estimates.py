"""A run's means (with confidence intervals), latency percentiles, LLM costs and Pareto frontier.

1. The confidence interval for a mean allows for correlation between questions about the same page
   (:mod:`branchrank.measures.intervals`). Every table, plot and file uses the intervals from this module.
2. A latency percentile has an upper confidence bound if there are enough queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from branchrank.llm.ledger import totals
from branchrank.measures.frontier import Choice, Standing, cheapest_not_inferior, frontier
from branchrank.measures.intervals import difference_interval, mean_interval
from branchrank.measures.latency import Percentile, percentile
from branchrank.measures.names import NamedMeasure
from branchrank.measures.repeats import flip_rate as flipping
from branchrank.records import Record
from branchrank.runs.scores import mean
from branchrank.runs.timings import WARM, Timing

if TYPE_CHECKING:
    from branchrank.runs.run import RunData


class Estimate(Record, frozen=True, kw_only=True):
    """A mean over ``n`` questions, with its 95% confidence interval.

    ``low`` and ``high`` are ``None`` if the gold is on too few pages to compute an interval.
    """

    value: float
    low: float | None
    high: float | None
    n: int


def estimate(values: Mapping[str, float], clusters: Mapping[str, str]) -> Estimate | None:
    """Return the mean of a predictor's scores with its interval, or ``None`` if there are no questions.

    ``clusters`` maps each question's id to the source of its gold.
    """
    if not values:
        return None
    scores = list(values.values())
    found = mean_interval(scores, [clusters[key] for key in values])
    return Estimate(
        value=mean(scores),
        low=None if found is None else found.low,
        high=None if found is None else found.high,
        n=len(scores),
    )


def difference(run: RunData, a: Mapping[str, float], b: Mapping[str, float]) -> Estimate:
    """Return the mean score difference b - a, with an interval not adjusted for multiple comparisons."""
    differences = [b[key] - a[key] for key in run.clusters]
    found = difference_interval(differences, list(run.clusters.values()))
    return Estimate(
        value=mean(differences),
        low=None if found is None else found.low,
        high=None if found is None else found.high,
        n=len(differences),
    )


def flip_rate(run: RunData, predictor: str, measure: NamedMeasure) -> float:
    """Return the share of questions on which a predictor's repeats have different scores."""
    scores = run.scores
    return flipping(
        [scores.value(row, measure) for row in scores.rows_of(predictor, key)] for key in scores.answerable
    )


def latencies(timings: Sequence[Timing], predictor: str) -> dict[str, tuple[Percentile, Percentile]]:
    """Return the p50 and p95 of each stage's times in ms over a predictor's warm queries."""
    times: dict[str, list[float]] = {}
    for timing in timings:
        if timing.predictor == predictor and timing.phase == WARM:
            times.setdefault(timing.stage, []).append(timing.ms)
    return {stage: (percentile(ms, 0.5), percentile(ms, 0.95)) for stage, ms in times.items()}


def cost_per_query(run: RunData, predictor: str) -> float | None:
    """Return the mean LLM cost per query from the run's price table, or ``None`` if a call has no price."""
    rows = run.scores.rows(predictor)
    found = totals([call for row in rows for call in row.calls], run.record.prices).cost
    return None if found is None or not rows else found / len(rows)


def standings(run: RunData) -> list[Standing]:
    """Return each predictor's mean on the primary measure, its p95 latency and its LLM cost per query.

    The cost is an amount of money if all calls have a price, and otherwise a number of tokens. Predictors
    without a measured latency are omitted.
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
    """Return the Pareto frontier, and the cheapest predictor that is non-inferior to the best predictor.

    A predictor is non-inferior if the confidence interval for its difference from the best predictor excludes
    a loss of ``delta`` or more.
    """
    cheapest = cheapest_not_inferior(
        found,
        {name: run.scores.per_question(name, run.primary) for name in run.predictors},
        run.clusters,
        measure=run.primary.name,
        delta=run.settings.delta,
        seed=run.record.seed,
        preferred=run.judgment.baseline,
    )
    return frontier(found), cheapest
