"""Effective sample size: the evidence in n questions when several of them have their gold on one page.

Questions of one page (a cluster) succeed and fail together, so n of them carry as much information as fewer
independent ones.

1. The variance of the mean from the deviations u of the pages' totals, u_c**2 / (1 - n_c / n) summed over the
   pages and divided by n**2 (CR2: Bell and McCaffrey 2002). Divided by the variance of as many independent
   questions, it is the design effect (Kish 1965), here at least 1.
2. That variance is itself estimated from few pages. Its degrees of freedom (Satterthwaite) are the smaller of
   two: for pages of these sizes that correlate as estimated (Bell and McCaffrey 2002), and from the spread of
   the u**2 themselves (Pan and Wall 2002), which detects that most of the variance comes from one page.
3. Effective questions: n / design effect * (z / t)**2, so that z times a standard error computed from them
   is t times the right one (Korn and Graubard 1998). They are at least what the pages would be worth if each
   was a single observation.
4. A sample with one differing question can't show a design effect or degrees of freedom. So a few added
   questions (:class:`Padding`) count in steps 1 and 2, as questions on pages of these sizes with an assumed
   correlation. The more questions differ in the sample, the less the added ones weigh.

All functions take page totals of shape (..., pages) and work along the last axis, so that a simulation can
compute thousands of samples with the same functions as a report.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from branchrank.measures.significance import ROUNDING, Floats, cluster_sums

#: Fewest effective pages, n**2 / sum(n_c**2), from which an interval is computed.
LEAST_PAGES = 5


class Padding(NamedTuple):
    """The number of effective ``questions`` to add to a sample, and the ``variance`` (...) of each.

    ``icc`` is the intraclass correlation assumed for their pages.
    """

    questions: float
    variance: float | Floats
    icc: float

    def total(self, sizes: Floats) -> float | Floats:
        """Return their variance in the total if independent: there are ``questions * effect`` of them."""
        return self.questions * self.effect(sizes) * self.variance

    def effect(self, sizes: Floats) -> float:
        """Their design effect on pages of these ``sizes`` (pages,)."""
        return kish_effect(typical_size(sizes), self.icc)


#: Adds nothing; if all values are the same, each page counts as one observation.
NO_PADDING = Padding(questions=0.0, variance=0.0, icc=1.0)


class PageTotals(NamedTuple):
    """Totals by page:

    ``sums`` (..., pages) of the values, ``squares`` (...) of all values squared, ``non_zero`` (...), the
    number of values other than 0, and ``sizes`` (pages,), the number of questions of each page.
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
        """The variance (...) of the values about their mean, over n; rounding counts as 0."""
        found = np.asarray(self.squares / self.n - self.mean**2)
        return np.where(found < ROUNDING**2, 0.0, found)

    @property
    def shared(self) -> bool:
        """Whether any page has more than one question."""
        return self.n > len(self.sizes)


def page_totals(values: Sequence[float] | Floats, pages: Sequence[str]) -> PageTotals:
    """Totals by page of ``values`` (n,) whose gold is on ``pages`` (n,)."""
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
    """Return how alike the values of one page are, (...): 0 not at all, 1 all the same.

    The estimator from the analysis of variance (Donner 1986), cut at 0; 0 without pages that share
    questions, or where all values are the same.
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
    """The size of the page of a question drawn at random, sum(n_c**2) / n, for pages of these ``sizes``."""
    return float((sizes**2).sum() / sizes.sum())


def design_effect(totals: PageTotals, padding: Padding = NO_PADDING) -> Floats:
    """The variance of the mean (...) over that of as many independent questions; at least 1.

    ``padding`` counts in both variances, with its assumed design effect. If all values are the same, so that
    the sample has no information, the result is that assumed effect.
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
    """u_c**2 / (1 - n_c / n) of each page, (..., pages)."""
    sizes = totals.sizes
    return np.asarray((totals.sums - totals.mean[..., None] * sizes) ** 2 / (1 - sizes / totals.n))


def kish_effect(page_size: float, icc: float) -> float:
    """The design effect 1 + (m - 1) * icc (Kish 1965), at least 1; m is the size of the page of a question
    drawn at random."""
    return max(1.0, 1 + (page_size - 1) * icc)


def working_degrees(sizes: Floats, icc: Floats) -> Floats:
    """Degrees of freedom (...) of the CR2 variance of a mean, were the values of a page correlated by
    ``icc`` (...) (Bell and McCaffrey 2002; Imbens and Kolesár 2016).

    With pages of one question each it is n - 1. The variance is a quadratic form of the deviations, whose
    covariance is diag(v) - h v' - v h' + s h h' for the variances v of the pages' totals, their sum s and the
    shares h; the trace and the sum of squares of the form are written out, so that no matrix is made.
    """
    share = sizes / sizes.sum()
    weight = 1 / (1 - share)
    v = sizes * (1 + (sizes - 1) * np.asarray(icc)[..., None])
    total = v.sum(-1)
    rank_two = total[..., None] * share**2 - 2 * share * v  # the diagonal of all but diag(v)
    hh, hv, vv = ((weight * each).sum(-1) for each in (np.broadcast_to(share**2, v.shape), share * v, v**2))
    squares = 2 * hh * vv + 2 * hv**2 + total**2 * hh**2 - 4 * total * hh * hv
    squares = squares + (weight**2 * v * (v + 2 * rank_two)).sum(-1)
    return np.asarray((weight * (v + rank_two)).sum(-1) ** 2 / squares)


def observed_degrees(totals: PageTotals, padding: Padding = NO_PADDING) -> Floats:
    """Degrees of freedom (...) from the spread of the pages' squared deviations (Pan and Wall 2002): twice
    the squared variance over the variance of that variance; infinite where the pages deviate alike.

    ``padding`` adds to the variance and nothing to its spread.
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

    ``spread`` says whether the spread of the pages can lower the degrees of freedom
    (:func:`observed_degrees`).

    n where no two questions share a page; ``None`` (too few pages) if they share pages and there are fewer
    than five effective pages: no method that we tried works there.
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
    """(z / t)**2 for a two-sided ``level``: what few degrees of freedom leave of the questions, in 0..1."""
    from scipy.special import ndtri, stdtrit

    quantile = (1 + level) / 2
    return np.asarray((ndtri(quantile) / stdtrit(np.maximum(degrees, 1.0), quantile)) ** 2)
