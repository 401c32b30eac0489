"""The Pareto frontier of pipelines over quality, latency and cost, and the cheapest non-inferior pipeline.

1. The frontier consists of the pipelines that no other pipeline dominates. A pipeline dominates another
   pipeline by being at least as good in quality, p95 latency and cost, and better in at least one of them.
2. The pipeline with the highest quality, called the best pipeline, is compared with every other pipeline. A
   pipeline is non-inferior if the confidence interval for its difference in quality from the best pipeline
   excludes a loss of delta or more. Among the non-inferior pipelines, the one with the lowest cost is chosen;
   ties are broken by the lowest p95 latency, then by the highest quality, then by name. Choosing the best
   pipeline by its observed quality tends to overestimate its true quality. A cheaper pipeline is therefore
   less likely to count as non-inferior.
3. Among pipelines that share the highest quality, the pipeline ``preferred`` counts as the best. Reports pass
   the baseline as ``preferred``, since there is no reason to replace the baseline with an equally good
   pipeline. If ``preferred`` does not have the highest quality, the cheapest of the pipelines with the
   highest quality counts as the best. Ties are broken by the lowest p95 latency, then by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from branchrank.measures.verdicts import DELTA, Scores, compare_predictors
from branchrank.records import Record


class Standing(Record, frozen=True, kw_only=True):
    """One pipeline's mean quality, p95 latency in ms and cost per query.

    The cost is in LLM tokens, LLM calls or money. The costs of all pipelines in a comparison must be in the
    same unit.
    """

    name: str
    quality: float
    p95_ms: float
    cost: float


def frontier(standings: Sequence[Standing]) -> tuple[Standing, ...]:
    """Return the pipelines that no other pipeline dominates, sorted by quality, cost, p95 and name."""
    kept = [each for each in standings if not any(_dominates(other, each) for other in standings)]
    return tuple(sorted(kept, key=lambda each: (-each.quality, each.cost, each.p95_ms, each.name)))


def _dominates(a: Standing, b: Standing) -> bool:
    better_or_equal = a.quality >= b.quality and a.p95_ms <= b.p95_ms and a.cost <= b.cost
    return better_or_equal and (a.quality, a.p95_ms, a.cost) != (b.quality, b.p95_ms, b.cost)


class Choice(Record, frozen=True, kw_only=True):
    """The cheapest pipeline that is non-inferior to the pipeline ``best``.

    A pipeline is non-inferior if the confidence interval for its difference in quality from ``best`` excludes
    a loss of ``delta`` or more. ``not_inferior`` contains the names of all non-inferior pipelines, including
    ``best``.
    """

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
    """Return the cheapest pipeline that is shown to be within ``delta`` of the highest quality.

    ``scores`` maps pipeline -> question id -> score. If several pipelines share the highest quality,
    ``preferred`` counts as the best.
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
    # The interval must exclude a loss of delta or more. A non-significant difference is not enough.
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
