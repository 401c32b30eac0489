"""Confidence intervals and effect sizes for rates, means and differences, over questions that share pages.

Each interval is a textbook interval for n independent questions, in which n is replaced by the effective
number of questions (:mod:`branchrank.scoring.clustering`). If every question has its own page, the effective
number of questions is n.

1. The interval for a rate is Wilson's score interval (Wilson 1927), with the effective number of questions as
   in Korn and Graubard (1998) and Franco, Little, Louis and Slud (2019).
2. The interval for a mean that is not a rate is a normal interval, computed after adding z**2 / 2 questions
   with value 0 and z**2 / 2 questions with value 1, where z is the normal quantile (1.96 for 95%). Applied to
   a rate, this method gives the interval of Agresti and Coull (1998).
3. The interval for a difference in hit rate (each question's difference is -1, 0 or 1) is Tango's score
   interval (Tango 1998), which contains the differences that the score test for paired proportions doesn't
   reject. If the difference is 0 on every question, the interval is from -b to b, where b is the upper bound
   of Wilson's interval for 0 hits in n questions.
4. The interval for a difference between means that are not rates is Student's t interval, computed with an
   increased sample variance. The sample variance is increased by z**2 * s * q / n. The factor s is the share
   of questions with a difference of 0, computed after adding one question with a difference of 0. The factor
   q is the mean square of the differences that are not 0, computed after adding one question with a
   difference of 1. If every difference is nonzero, the factor s is only 1 / (n + 1), so the increase of the
   sample variance is negligible. If all differences are 0, the amount added to the sample variance makes
   Student's interval about as wide as Tango's score interval for the same n questions.

If almost all questions have the same value, a sample can't show how strongly questions on the same page are
correlated. To estimate the design effect, pseudo-observations with an assumed intraclass correlation are
therefore added to the sample. The number of pseudo-observations is z**2 for rates and means, and z**2 / 2 for
differences. The assumed intraclass correlation is 0.4 for rates and means, and 0.2 for differences. Without
pseudo-observations, a single question whose value differs from all others would make the interval much wider.
``benchmarks/interval_coverage.py`` simulates how often each interval contains the true value.

Effect sizes, unlike p-values, do not depend on the sample size. The effect size for hit rates is the matched
odds ratio, wins / losses (Agresti 2013, section 11.1). Let p be the share of wins among the questions on
which the systems differ. The confidence interval for the odds ratio is the interval for the share p
(clustered by page), with each bound converted to odds. The effect size for other measures is Cohen's d_z, the
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
    effective_pages,
    effective_questions,
    page_totals,
    t_penalty,
)
from branchrank.scoring.significance import ROUNDING, Floats

LEVEL = 0.95
#: The intraclass correlation that is assumed for one predictor's values on a page.
ASSUMED_ICC = 0.4
#: The intraclass correlation that is assumed for the differences on a page. The differences are less
#: correlated than one predictor's values, because the page's difficulty affects both predictors.
ASSUMED_ICC_OF_DIFFERENCES = 0.2
#: The number of bisection steps, enough to compute a bound of Tango's interval in double precision.
HALVINGS = 55


class Interval(Record, frozen=True, kw_only=True):
    """A confidence interval from ``low`` to ``high`` with confidence ``level``."""

    low: float
    high: float
    level: float = LEVEL


def mean_interval(
    values: Sequence[float] | Floats, pages: Sequence[str], *, level: float = LEVEL
) -> Interval | None:
    """Return the confidence interval for the mean of ``values`` (n,) in 0..1.

    If every value is 0 or 1, the interval is Wilson's. ``pages[i]`` is the source of the gold for question i.
    Returns ``None`` if there are no questions, or if the gold of the questions is on too few pages
    (:func:`~branchrank.scoring.clustering.effective_questions`).

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
    """Return the confidence interval for the mean of paired ``differences`` (n,), each in -1..1.

    Returns ``None`` under the same conditions as :func:`mean_interval`.

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
    """Adjust the interval for the estimate ``found``, so that the interval agrees with a hypothesis test.

    The null hypothesis is that the true value is ``null``. If ``rejected`` is true, the interval is truncated
    at ``null``, so that the whole interval is on the same side of ``null`` as ``found``. If ``rejected`` is
    false, the interval is extended to include ``null``. Under the null hypothesis, the adjusted interval
    therefore excludes the true value exactly as often as the test rejects the null hypothesis. If the test
    rejects the value ``null`` (``rejected`` is true), a bound equal to ``null`` is not part of the interval.
    Strassburger and Bretz (2008) describe simultaneous confidence bounds that agree with Holm's test.

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
    """Return the confidence bounds for means in 0..1; ``rate`` is true if all values are 0 or 1."""
    n = effective_questions(totals, level, mean_padding(level))
    if n is None:
        return None
    if rate:
        return wilson_bounds(totals.mean, n, level)
    return padded_bounds(totals, n, level)


