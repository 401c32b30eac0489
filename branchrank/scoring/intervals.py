"""Confidence intervals and effect sizes over questions that share pages, and what unasked pages could change.

Each interval is a textbook interval for n independent questions, in which n is replaced by the effective
number of questions (:mod:`branchrank.scoring.clustering`). If every question has its own page, the effective
number of questions is n.

1. The interval for a rate is Wilson's score interval (Wilson 1927), with the effective number of questions as
   in Korn and Graubard (1998) and Franco, Little, Louis and Slud (2019).
2. The interval for a mean that is not a rate is a normal interval, computed after adding z**2 / 2 questions
   with value 0 and z**2 / 2 questions with value 1, where z is the normal quantile (1.96 for 95%). Applied to
   a rate, this method gives the interval of Agresti and Coull (1998).
3. :mod:`branchrank.scoring.significance` has the interval for a difference.

If almost all questions have the same value, a sample can't show how strongly questions on the same page are
correlated. To estimate the design effect, pseudo-observations with an assumed intraclass correlation are
therefore z**2 pseudo-observations with an assumed intraclass correlation of 0.4 are added to the sample.
Without them, a single question whose value differs from all others would make the interval much wider.
``benchmarks/interval_coverage.py`` simulates how often each interval contains the true value.

Effect sizes, unlike p-values, do not depend on the sample size. The effect size for hit rates is the matched
odds ratio, wins / losses (Agresti 2013, section 11.1). The effect size for other measures is Cohen's d_z, the
mean difference divided by the standard deviation of the differences (Cohen 1988, section 2.3.5; Lakens 2013,
equation 7).

Pages of the corpus without questions could change a mean (:class:`AskedPages`). A of the C pages have
questions. The mean difference of their page means is d. A page is lost if the candidate loses each of its
questions: k of the A pages are lost, and w is the mean of the page means of the others.

1. K is the largest number of lost pages in the corpus with which a random draw of A pages has at most k lost
   pages with a probability of at least ``chance`` (the hypergeometric distribution). L = K - k of them may be
   among the pages without questions.
2. The mean over the corpus is then (A * d + (C - A - L) * w - L) / C.
3. If this mean is not positive at a chance of .1, a ``better`` has a caution, which names how many more pages
   with a question would exclude it, if d, w and k stay the same.

The formulas assume that the pages with questions were drawn at random. If every page has a question, L is 0.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from math import inf
from typing import NamedTuple

import numpy as np

from branchrank.core.records import Record
from branchrank.scoring.clustering import (
    ROUNDING,
    Floats,
    Padding,
    PageTotals,
    effective_questions,
    page_totals,
)

LEVEL = 0.95
#: The intraclass correlation that is assumed for one predictor's values on a page.
ASSUMED_ICC = 0.4
#: The probability with which a sample may miss the pages that would undo a ``better``.
CAUTION = 0.1


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


class AskedPages(NamedTuple):
    """The pages of a corpus that have questions, seen from the side of one system.

    ``corpus`` is the number of pages of the corpus, and ``asked`` how many have questions. ``mean`` is the
    mean of the page means of the difference. ``lost`` counts the lost pages. ``rest`` is the mean of the page
    means of the other pages.
    """

    corpus: int
    asked: int
    mean: float
    lost: int
    rest: float

    def corrected(self, chance: float, asked: int = 0) -> float:
        """Return the mean over the corpus, with as many lost pages as ``chance`` allows.

        ``asked`` replaces the number of pages with questions.
        """
        asked = asked or self.asked
        unseen = most_lost(self.corpus, asked, self.lost, chance) - self.lost
        rest = (self.corpus - asked - unseen) * self.rest
        return (asked * self.mean + rest - unseen) / self.corpus

    def more_pages(self, chance: float, above: float) -> int:
        """Return how many more pages need a question for a corrected mean above ``above``, or 0."""
        if self.corrected(chance) > above:
            return 0
        enough = range(self.asked, self.corpus)
        return bisect_left(enough, True, key=lambda asked: self.corrected(chance, asked) > above)


def asked_pages(totals: PageTotals, corpus: int) -> AskedPages:
    """Count the lost pages of ``totals``, in which each page of gold is a page."""
    means = totals.sums / totals.sizes
    lost = means <= ROUNDING - 1
    mean = float(means.mean())
    rest = mean if lost.all() else float(means[~lost].mean())
    return AskedPages(max(corpus, len(means)), len(means), mean, int(lost.sum()), rest)


def most_lost(corpus: int, asked: int, lost: int, chance: float) -> int:
    """Return the largest K with P(Hypergeometric(corpus, K, asked) <= lost) >= ``chance``.

    >>> most_lost(31, 31, 2, 0.1), most_lost(332, 33, 0, 0.1)
    (2, 21)
    """
    possible = range(lost, corpus - asked + lost + 1)
    return (
        lost
        + bisect_right(possible, -chance, key=lambda all_lost: -_at_most(corpus, all_lost, asked, lost))
        - 1
    )


def _at_most(corpus: int, lost: int, asked: int, most: int) -> float:
    """Return P(Hypergeometric(corpus, lost, asked) <= most)."""
    from scipy.special import gammaln

    def log_choose(n: int, k: np.ndarray | int) -> np.ndarray:
        return np.asarray(gammaln(n + 1) - gammaln(np.add(k, 1)) - gammaln(np.subtract(n + 1, k)))

    drawn = np.arange(max(0, asked - (corpus - lost)), min(most, lost, asked) + 1)
    logs = log_choose(lost, drawn) + log_choose(corpus - lost, asked - drawn) - log_choose(corpus, asked)
    return float(np.exp(logs).sum())
