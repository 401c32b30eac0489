"""The effective sample size of questions that share pages.

Questions about one page (a cluster) tend to succeed or fail together, so n of them have as much information
as a smaller number of independent questions.

1. The clustered variance of the mean is computed from the deviations u of the pages' totals, as the sum of
   u_c**2 / (1 - n_c / n) over the pages, divided by n**2 (CR2, Bell and McCaffrey 2002). The design effect
   (Kish 1965) is this variance divided by the variance of n independent questions, here at least 1.
2. The clustered variance has few degrees of freedom (Satterthwaite) if there are few pages. The smaller of
   two estimates is used. The estimate of Bell and McCaffrey (2002) is for pages of these sizes with the
   estimated correlation. The estimate of Pan and Wall (2002) uses the spread of the u**2, and is low if most
   of the variance comes from one page.
3. The number of effective questions is n / design effect * (z / t)**2. With this number, a normal interval is
   as wide as Student's interval with the clustered variance (Korn and Graubard 1998). The number of effective
   questions is at least the effective number of pages.
4. A sample with one differing question is too small to estimate a design effect or degrees of freedom.
   Therefore steps 1 and 2 include a few added questions (:class:`Padding`) on pages of these sizes, with an
   assumed correlation. The more questions differ in the sample, the smaller is the effect of this padding.

All functions have page totals of shape (..., pages) as input and work along the last axis, so that a
simulation can compute thousands of samples at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from branchrank.measures.significance import ROUNDING, Floats, cluster_sums

#: The minimum number of effective pages, n**2 / sum(n_c**2), for an interval.
LEAST_PAGES = 5


class Padding(NamedTuple):
    """The number of effective ``questions`` to add to a sample, each with ``variance`` (...).

    ``icc`` is the intraclass correlation assumed for the added questions.
    """

    questions: float
    variance: float | Floats
    icc: float

    def total(self, sizes: Floats) -> float | Floats:
        """Return the variance of the added questions' total, assuming that they are independent."""
        return self.questions * self.effect(sizes) * self.variance

    def effect(self, sizes: Floats) -> float:
        """Return the design effect of the added questions on pages of these ``sizes`` (pages,)."""
        return kish_effect(typical_size(sizes), self.icc)


#: No added questions; if all values are the same, each page counts as one observation.
NO_PADDING = Padding(questions=0.0, variance=0.0, icc=1.0)


class PageTotals(NamedTuple):
    """The totals of values by page.

    ``sums`` (..., pages) are the sums of the values, and ``sizes`` (pages,) the numbers of questions of the
    pages. Over all pages, ``squares`` (...) is the sum of squared values and ``non_zero`` (...) the number of
    values other than 0.
    """

    sums: Floats
    squares: Floats
    non_zero: Floats
    sizes: Floats

    @property
    def n(self) -> float:
        """The number of questions."""
        return float(self.sizes.sum())

    @property
    def mean(self) -> Floats:
        """The mean value (...)."""
        return np.asarray(self.sums.sum(-1) / self.n)

    @property
    def variance(self) -> Floats:
        """The variance (...) of the values about their mean (divided by n); a rounding error counts as 0."""
        found = np.asarray(self.squares / self.n - self.mean**2)
        return np.where(found < ROUNDING**2, 0.0, found)

    @property
    def shared(self) -> bool:
        """True if a page has more than one question."""
        return self.n > len(self.sizes)


def page_totals(values: Sequence[float] | Floats, pages: Sequence[str]) -> PageTotals:
    """Return the totals of ``values`` (n,) by page, if the gold of question i is on ``pages[i]``."""
    found = np.asarray(values, dtype=np.float64)
    return PageTotals(
        sums=cluster_sums(found, pages),
        squares=np.asarray((found**2).sum()),
        non_zero=np.asarray(np.count_nonzero(np.abs(found) >= ROUNDING), dtype=np.float64),
        sizes=cluster_sums(np.ones(len(found)), pages),
    )


def effective_pages(sizes: Floats) -> float:
    """Return the number of equal-sized pages equivalent to pages of these ``sizes``: n**2 / sum(n_c**2).

    >>> effective_pages(np.array([2.0, 2.0, 2.0]))
    3.0
    """
    return float(sizes.sum() ** 2 / (sizes**2).sum())


def intraclass_correlation(totals: PageTotals) -> Floats:
    """Return the intraclass correlation (...), from 0 (values on a page are independent) to 1 (all are
    equal).

    The estimator is from the analysis of variance (Donner 1986), cut at 0. The result is 0 if no questions
    share a page, or if all values are the same.
    """
    sums, squares, sizes = totals.sums, totals.squares, totals.sizes
    n, pages = totals.n, len(sizes)
    if not totals.shared or pages == 1:
        return np.zeros(np.shape(squares))
    between = (sums**2 / sizes).sum(-1) - n * totals.mean**2
    within = (squares - n * totals.mean**2 - between) / (n - pages)
    between = between / (pages - 1)
    typical = (n - (sizes**2).sum() / n) / (pages - 1)
    spread = between + (typical - 1) * within
    some = (totals.variance > 0) & (spread > 0)
    return np.clip(np.where(some, (between - within) / np.where(some, spread, 1.0), 0.0), 0.0, 1.0)


