"""Risk-coverage curves, which show whether a predictor's confidence separates correct from wrong answers.

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

from collections.abc import Sequence
from itertools import groupby
from math import fsum

from branchrank.records import Record


class Answer(Record, frozen=True, kw_only=True):
    """A predictor's confidence for one question, and whether its answer is correct.

    The confidence is ``None`` if the predictor returned no hits, which means that the predictor abstains.
    """

    confidence: float | None
    right: bool


class RiskPoint(Record, frozen=True, kw_only=True):
    """The coverage and the risk if only answers with a confidence of at least ``threshold`` are given."""

    threshold: float
    coverage: float
    risk: float


class RiskCoverage(Record, frozen=True, kw_only=True):
    """A risk-coverage curve, the area under the curve (AURC), and the excess over the best possible AURC.

    ``aurc`` and ``excess`` are in 0..1, or ``None`` if the predictor never answers. Without answers, the risk
    is not defined, and an area of 0 would look like a perfect result.
    """

    points: tuple[RiskPoint, ...]
    aurc: float | None
    excess: float | None


def risk_coverage(answers: Sequence[Answer]) -> RiskCoverage:
    """Return the risk-coverage curve, which has no points if the predictor never answers.

    The area under the curve covers only the answered questions. A predictor that abstains on a question
    lowers its coverage, but the abstention does not count as a wrong answer. If you compare the areas under
    two curves, therefore also compare the coverage at the last point of each curve.
    """
    given = [(answer.confidence, answer.right) for answer in answers if answer.confidence is not None]
    given.sort(key=lambda each: -each[0])
    points = []
    answered = wrong = 0
    area = 0.0
    for threshold, group in groupby(given, key=lambda each: each[0]):
        rights = [right for _, right in group]
        answered += len(rights)
        wrong += rights.count(False)
        area += len(rights) * wrong / answered
        points.append(RiskPoint(threshold=threshold, coverage=answered / len(answers), risk=wrong / answered))
    if not answered:
        return RiskCoverage(points=(), aurc=None, excess=None)
    first_wrong = answered - wrong
    ideal = fsum((place - first_wrong) / place for place in range(first_wrong + 1, answered + 1))
    return RiskCoverage(
        points=tuple(points), aurc=area / answered, excess=max(0.0, (area - ideal) / answered)
    )
