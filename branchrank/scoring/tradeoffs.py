"""Trade-offs: quality against latency and cost (Pareto frontier), and risk against coverage.

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

A risk-coverage curve shows whether a predictor's confidence separates correct from wrong answers.

1. Sort all questions by the predictor's confidence (the score of its best hit), most confident first.
2. If the predictor answers only the questions above a confidence threshold, the coverage is the share of
   questions that it answers. The risk is the share of wrong answers among the answered questions. Any answer
   to an unanswerable question is wrong. Questions with equal confidence share one point of the curve.
3. AURC, the area under the curve, is the mean of the risks after 1, 2, ..., n answered questions; lower is
   better. If some answers are wrong, the AURC is above 0 even if the answers are in the best possible order.
   The excess, which is the AURC minus the AURC for the best order, shows how far the order of the answers is
   from the best order (Geifman and El-Yaniv 2017; Geifman, Uziel and El-Yaniv 2019).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from math import fsum
from typing import TYPE_CHECKING

from branchrank.core.records import Record
from branchrank.scoring.comparison import DEFAULTS, CompareOptions, Comparison

if TYPE_CHECKING:
    from branchrank.scoring.verdicts import Scores


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
    ``best``. ``compared`` contains the comparisons of the other pipelines with ``best``.
    """

    best: str
    cheapest: Standing
    not_inferior: tuple[str, ...]
    compared: tuple[Comparison, ...] = ()


def cheapest_not_inferior(
    standings: Sequence[Standing],
    scores: Mapping[str, Scores],
    clusters: Mapping[str, str],
    *,
    measure: str,
    options: CompareOptions = DEFAULTS,
    preferred: str = "",
) -> Choice:
    """Return the cheapest pipeline that is shown to be within ``options.delta`` of the highest quality.

    ``scores`` maps pipeline -> question id -> score. If several pipelines share the highest quality,
    ``preferred`` counts as the best.
    """
    best = min(
        standings,
        key=lambda each: (-each.quality, each.name != preferred, each.cost, each.p95_ms, each.name),
    ).name
    from branchrank.scoring.verdicts import compare_pairs

    pairs = [(best, each.name) for each in standings if each.name != best]
    compared = compare_pairs(pairs, scores, clusters, measure=measure, options=options)
    # A loss of delta or more must be excluded. A non-significant difference is not enough.
    passing = {best} | {each.candidate for each in compared if each.excludes_loss}
    qualified = [each for each in standings if each.name in passing]
    cheapest = min(qualified, key=lambda each: (each.cost, each.p95_ms, -each.quality, each.name))
    names = tuple(each.name for each in qualified)
    return Choice(best=best, cheapest=cheapest, not_inferior=names, compared=compared)


class RiskCoverage(Record, frozen=True, kw_only=True):
    """A risk-coverage curve, the area under the curve (AURC), and the excess over the best possible AURC.

    Each of the ``points`` contains a coverage and the risk at this coverage, if only the answers with the
    highest confidence are given. ``aurc`` and ``excess`` are in 0..1, or ``None`` if the predictor never
    answers. Without answers, the risk is not defined, and an area of 0 would look like a perfect result.
    """

    points: tuple[tuple[float, float], ...]
    aurc: float | None
    excess: float | None


def risk_coverage(answers: Sequence[tuple[float | None, bool]]) -> RiskCoverage:
    """Return the risk-coverage curve, which has no points if the predictor never answers.

    ``answers`` contains a predictor's confidence for each question, and whether its answer is correct. The
    confidence is ``None`` if the predictor returned no hits, which means that the predictor abstains.

    The area under the curve covers only the answered questions. A predictor that abstains on a question
    lowers its coverage, but the abstention does not count as a wrong answer. If you compare the areas under
    two curves, therefore also compare the coverage at the last point of each curve.
    """
    given = [(confidence, right) for confidence, right in answers if confidence is not None]
    given.sort(key=lambda each: -each[0])
    points = []
    answered = wrong = 0
    area = 0.0
    for _, group in groupby(given, key=lambda each: each[0]):
        rights = [right for _, right in group]
        answered += len(rights)
        wrong += rights.count(False)
        area += len(rights) * wrong / answered
        points.append((answered / len(answers), wrong / answered))
    if not answered:
        return RiskCoverage(points=(), aurc=None, excess=None)
    first_wrong = answered - wrong
    ideal = fsum((place - first_wrong) / place for place in range(first_wrong + 1, answered + 1))
    return RiskCoverage(
        points=tuple(points), aurc=area / answered, excess=max(0.0, (area - ideal) / answered)
    )
