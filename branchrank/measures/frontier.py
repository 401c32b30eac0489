"""The Pareto frontier of pipelines over quality, latency and cost, and the cheapest good choice.

1. The frontier: every pipeline that is not dominated (Pareto). One pipeline dominates another if it is at
   least as good in quality, p95 and cost, and better in at least one of them.
2. The cheapest not inferior: compare all with the one of the highest quality; among those whose interval
   excludes a loss of delta or more, take the lowest cost, then p95, then the higher quality. Choosing the
   best by its observed quality favours it, so the choice is biased towards quality.
3. If several share the highest quality, the preferred one among them is the best; a report prefers the
   baseline, since there is no reason to change from it. Otherwise the best is the cheapest, then the fastest,
   then the first by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from branchrank.measures.verdicts import DELTA, Scores, compare_predictors
from branchrank.records import Record


class Standing(Record, frozen=True, kw_only=True):
    """One pipeline: mean quality (higher is better), p95 in ms and cost per query (lower is better; LLM
    tokens, calls or money, the same for all)."""

    name: str
    quality: float
    p95_ms: float
    cost: float


def frontier(standings: Sequence[Standing]) -> tuple[Standing, ...]:
    """Return the pipelines that are not dominated, by best quality, then cost, p95 and name."""
    kept = [each for each in standings if not any(_dominates(other, each) for other in standings)]
    return tuple(sorted(kept, key=lambda each: (-each.quality, each.cost, each.p95_ms, each.name)))


def _dominates(a: Standing, b: Standing) -> bool:
    better_or_equal = a.quality >= b.quality and a.p95_ms <= b.p95_ms and a.cost <= b.cost
    return better_or_equal and (a.quality, a.p95_ms, a.cost) != (b.quality, b.p95_ms, b.cost)


class Choice(Record, frozen=True, kw_only=True):
    """The cheapest pipeline not inferior to ``best`` by ``delta``, and all that qualified."""

    best: str
    cheapest: Standing
    not_inferior: tuple[str, ...]
    delta: float


def cheapest_not_inferior(
    standings: Sequence[Standing],
    scores: Mapping[str, Scores],
    clusters: Mapping[str, str],
    *,
    measure: str,
    delta: float = DELTA,
    seed: int = 0,
    preferred: str = "",
) -> Choice:
    """Choose among at least one pipeline; ``scores`` holds per-question scores for each of their names.

    ``preferred`` is the best one where several have the highest quality.
    """
    best = min(
        standings,
        key=lambda each: (-each.quality, each.name != preferred, each.cost, each.p95_ms, each.name),
    ).name
    compared = compare_predictors(
        {each.name: scores[each.name] for each in standings},
        clusters,
        baseline=best,
        measure=measure,
        delta=delta,
        seed=seed,
    )
    # Few questions without a difference show nothing: only the interval counts here.
    passing = {best} | {
        each.candidate for each in compared if each.ci_low is not None and each.ci_low > -delta
    }
    qualified = [each for each in standings if each.name in passing]
    cheapest = min(qualified, key=lambda each: (each.cost, each.p95_ms, -each.quality, each.name))
    return Choice(
        best=best,
        cheapest=cheapest,
        not_inferior=tuple(each.name for each in qualified),
        delta=delta,
    )
