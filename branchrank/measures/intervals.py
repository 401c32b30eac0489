"""Intervals for rates, for means and for paired differences, over questions that share pages.

All of them are textbook intervals for independent questions, taken at the number of independent questions
that the sample is worth (:mod:`branchrank.measures.clustering`); with one question per page that is n.

1. A rate: Wilson's score interval (Wilson 1927), at the effective size as in Korn and Graubard (1998) and
   Franco, Little, Louis and Slud (2019).
2. A mean that is not a rate: the normal interval after adding z**2 / 2 questions at either end of the scale,
   0 and 1. For a rate that is the interval of Agresti and Coull (1998).
3. A difference of hits (all are -1, 0 or 1): Tango's score interval (Tango 1998). It holds the differences
   that the score test of paired proportions doesn't reject. Without any differing question it ends where
   Wilson's interval of 0 in n does.
4. Any other difference: Student's t. The variance also counts z**2 questions, times the share of ties, which
   differ by as much as the differing ones (one more tie and one more difference of 1 count in both figures).
   If all questions differ, next to nothing is added; if none does, the interval is about that of hits.

If few questions fail or differ, a sample can't show how strongly questions of one page correlate. So added
questions count in that estimate, with an assumed correlation within pages: for rates and means z**2 of them
with 0.4, for differences half as many with 0.2. Without them, the interval with one differing question would
be much wider than with none. ``benchmarks/interval_coverage.py`` simulates how often each interval
contains the true value.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from branchrank.measures.clustering import (
    Padding,
    PageTotals,
    effective_questions,
    page_totals,
    t_penalty,
)
from branchrank.measures.significance import Floats
from branchrank.records import Record

LEVEL = 0.95
#: The assumed correlation of the values of one page, for one predictor and for a difference, in which most of
#: a page's difficulty cancels.
ASSUMED_ICC = 0.4
ASSUMED_ICC_OF_DIFFERENCES = 0.2
#: Halvings of the scale that find a bound of Tango's interval to the last digit.
HALVINGS = 55


class Interval(Record, frozen=True, kw_only=True):
    """``low <= high``, of confidence ``level``."""

    low: float
    high: float
    level: float = LEVEL


def mean_interval(
    values: Sequence[float] | Floats, pages: Sequence[str], *, level: float = LEVEL
) -> Interval | None:
    """Interval of the mean of ``values`` (n,), each in 0..1; Wilson's where all are 0 or 1.

    ``pages`` (n,) are the sources of the questions' gold. ``None`` without questions, and where too few pages
    share them (:func:`~branchrank.measures.clustering.effective_questions`).

    >>> found = mean_interval([1.0] * 14 + [0.0] * 6, [str(n) for n in range(20)])
    >>> round(found.low, 3), round(found.high, 3)
    (0.481, 0.855)
    """
    if not len(values):
        return None
    rate = bool(np.isin(values, (0.0, 1.0)).all())
    return _interval(mean_bounds(page_totals(values, pages), level, rate=rate), level)


def difference_interval(
    differences: Sequence[float] | Floats, pages: Sequence[str], *, level: float = LEVEL
) -> Interval | None:
    """Interval of the mean of paired ``differences`` (n,), each in -1..1; ``None`` as in
    :func:`mean_interval`.

    >>> found = difference_interval([0.0] * 20, [str(n) for n in range(20)])
    >>> round(found.low, 4), round(found.high, 4)
    (-0.1611, 0.1611)
    >>> found = difference_interval([0.02, 0.05, 0.01, 0.04] * 5, [str(n) for n in range(20)])
    >>> round(found.low, 3), round(found.high, 3)
    (0.017, 0.043)
    """
    if not len(differences):
        return None
    hits = bool(np.isin(differences, (-1.0, 0.0, 1.0)).all())
    return _interval(difference_bounds(page_totals(differences, pages), level, hits=hits), level)


def compatible(
    interval: Interval | None, found: float, *, rejected: bool, null: float = 0.0
) -> Interval | None:
    """Adjust the interval ``found`` of a difference or another figure to agree with the test of ``null``.

    If the test ``rejected`` the null value, and with it everything on the far side, the interval ends at the
    null. Otherwise the interval includes it. So it misses a true null exactly as often as the test rejects
    one. Holm's test has simultaneous bounds of this kind (Strassburger and Bretz 2008).

    >>> compatible(Interval(low=-0.01, high=0.13), 0.06, rejected=True).low
    0.0
    """
    if interval is None:
        return None
    low, high = interval.low, interval.high
    if not rejected:
        low, high = min(low, null), max(high, null)
    elif found > null:
        low = max(low, null)
    else:
        high = min(high, null)
    return Interval(low=low, high=high, level=interval.level)


def _interval(bounds: tuple[Floats, Floats] | None, level: float) -> Interval | None:
    return None if bounds is None else Interval(low=float(bounds[0]), high=float(bounds[1]), level=level)


def mean_bounds(totals: PageTotals, level: float = LEVEL, *, rate: bool) -> tuple[Floats, Floats] | None:
    """Bounds (...) of means in 0..1; ``rate`` says that the values are 0 or 1."""
    n = effective_questions(totals, level, mean_padding(level))
    if n is None:
        return None
    if rate:
        return wilson_bounds(totals.mean, n, level)
    return padded_bounds(totals, n, level)


def difference_bounds(
    totals: PageTotals, level: float = LEVEL, *, hits: bool
) -> tuple[Floats, Floats] | None:
    """Bounds (...) of mean differences in -1..1; ``hits`` says that all differences are -1, 0 or 1."""
    scale = (totals.squares + 1) / (totals.non_zero + 1)  # the mean square of a difference that isn't 0
    padding = Padding(questions=_z(level) ** 2 / 2, variance=scale, icc=ASSUMED_ICC_OF_DIFFERENCES)
    n = effective_questions(totals, level, padding, spread=False)
    if n is None:
        return None
    if hits:
        return score_bounds(totals.mean, totals.squares / totals.n, n, level)
    return _t_bounds(totals, scale, n, level)


def mean_padding(level: float) -> Padding:
    """The z**2 questions that an interval of a mean in 0..1 adds, half at each end."""
    return Padding(questions=_z(level) ** 2, variance=0.25, icc=ASSUMED_ICC)


def _z(level: float) -> float:
    from scipy.special import ndtri

    return float(ndtri((1 + level) / 2))


def wilson_bounds(rate: Floats | float, n: Floats | float, level: float = LEVEL) -> tuple[Floats, Floats]:
    """Wilson's score interval of a rate among ``n`` questions, which need not be whole."""
    z2 = _z(level) ** 2
    rate, n = np.asarray(rate), np.asarray(n)
    centre = (rate + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(z2 * np.maximum(rate * (1 - rate), 0.0) / n + (z2 / (2 * n)) ** 2) / (1 + z2 / n)
    # At 0 and at 1 the bound equals the rate, except for rounding.
    return (
        np.where(rate <= 0, 0.0, np.maximum(centre - half, 0.0)),
        np.where(rate >= 1, 1.0, np.minimum(centre + half, 1.0)),
    )


def padded_bounds(totals: PageTotals, n: Floats, level: float) -> tuple[Floats, Floats]:
    """The normal interval of ``n`` questions with this mean and variance, and z**2 / 2 more at 0 and at 1."""
    z2 = _z(level) ** 2
    mean = totals.mean
    centre = (n * mean + z2 / 2) / (n + z2)
    second = (n * (totals.variance + mean**2) + z2 / 2) / (n + z2)
    half = np.sqrt(z2 * np.maximum(second - centre**2, 0.0) / (n + z2))
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)


