"""Confidence intervals and effect sizes for rates, means and differences, over questions that share pages.

Each interval is a textbook interval for n independent questions, in which n is replaced by the effective
number of questions (:mod:`branchrank.scoring.clustering`). If every question has its own page, the effective
number of questions is n.

1. The interval for a rate is Wilson's score interval (Wilson 1927), with the effective number of questions as
   in Korn and Graubard (1998) and Franco, Little, Louis and Slud (2019).
2. The interval for a mean that is not a rate is a normal interval, computed after adding z**2 / 2 questions
   with value 0 and z**2 / 2 questions with value 1, where z is the normal quantile (1.96 for 95%). Applied to
   a rate, this method gives the interval of Agresti and Coull (1998).
3. :mod:`branchrank.scoring.inversion` has the interval for a difference.

If almost all questions have the same value, a sample can't show how strongly questions on the same page are
correlated. To estimate the design effect, pseudo-observations with an assumed intraclass correlation are
therefore z**2 pseudo-observations with an assumed intraclass correlation of 0.4 are added to the sample.
Without them, a single question whose value differs from all others would make the interval much wider.
``benchmarks/interval_coverage.py`` simulates how often each interval contains the true value.

Effect sizes, unlike p-values, do not depend on the sample size. The effect size for hit rates is the matched
odds ratio, wins / losses (Agresti 2013, section 11.1). The effect size for other measures is Cohen's d_z, the
mean difference divided by the standard deviation of the differences (Cohen 1988, section 2.3.5; Lakens 2013,
equation 7).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from branchrank.core.records import Record
from branchrank.scoring.clustering import (
    Padding,
    PageTotals,
    effective_questions,
    page_totals,
)
from branchrank.scoring.significance import ROUNDING, Floats

LEVEL = 0.95
#: The intraclass correlation that is assumed for one predictor's values on a page.
ASSUMED_ICC = 0.4


class Interval(Record, frozen=True, kw_only=True):
    """A confidence interval from ``low`` to ``high`` with confidence ``level``."""

    low: float
    high: float
    level: float = LEVEL


def mean_interval(
    values: Sequence[float] | Floats, pages: Sequence[str], *, level: float = LEVEL, shared: float = 0.0
) -> Interval | None:
    """Return the confidence interval for the mean of ``values`` (n,) in 0..1.

    If every value is 0 or 1, the interval is Wilson's. ``pages[i]`` is the source of the gold for question i.
    ``shared`` is the part of the mean's variance that all questions share (:func:`repeat_variance`). Returns
    ``None`` if there are no questions, or if the gold of the questions is on too few pages
    (:func:`~branchrank.scoring.clustering.effective_questions`).

    >>> found = mean_interval([1.0] * 14 + [0.0] * 6, [str(n) for n in range(20)])
    >>> round(found.low, 3), round(found.high, 3)
    (0.481, 0.855)
    """
    if not len(values):
        return None
    rate = bool(np.isin(values, (0.0, 1.0)).all())
    bounds = mean_bounds(page_totals(values, pages), level, rate=rate)
    if bounds is None or not shared:
        return _interval(bounds, level)
    center, half = (bounds[0] + bounds[1]) / 2, (bounds[1] - bounds[0]) / 2
    half = np.hypot(half, _z(level) * np.sqrt(shared))
    return _interval((np.maximum(center - half, 0.0), np.minimum(center + half, 1.0)), level)


def repeat_variance(scores: Sequence[Sequence[float]]) -> float:
    """Return the variance of the mean that comes from differences between whole repeats.

    ``scores[i][r]`` is the score of question i in repeat r. The variance between a question's repeats is part
    of the variance between the questions' means. If all questions are better in one repeat than in another,
    it is not, and is estimated by a two-way analysis of variance. Negative estimates become 0.
    """
    table = np.asarray(scores, dtype=float)
    if min(table.shape) < 2:
        return 0.0
    questions, repeats = table.shape
    rates = table.mean(axis=0)
    rest = table - table.mean(axis=1, keepdims=True) - rates + table.mean()
    noise = float(np.sum(rest**2)) / ((questions - 1) * (repeats - 1))
    return float(max(0.0, np.var(rates, ddof=1) - noise / questions) / repeats)


def _interval(bounds: tuple[Floats, Floats] | None, level: float) -> Interval | None:
    return None if bounds is None else Interval(low=float(bounds[0]), high=float(bounds[1]), level=level)


def mean_bounds(totals: PageTotals, level: float = LEVEL, *, rate: bool) -> tuple[Floats, Floats] | None:
    """Return the confidence bounds for means in 0..1; ``rate`` is true if all values are 0 or 1."""
    n = effective_questions(totals, level, mean_padding(level))
    if n is None:
        return None
    if rate:
        return wilson_bounds(totals.mean, n, level)
    return padded_bounds(totals, n, level)


def mean_padding(level: float) -> Padding:
    """Return the z**2 pseudo-observations, half 0 and half 1, to add to a sample of values in 0..1."""
    return Padding(questions=_z(level) ** 2, variance=0.25, icc=ASSUMED_ICC)


def _z(level: float) -> float:
    from scipy.special import ndtri

    return float(ndtri((1 + level) / 2))


def wilson_bounds(rate: Floats | float, n: Floats | float, level: float = LEVEL) -> tuple[Floats, Floats]:
    """Return Wilson's score interval for a ``rate`` over ``n`` questions (n can be fractional)."""
    z2 = _z(level) ** 2
    rate, n = np.asarray(rate), np.asarray(n)
    center = (rate + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(z2 * np.maximum(rate * (1 - rate), 0.0) / n + (z2 / (2 * n)) ** 2) / (1 + z2 / n)
    # If the rate is 0 or 1, one bound is equal to the rate, but the formula returns it with a rounding error.
    return (
        np.where(rate <= 0, 0.0, np.maximum(center - half, 0.0)),
        np.where(rate >= 1, 1.0, np.minimum(center + half, 1.0)),
    )


def padded_bounds(totals: PageTotals, n: Floats, level: float) -> tuple[Floats, Floats]:
    """Return the normal-approximation interval with z**2 / 2 zeros and z**2 / 2 ones added to the scores.

    ``n`` is the effective number of questions.
    """
    z2 = _z(level) ** 2
    mean = totals.mean
    center = (n * mean + z2 / 2) / (n + z2)
    second = (n * (totals.variance + mean**2) + z2 / 2) / (n + z2)
    half = np.sqrt(z2 * np.maximum(second - center**2, 0.0) / (n + z2))
    return np.maximum(center - half, 0.0), np.minimum(center + half, 1.0)


def matched_odds(wins: int, losses: int) -> float | None:
    """Return the matched odds ratio, from 0 to infinity (no losses), or ``None`` if there are only ties."""
    if losses:
        return wins / losses
    return inf if wins else None


def cohens_d(differences: Sequence[float] | Floats) -> float | None:
    """Return Cohen's d_z of paired ``differences`` (n,), their mean divided by their standard deviation.

    Returns ``None`` if there are fewer than two questions, or if all differences are equal.

    >>> round(cohens_d([0.2, 0.5, -0.1, 0.4]), 3)
    0.945
    """
    values = np.asarray(differences, dtype=np.float64)
    if len(values) < 2 or np.ptp(values) < ROUNDING:
        return None
    return float(values.mean() / values.std(ddof=1))
