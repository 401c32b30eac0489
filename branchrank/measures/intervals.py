"""Intervals for rates, for means and for paired differences, over questions that share pages.

All of them are textbook intervals for independent questions, taken at the number of independent questions
that the sample is worth (:mod:`branchrank.measures.clustering`); with one question per page that is n.

1. A rate: Wilson's score interval (Wilson 1927), at the effective size as in Korn and Graubard (1998) and
   Franco, Little, Louis and Slud (2019).
2. A difference, or a mean that is no rate: the normal interval after adding z**2 / 2 questions at either end
   of the scale (-1 and 1, or 0 and 1). For a rate that is the interval of Agresti and Coull (1998), for a
   difference of rates that of Bonett and Price (2012) with their two added questions raised to z**2 (3.84 at
   95%). So even a sample without any difference gives an interval of what it can rule out.

If few questions fail or differ, a sample can't show how strongly questions of one page correlate. So the z**2
questions also count in that estimate, with an assumed correlation within pages: 0.4, and 0.25 for
differences. Without them, the interval with one differing question would be much wider than with none.
``benchmarks/coverage.py`` simulates how often each interval holds the true value.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from branchrank.measures.clustering import Padding, PageTotals, effective_questions, page_totals
from branchrank.measures.significance import Floats
from branchrank.records import Record

LEVEL = 0.95
#: The assumed correlation of the values of one page, for one predictor and for a difference, in which most of
#: a page's difficulty cancels.
ASSUMED_ICC = 0.4
ASSUMED_ICC_OF_DIFFERENCES = 0.25


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
    """
    if not len(differences):
        return None
    return _interval(difference_bounds(page_totals(differences, pages), level), level)


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
    return padded_bounds(totals, n, level, lowest=0.0)


def difference_bounds(totals: PageTotals, level: float = LEVEL) -> tuple[Floats, Floats] | None:
    """Bounds (...) of mean differences in -1..1."""
    n = effective_questions(totals, level, difference_padding(level))
    return None if n is None else padded_bounds(totals, n, level, lowest=-1.0)


def mean_padding(level: float) -> Padding:
    """The z**2 questions that an interval of a mean in 0..1 adds, half at each end."""
    return Padding(questions=_z(level) ** 2, variance=0.25, icc=ASSUMED_ICC)


def difference_padding(level: float) -> Padding:
    """The z**2 questions that an interval of a difference in -1..1 adds, half at each end."""
    return Padding(questions=_z(level) ** 2, variance=1.0, icc=ASSUMED_ICC_OF_DIFFERENCES)


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


def padded_bounds(totals: PageTotals, n: Floats, level: float, lowest: float) -> tuple[Floats, Floats]:
    """The normal interval of ``n`` questions with this mean and variance, and z**2 / 2 more at either end
    of the scale ``lowest``..1."""
    z2 = _z(level) ** 2
    mean = totals.mean
    centre = (n * mean + z2 / 2 * (lowest + 1)) / (n + z2)
    second = (n * (totals.variance + mean**2) + z2 / 2 * (lowest**2 + 1)) / (n + z2)
    half = np.sqrt(z2 * np.maximum(second - centre**2, 0.0) / (n + z2))
    return np.maximum(centre - half, lowest), np.minimum(centre + half, 1.0)