def score_bounds(
    difference: Floats, differing: Floats, n: Floats, level: float = LEVEL
) -> tuple[Floats, Floats]:
    """Tango's score interval (1998) of a ``difference`` (...) of paired hits in ``n`` questions (...), which
    need not be whole; ``differing`` (...) is the share of the questions that differ.

    >>> low, high = score_bounds(np.array(-6 / 21), np.array(8 / 21), np.array(21.0))  # Fagerland et al. 2014
    >>> round(float(low), 3), round(float(high), 3)
    (-0.517, -0.026)
    """
    z = _z(level)
    difference, lost = np.asarray(difference), np.asarray((differing - difference) / 2)

    def held(true: Floats) -> Floats:
        """Whether the score test doesn't reject this ``true`` difference."""
        b = (2 - difference) * true - differing
        likeliest = (np.sqrt(np.maximum(b**2 + 8 * lost * true * (1 - true), 0.0)) - b) / 4
        variance = np.maximum(2 * likeliest + true * (1 - true), 0.0)
        return np.asarray(n * (difference - true) ** 2 <= z**2 * variance)

    ends = []
    for end in (-1.0, 1.0):
        inside, outside = difference, np.full_like(difference, end)
        for _ in range(HALVINGS):
            middle = (inside + outside) / 2
            inside, outside = (
                np.where(held(middle), middle, inside),
                np.where(held(middle), outside, middle),
            )
        ends.append(inside)
    return ends[0], ends[1]


def _t_bounds(totals: PageTotals, scale: Floats, n: Floats, level: float) -> tuple[Floats, Floats]:
    """Student's interval of ``n`` independent questions with this mean and variance; ``scale`` is the mean
    square of the added questions."""
    whole = totals.n
    if not totals.shared:
        n = n * t_penalty(level, np.asarray(whole - 1))
    ties = (whole - totals.non_zero + 1) / (whole + 1)
    z2 = _z(level) ** 2
    variance = totals.variance * whole / max(whole - 1, 1) + z2 * ties * scale / n
    half = np.sqrt(z2 * variance / n)
    return np.maximum(totals.mean - half, -1.0), np.minimum(totals.mean + half, 1.0)