def difference_bounds(
    totals: PageTotals, level: float = LEVEL, *, hits: bool
) -> tuple[Floats, Floats] | None:
    """Return confidence bounds for mean differences; ``hits`` is true if all differences are -1, 0 or 1."""
    scale = (totals.squares + 1) / (totals.non_zero + 1)  # the mean square of the differences that aren't 0
    padding = Padding(questions=_z(level) ** 2 / 2, variance=scale, icc=ASSUMED_ICC_OF_DIFFERENCES)
    n = effective_questions(totals, level, padding, spread=False)
    if n is None:
        return None
    if hits:
        return score_bounds(totals.mean, totals.squares / totals.n, n, level)
    return _t_bounds(totals, scale, n, level)


def pages_lost(totals: PageTotals, chance: float) -> tuple[float, float]:
    """Return the share of pages that are lost whole, and an upper bound for this share in other samples.

    A page is lost whole if the difference is -1 on each of its questions. If more pages than the bound were
    lost whole, a sample with at most the observed share would have a probability below ``chance`` (Clopper
    and Pearson 1934). Without a lost page, the bound is 1 - chance**(1 / pages), the rule of three. The pages
    are counted by :func:`~branchrank.scoring.clustering.effective_pages`.

    >>> observed, bound = pages_lost(page_totals([0.0] * 60, [str(n // 2) for n in range(60)]), 0.1)
    >>> observed, round(bound, 4)
    (0.0, 0.0739)
    """
    from scipy.special import betaincinv

    pages = effective_pages(totals.sizes)
    observed = float(totals.sizes[totals.sums <= ROUNDING - totals.sizes].sum() / totals.n)
    lost = observed * pages
    return observed, 1.0 if lost >= pages else float(betaincinv(lost + 1, pages - lost, 1 - chance))


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


def score_bounds(
    difference: Floats, differing: Floats, n: Floats, level: float = LEVEL
) -> tuple[Floats, Floats]:
    """Return Tango's score interval (1998) for a ``difference`` in hit rate on ``n`` questions.

    The arguments are arrays with the same shape, and ``n`` can be fractional. ``differing`` is the share of
    questions that only one system answers correctly.

    >>> low, high = score_bounds(np.array(-6 / 21), np.array(8 / 21), np.array(21.0))  # Fagerland et al. 2014
    >>> round(float(low), 3), round(float(high), 3)
    (-0.517, -0.026)
    """
    z = _z(level)
    difference, lost = np.asarray(difference), np.asarray((differing - difference) / 2)

    def held(true: Floats) -> Floats:
        """Return, for each candidate difference in ``true``, whether the score test accepts it."""
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
    """Return Student's t interval from the mean and variance of ``totals``, for ``n`` effective questions.

    ``scale`` is the mean square of the differences that are not 0, computed with one extra difference of 1.
    """
    whole = totals.n
    if not totals.shared:
        n = n * t_penalty(level, np.asarray(whole - 1))
    ties = (whole - totals.non_zero + 1) / (whole + 1)
    z2 = _z(level) ** 2
    variance = totals.variance * whole / max(whole - 1, 1) + z2 * ties * scale / n
    half = np.sqrt(z2 * variance / n)
    return np.maximum(totals.mean - half, -1.0), np.minimum(totals.mean + half, 1.0)


def matched_odds(
    differences: Sequence[float] | Floats,
    pages: Sequence[str],
    *,
    level: float = LEVEL,
    rejected: bool = False,
) -> tuple[float | None, float | None, float | None]:
    """Return the matched odds ratio of ``differences`` (n,), and its interval clustered by ``pages`` (n,).

    The ratio is from 0 to infinity, and infinity means no losses. The ratio and the bounds are ``None`` if
    all differences are 0. The bounds are ``None`` if too few pages contain gold of the questions on which the
    systems differ.

    ``rejected`` is true if the significance test rejected equality. If ``rejected`` is true, the odds ratios
    in the interval are all at least 1 or all at most 1. If ``rejected`` is false, the interval includes 1.

    >>> ratio, low, high = matched_odds([1.0] * 12 + [-1.0] * 6, [str(n) for n in range(18)])
    >>> ratio, round(low, 2), round(high, 2)
    (2.0, 0.78, 5.14)
    """
    won = [float(gap > 0) for gap in differences if gap]
    if not won:
        return None, None, None
    share, lost = sum(won) / len(won), won.count(0.0)
    where = [page for gap, page in zip(differences, pages, strict=True) if gap]
    found = compatible(mean_interval(won, where, level=level), share, rejected=rejected, null=0.5)
    ratio = sum(won) / lost if lost else inf
    return (ratio, None, None) if found is None else (ratio, _odds(found.low), _odds(found.high))


def _odds(share: float) -> float:
    return inf if share >= 1 else share / (1 - share)


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
