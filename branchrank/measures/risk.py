"""Risk and coverage over questions that may have no answer: does a predictor know when not to answer?

1. Order all questions by the predictor's confidence (its best hit's score), most confident first.
2. Let it answer only the most confident share (the coverage); the risk is the share of wrong answers among
   those. Any answer to an unanswerable question is wrong. Questions of equal confidence are added together.
3. AURC, the area under the curve, is the mean risk as the answered questions grow from 1 to n; lower is
   better. Even a perfect order of the same answers leaves some risk; the excess over it is due to the order
   alone (Geifman and El-Yaniv 2017; Geifman, Uziel and El-Yaniv 2019).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import fsum

from branchrank.records import Record


class Answer(Record, frozen=True, kw_only=True):
    """A predictor's confidence on one question (``None``: it returned nothing and so abstains), and
    whether its answer is right."""

    confidence: float | None
    right: bool


class RiskPoint(Record, frozen=True, kw_only=True):
    """Answering whenever the confidence is at least ``threshold``: share answered, share of it wrong."""

    threshold: float
    coverage: float
    risk: float


class RiskCoverage(Record, frozen=True, kw_only=True):
    """The curve, its area, and the area above that of the best possible order; both in 0..1.

    ``None`` for a predictor that never answers: its risk is not defined at any coverage, and 0 would look
    perfect.
    """

    points: tuple[RiskPoint, ...]
    aurc: float | None
    excess: float | None


def risk_coverage(answers: Sequence[Answer]) -> RiskCoverage:
    """The curve over all questions; without points for a predictor that never answers.

    The areas are taken over the answered questions only, so that abstaining costs coverage, not risk: read
    them together with the coverage of the last point.
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
