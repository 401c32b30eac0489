"""The test of a mean paired difference, and the interval of the values that the test does not reject.

Let S_c be the sum of the differences on page c, n_c its number of questions, and d the mean difference. The
p-value of a true difference theta is ``max(flip(theta), floor(theta), min(flip(0), t(theta)))``, and the
interval contains every theta whose p-value is at least alpha. The p-value of 0 is ``flip(0)``, which is also
the p-value of the verdict, so the interval contains 0 if and only if the verdict is not ``better`` or
``worse``.

1. ``flip`` is the sign-flip test of the page totals S_c - theta * n_c. It rejects no theta between the means
   of a random half of the pages (each page is in it with probability 1/2) and of the other pages, so its
   bounds are quantiles of these means ("typical values", Hartigan 1969). An empty half counts as extreme.
   For hits, the distribution of (sum, questions) of a half is computed exactly. For other scores, it is
   enumerated for up to 20 pages whose sum is not 0, and drawn with a seed for more.
2. ``floor`` keeps the interval of a sample with few differences from being too short: if no question differs,
   ``flip`` rejects every theta but 0. It accepts (d - theta)**2 <= z**2 * deff / n * abs(theta) * (B -
   abs(theta)), on the side of d (on both sides if d is 0). B is 1 for hits, and the root mean square of the
   differences that are not 0 for other scores. ``deff`` is the design effect with z**2 pseudo-observations
   and an assumed intraclass correlation of .4 * (1 - share of the corpus's pages that have questions).
3. ``t`` is Student's t-test with the CR2 variance (:mod:`branchrank.scoring.clustering`). It extends the
   interval only if the verdict's test does not reject 0, and protects samples of few or unequal pages.

``benchmarks/interval_coverage.py`` simulates how often the interval contains the true difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from branchrank.scoring.clustering import (
    LEAST_PAGES,
    Padding,
    PageTotals,
    design_effect,
    effective_pages,
    intraclass_correlation,
    page_totals,
    squared_deviations,
    working_degrees,
)
from branchrank.scoring.intervals import LEVEL, Interval
from branchrank.scoring.significance import (
    DRAWS,
    EXACT_CLUSTERS,
    ROUNDING,
    Floats,
    all_halves,
    random_halves,
)

#: The intraclass correlation that is assumed for the differences on a page, if no page of the corpus has
#: questions.
ASSUMED_ICC_OF_DIFFERENCES = 0.4
#: The most additions with which a distribution is computed exactly.
MOST_STEPS = 500_000_000
#: The number of bisection steps, enough to compute a bound in double precision.
HALVINGS = 55


def difference_interval(
    differences: Sequence[float] | Floats, pages: Sequence[str], *, level: float = LEVEL
) -> Interval | None:
    """Return the confidence interval for the mean of paired ``differences`` (n,), each in -1..1.

    ``pages[i]`` is the source of the gold for question i. Returns ``None`` if there are no questions, or if
    questions share pages and there are fewer than five effective pages.

    >>> found = difference_interval([0.0] * 20, [str(n) for n in range(20)])
    >>> round(found.low, 4), round(found.high, 4)
    (-0.1611, 0.1611)
    """
    return FlipTest(page_totals(differences, pages)).interval(1 - level) if len(differences) else None


class FlipTest:
    """The sign-flip test of a sample of differences, and its inversion.

    ``totals`` are the page totals of the differences. ``asked`` is the share of the corpus's pages that have
    questions, or 0 if the corpus is unknown. ``hits`` is true if all differences are -1, 0 or 1. ``weighted``
    is true if the sums and sizes of the pages are not counts (several datasets).
    """

    def __init__(self, totals: PageTotals, *, asked: float = 0.0, seed: int = 0, draws: int = DRAWS) -> None:
        self._totals, self._asked = totals, asked
        self.mean = float(totals.mean)
        self._moving = np.abs(totals.sums) >= ROUNDING
        self._tolerance = ROUNDING * float(np.abs(totals.sums).sum())
        self._seed, self._draws = seed, draws
        self.test = "sign-flip, exact"
        #: The probability of an unseen half, if halves are drawn.
        self._least = 0.0
        self._sums, self._sizes, self._chances = self._halves()

    def _halves(self) -> tuple[Floats, Floats, Floats]:
        """Return the sum, the questions and the probability of each random half of the pages that move."""
        pages = np.stack([self._totals.sums[self._moving], self._totals.sizes[self._moving]], axis=1)
        rows, columns = (np.rint(np.abs(pages)).sum(0) + 1).astype(int).tolist()
        if np.array_equal(pages, np.rint(pages)) and rows * columns * len(pages) <= MOST_STEPS:
            return _distribution(pages.astype(np.int64), rows, columns)
        if len(pages) <= EXACT_CLUSTERS:
            halves = all_halves(pages)
            return halves[:, 0], halves[:, 1], np.full(len(halves), 1 / len(halves))
        self.test = f"sign-flip, {self._draws:,} draws"
        self._least = 1 / (self._draws + 1)
        halves = random_halves(pages, self._seed, self._draws)
        halves = np.concatenate([halves, pages.sum(0) - halves])
        return halves[:, 0], halves[:, 1], np.full(len(halves), self._least / 2)

    @cached_property
    def _ties(self) -> Floats:
        """The probability that at most k questions of the pages whose sum is 0 are in a half, for each k."""
        sizes = np.rint(self._totals.sizes[~self._moving]).astype(int)
        chance = np.zeros(int(sizes.sum()) + 1)
        chance[0] = 1.0
        for size in sizes.tolist():
            chance[size:] = (chance[size:] + chance[: len(chance) - size]) / 2 + 0.0
            chance[:size] /= 2
        return np.cumsum(chance)

    @cached_property
    def p(self) -> float:
        """The p-value of the hypothesis that the true difference is 0."""
        if abs(self.mean) * self._totals.n <= self._tolerance:
            return 1.0
        return min(1.0, self._beyond(0.0, 1.0 if self.mean < 0 else -1.0))

    def _beyond(self, theta: float, side: float) -> float:
        """Return the probability that the mean of either half is at least ``theta`` (at most, if side is -1).

        ``theta`` must be on the given side of the mean.
        """
        theta *= side
        left = side * self._sums - theta * self._sizes + self._tolerance / 2
        ties = self._ties
        if theta == 0:
            chance = (left >= 0).astype(float)
        else:
            most = np.floor(left / theta) if theta > 0 else len(ties) - 1 - np.ceil(left / theta)
            chance = np.where(most < 0, 0.0, ties[np.clip(most, 0, len(ties) - 1).astype(int)])
        return self._least + 2 * float(self._chances @ chance)

    def flip_bound(self, alpha: float, side: float) -> float:
        """Return the largest (side 1) or smallest (side -1) difference that the sign-flip test accepts."""
        if self._beyond(side, side) >= alpha:
            return side
        inside, outside = self.mean, side
        for _ in range(HALVINGS):
            middle = (inside + outside) / 2
            if self._beyond(middle, side) >= alpha:
                inside = middle
            else:
                outside = middle
        return inside

    def interval(self, alpha: float) -> Interval | None:
        """Return the interval at the level 1 - ``alpha``, or ``None`` for fewer than five effective pages."""
        if self._totals.shared and effective_pages(self._totals.sizes) < LEAST_PAGES:
            return None
        lows, highs = [self.flip_bound(alpha, -1.0)], [self.flip_bound(alpha, 1.0)]
        near, far = self._floor(alpha)
        if self.mean >= 0:
            highs.append(far)
            lows.append(near)
        if self.mean <= 0:
            lows.append(-far)
            highs.append(-near)
        if self.p >= alpha:
            half = self._t_half(alpha)
            lows.append(self.mean - half)
            highs.append(self.mean + half)
        return Interval(low=max(min(lows), -1.0), high=min(max(highs), 1.0), level=1 - alpha)

    def _floor(self, alpha: float) -> tuple[float, float]:
        """Return the smallest and largest absolute difference that ``floor`` accepts."""
        from scipy.special import ndtri

        totals, z2 = self._totals, float(ndtri(1 - alpha / 2)) ** 2
        scale = float(totals.squares + 1) / float(totals.non_zero + 1)
        padding = Padding(z2, scale, ASSUMED_ICC_OF_DIFFERENCES * (1 - self._asked))
        effect = 1.0 if self._asked >= 1 else float(design_effect(totals, padding))
        most = np.sqrt(float(totals.squares) / float(totals.non_zero)) if totals.non_zero else 1.0
        size, spread = abs(self.mean), z2 * effect / totals.n
        center, width = (2 * size + spread * most) / 2, 1 + spread
        root = np.sqrt(max(center**2 - width * size**2, 0.0))
        return float((center - root) / width), float((center + root) / width)

    def _t_half(self, alpha: float) -> float:
        """Return half the width of Student's interval with the CR2 variance."""
        from scipy.special import stdtrit

        totals = self._totals
        if len(totals.sizes) < 2:
            return 0.0
        degrees = working_degrees(totals.sizes, intraclass_correlation(totals))
        error = np.sqrt(float(squared_deviations(totals).sum())) / totals.n
        return float(stdtrit(max(float(degrees), 1.0), 1 - alpha / 2) * error)


def _distribution(pages: np.ndarray, rows: int, columns: int) -> tuple[Floats, Floats, Floats]:
    """Return the distribution of (sum, questions) of a random half, for pages (m, 2) of whole numbers."""
    lowest = int(pages[:, 0].clip(max=0).sum())
    chance = np.zeros((rows, columns))
    chance[-lowest, 0] = 1.0
    for total, size in pages.tolist():
        moved = np.zeros_like(chance)
        target, source = (
            (slice(total, None), slice(None, -total))
            if total > 0
            else (slice(None, total), slice(-total, None))
        )
        moved[target, size:] = chance[source, : columns - size]
        chance = (chance + moved) / 2
    sums, sizes = np.nonzero(chance)
    return (sums + lowest).astype(float), sizes.astype(float), chance[sums, sizes]
