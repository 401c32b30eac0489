"""The effective sample size of questions that share pages.

Questions about the same documentation page (a cluster) tend to succeed or fail together, so n questions about
few pages give only as much information as a smaller number of independent questions.

1. Let n_c be the number of questions on page c, and let u_c be the sum of the page's values minus n_c times
   the overall mean. The clustered variance of the mean of n questions is the sum of u_c**2 / (1 - n_c / n)
   over all pages c, divided by n**2 (CR2, Bell and McCaffrey 2002). The design effect (Kish 1965) is the
   clustered variance divided by the variance for n independent questions; a value below 1 is replaced by 1.
2. A clustered variance that is estimated from few pages has few degrees of freedom (Satterthwaite). Bell and
   McCaffrey (2002) estimate the degrees of freedom from the page sizes and the intraclass correlation. Pan
   and Wall (2002) estimate the degrees of freedom from the spread of u_c**2 over the pages c, which gives few
   degrees of freedom if most of the variance comes from one page. Intervals for rates and means use the
   smaller of these two estimates of the degrees of freedom. Intervals for differences use the degrees of
   freedom that Bell and McCaffrey's method estimates.
3. The effective number of questions is n / design effect * (z / t)**2, where z and t are the quantiles of the
   standard normal distribution and of Student's t distribution for a two-sided interval at the confidence
   level. A normal interval computed with the effective number of questions is as wide as Student's interval
   with the clustered variance (Korn and Graubard 1998). The effective number of questions is at least the
   value for an intraclass correlation of 1.
4. A design effect can't be estimated from a sample in which almost all values are the same. A few
   pseudo-observations with an assumed intraclass correlation (:class:`Padding`) are therefore added to the
   sample in steps 1 and 2. The more the values in a sample vary, the less the pseudo-observations change the
   design effect.

The input arrays have the shape (..., pages), with one entry per page along the last axis, and the results
have the shape (...). A simulation can therefore process thousands of samples at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Scores in 0..1 that differ by less than this value count as equal.
ROUNDING = 1e-9
#: The smallest value of :func:`effective_pages` for which an interval is computed.
LEAST_PAGES = 5


class Padding(NamedTuple):
    """Pseudo-observations that are added to a sample, with an assumed variance and intraclass correlation.

    ``questions`` is the effective number of pseudo-observations. ``variance``, of shape (...), is the
    variance of each pseudo-observation. ``icc`` is the intraclass correlation between pseudo-observations on
    the same page.
    """

    questions: float
    variance: float | Floats
    icc: float

    def total(self, sizes: Floats) -> float | Floats:
        """Return the variance of the sum of the pseudo-observations, assuming independence."""
        return self.questions * self.effect(sizes) * self.variance

    def effect(self, sizes: Floats) -> float:
        """Return the design effect of the pseudo-observations.

        The pseudo-observations are assumed to share pages as often as the questions in the sample do. In the
        sample, page c has ``sizes[c]`` questions.
        """
        return kish_effect(typical_size(sizes), self.icc)


#: A :class:`Padding` without pseudo-observations, which adds nothing to the sample.
#: If all values in the sample are the same, an intraclass correlation of 1 is assumed.
NO_PADDING = Padding(questions=0.0, variance=0.0, icc=1.0)


class PageTotals(NamedTuple):
    """The sum of the values on each page, and totals over all pages.

    ``sums``, of shape (..., pages), contains the sum of the values on each page. ``sizes``, of shape
    (pages,), contains the number of questions on each page. ``squares``, of shape (...), contains the sum of
    the squares of all values. ``non_zero``, of shape (...), contains the number of values that are not 0.
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
        """The mean over all questions, in which each question has the same weight."""
        return np.asarray(self.sums.sum(-1) / self.n)

    @property
    def variance(self) -> Floats:
        """The variance of the values (with divisor n). A variance below 1e-18 is replaced by 0."""
        found = np.asarray(self.squares / self.n - self.mean**2)
        return np.where(found < ROUNDING**2, 0.0, found)

    @property
    def shared(self) -> bool:
        """Whether at least one page has more than one question."""
        return self.n > len(self.sizes)


def cluster_sums(values: Sequence[float] | Floats, clusters: Sequence[str]) -> Floats:
    """Return the sum of ``values`` (n,) for each cluster, in the order in which the clusters first occur."""
    place = {cluster: index for index, cluster in enumerate(dict.fromkeys(clusters))}
    index = np.fromiter((place[cluster] for cluster in clusters), dtype=np.intp, count=len(clusters))
    sums = np.bincount(index, weights=np.asarray(values, dtype=np.float64), minlength=len(place))
    return sums.astype(np.float64, copy=False)


def page_totals(values: Sequence[float] | Floats, pages: Sequence[str]) -> PageTotals:
    """Return the totals of ``values`` (n,) by page, where the gold for question i is on ``pages[i]``."""
    found = np.asarray(values, dtype=np.float64)
    return PageTotals(
        sums=cluster_sums(found, pages),
        squares=np.asarray((found**2).sum()),
        non_zero=np.asarray(np.count_nonzero(np.abs(found) >= ROUNDING), dtype=np.float64),
        sizes=cluster_sums(np.ones(len(found)), pages),
    )