def typical_size(sizes: Floats) -> float:
    """Return the expected size of the page of a random question, sum(n_c**2) / n, for ``sizes`` (pages,)."""
    return float((sizes**2).sum() / sizes.sum())


def design_effect(totals: PageTotals, padding: Padding = NO_PADDING) -> Floats:
    """Return the variance of the mean (...) divided by that of n independent questions, at least 1.

    Both variances include the ``padding`` with its assumed design effect. If all values are the same, the
    sample has no information and the result is the assumed design effect.
    """
    sizes, n = totals.sizes, totals.n
    if not totals.shared or len(sizes) == 1:
        return np.ones(np.shape(totals.squares))
    assumed, added = padding.effect(sizes), padding.total(sizes)
    naive = totals.variance * n**2 / (n - 1) + added
    clustered = _squared_deviations(totals).sum(-1) + added * assumed
    some = naive > 0
    return np.maximum(np.where(some, clustered / np.where(some, naive, 1.0), assumed), 1.0)


def _squared_deviations(totals: PageTotals) -> Floats:
    """Return u_c**2 / (1 - n_c / n) of each page (..., pages), where u_c is the deviation of its total."""
    sizes = totals.sizes
    return np.asarray((totals.sums - totals.mean[..., None] * sizes) ** 2 / (1 - sizes / totals.n))


def kish_effect(page_size: float, icc: float) -> float:
    """Return the design effect 1 + (m - 1) * icc (Kish 1965), at least 1, for pages of size m."""
    return max(1.0, 1 + (page_size - 1) * icc)


def working_degrees(sizes: Floats, icc: Floats) -> Floats:
    """Return the degrees of freedom (...) of the CR2 variance of a mean, for values with correlation ``icc``
    (...).

    The source is Bell and McCaffrey (2002); see also Imbens and Kolesár (2016).

    If every question has its own page, the result is n - 1. The variance is a quadratic form of the
    deviations. Their covariance is diag(v) - h v' - v h' + s h h' for the variances v of the pages' totals,
    the sum s of v and the shares h. The code computes the trace and the sum of squares of the form without a
    matrix.
    """
    share = sizes / sizes.sum()
    weight = 1 / (1 - share)
    v = sizes * (1 + (sizes - 1) * np.asarray(icc)[..., None])
    total = v.sum(-1)
    rank_two = total[..., None] * share**2 - 2 * share * v  # the diagonal of the covariance without diag(v)
    hh, hv, vv = ((weight * each).sum(-1) for each in (np.broadcast_to(share**2, v.shape), share * v, v**2))
    squares = 2 * hh * vv + 2 * hv**2 + total**2 * hh**2 - 4 * total * hh * hv
    squares = squares + (weight**2 * v * (v + 2 * rank_two)).sum(-1)
    return np.asarray((weight * (v + rank_two)).sum(-1) ** 2 / squares)


def observed_degrees(totals: PageTotals, padding: Padding = NO_PADDING) -> Floats:
    """Return the degrees of freedom (...) from the spread of the squared deviations (Pan and Wall 2002).

    The result is twice the squared variance divided by the variance of that variance, or infinite if all
    pages deviate by the same amount.

    ``padding`` increases the variance but not its spread.
    """
    sizes, pages = totals.sizes, len(totals.sizes)
    squared = _squared_deviations(totals)
    found = squared.sum(-1)
    noise = ((squared - found[..., None] / pages) ** 2).sum(-1) * pages / (pages - 1)
    whole = found + padding.total(sizes) * padding.effect(sizes)
    some = noise > 0
    return np.where(some, 2 * whole**2 / np.where(some, noise, 1.0), np.inf)


def effective_questions(
    totals: PageTotals, level: float, padding: Padding = NO_PADDING, *, spread: bool = True
) -> Floats | None:
    """Return the number (...) of independent questions with the same information at confidence ``level``.

    If ``spread`` is true, the spread of the pages can lower the degrees of freedom
    (:func:`observed_degrees`).

    Returns n if no two questions share a page. Returns ``None`` if questions share pages and there are fewer
    than five effective pages, since no method that we tried gives correct intervals there.
    """
    n, sizes = totals.n, totals.sizes
    if not totals.shared:
        return np.full(np.shape(totals.squares), n)
    pages = effective_pages(sizes)
    if pages < LEAST_PAGES:
        return None
    degrees = working_degrees(sizes, intraclass_correlation(totals))
    if spread:
        lower = np.minimum(degrees, observed_degrees(totals, padding))
        degrees = np.where(totals.variance > 0, lower, degrees)
    found = n / design_effect(totals, padding) * t_penalty(level, degrees)
    return np.maximum(found, pages * t_penalty(level, working_degrees(sizes, np.asarray(1.0))))


def t_penalty(level: float, degrees: Floats) -> Floats:
    """Return (z / t)**2 for a two-sided ``level``, by which few degrees of freedom reduce the questions."""
    from scipy.special import ndtri, stdtrit

    quantile = (1 + level) / 2
    return np.asarray((ndtri(quantile) / stdtrit(np.maximum(degrees, 1.0), quantile)) ** 2)