def effective_pages(sizes: Floats) -> float:
    """Return the effective number of pages, sum(sizes)**2 / sum(sizes**2), for ``sizes`` questions per page.

    >>> effective_pages(np.array([2.0, 2.0, 2.0]))
    3.0
    """
    return float(sizes.sum() ** 2 / (sizes**2).sum())


def intraclass_correlation(totals: PageTotals) -> Floats:
    """Return the intraclass correlation, from 0 (independent values) to 1 (equal values on each page).

    The correlation is estimated with an analysis of variance (Donner 1986), and negative estimates become 0.
    The result is 0 if no questions share a page, or if all values are the same.
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
    """Return sum(sizes**2) / sum(sizes), the expected number of questions on a random question's page."""
    return float((sizes**2).sum() / sizes.sum())


def design_effect(totals: PageTotals, padding: Padding = NO_PADDING) -> Floats:
    """Return the design effect of the sample, or 1 if the design effect is below 1.

    The design effect is the clustered variance of the mean divided by the variance for independent questions.
    The pseudo-observations that ``padding`` adds increase both the clustered variance and the variance for
    independent questions. If all values in the sample are the same, the result is the design effect of the
    pseudo-observations (:meth:`Padding.effect`).
    """
    sizes, n = totals.sizes, totals.n
    if not totals.shared or len(sizes) == 1:
        return np.ones(np.shape(totals.squares))
    assumed, added = padding.effect(sizes), padding.total(sizes)
    naive = totals.variance * n**2 / (n - 1) + added
    clustered = squared_deviations(totals).sum(-1) + added * assumed
    some = naive > 0
    return np.maximum(np.where(some, clustered / np.where(some, naive, 1.0), assumed), 1.0)


def squared_deviations(totals: PageTotals) -> Floats:
    """Return u**2 / (1 - size / n) for each page, where u is the page's sum minus size * mean."""
    sizes = totals.sizes
    return np.asarray((totals.sums - totals.mean[..., None] * sizes) ** 2 / (1 - sizes / totals.n))


def kish_effect(page_size: float, icc: float) -> float:
    """Return the design effect 1 + (page_size - 1) * icc (Kish 1965), which is at least 1."""
    return max(1.0, 1 + (page_size - 1) * icc)


def working_degrees(sizes: Floats, icc: Floats) -> Floats:
    """Return the degrees of freedom of the CR2 variance of a mean, for an intraclass correlation ``icc``.

    The formula is from Bell and McCaffrey (2002); see also Imbens and Kolesár (2016).

    If every question has its own page, the result is the number of questions minus 1. The CR2 variance is a
    quadratic form in the deviations of the page totals. The deviations have the covariance matrix C = diag(v)
    - h v' - v h' + s h h', where v is the vector of the page totals' variances, s is the sum of v, and h is
    the vector that contains each page's share of all questions. The code computes the trace of the weighted
    covariance matrix, and the sum of its squared entries, without storing the matrix.
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
    """Estimate the degrees of freedom from the pages' squared deviations (Pan and Wall 2002).

    The result is 2 * V**2 / var(V), where V is the clustered variance and var(V) is its estimated variance.
    The result is infinite if the squared deviations of all pages are equal.

    The pseudo-observations that ``padding`` adds increase the clustered variance V, but not var(V).
    """
    sizes, pages = totals.sizes, len(totals.sizes)
    squared = squared_deviations(totals)
    found = squared.sum(-1)
    noise = ((squared - found[..., None] / pages) ** 2).sum(-1) * pages / (pages - 1)
    whole = found + padding.total(sizes) * padding.effect(sizes)
    some = noise > 0
    return np.where(some, 2 * whole**2 / np.where(some, noise, 1.0), np.inf)


def effective_questions(totals: PageTotals, level: float, padding: Padding = NO_PADDING) -> Floats | None:
    """Return how many independent questions would give an interval as wide as the one for ``totals``.

    ``level`` is the confidence level of both intervals, such as 0.95. The degrees of freedom are at most
    those of :func:`observed_degrees`.

    If no two questions share a page, the result is the number of questions. If questions share pages, the
    result is ``None`` for fewer than five effective pages. No tested method gives correct intervals for fewer
    than five effective pages.
    """
    n, sizes = totals.n, totals.sizes
    if not totals.shared:
        return np.full(np.shape(totals.squares), n)
    pages = effective_pages(sizes)
    if pages < LEAST_PAGES:
        return None
    degrees = working_degrees(sizes, intraclass_correlation(totals))
    lower = np.minimum(degrees, observed_degrees(totals, padding))
    degrees = np.where(totals.variance > 0, lower, degrees)
    found = n / design_effect(totals, padding) * t_penalty(level, degrees)
    return np.maximum(found, pages * t_penalty(level, working_degrees(sizes, np.asarray(1.0))))


def t_penalty(level: float, degrees: Floats) -> Floats:
    """Return (z / t)**2, where z and t are the normal and Student's t quantiles for a two-sided ``level``."""
    from scipy.special import ndtri, stdtrit

    quantile = (1 + level) / 2
    return np.asarray((ndtri(quantile) / stdtrit(np.maximum(degrees, 1.0), quantile)) ** 2)
