"""Significance tests for paired scores, and the interval of the differences that the test does not reject.

The unit of analysis is the question. Questions whose gold is in the same source form a cluster (a page),
because they tend to succeed or fail together. Every test is two-sided and uses the differences in score,
``candidate - baseline``: the exact McNemar test for hits if every page has one question, and otherwise
sign-flip randomization of the pages. A sum within 1e-9 of 0 counts as 0. The p-value from random sign
patterns is (r + 1) / (draws + 1), where r is the number of drawn totals whose absolute value is at least that
of the observed total. Holm's correction covers the comparisons that share a baseline and a measure.

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
   abs(theta)), on the side of d (on both sides if d is 0). B is 1 for hits. For other scores, B is the root
   mean square of the differences that are not 0 and of one difference of 1, whose weight is the share of
   ties. ``deff`` is the design effect with z**2 pseudo-observations and an assumed intraclass correlation of
   .4 * (1 - share of the corpus's pages that have questions), or 1 if all pages have.
3. ``t`` is Student's t-test with the CR2 variance (:mod:`branchrank.scoring.clustering`). It extends the
   interval only if the verdict's test does not reject 0, and protects samples of few or unequal pages.

``benchmarks/interval_coverage.py`` simulates how often the interval contains the true difference.

Sources: McNemar 1947; Smucker, Allan and Carterette, CIKM 2007; Phipson and Smyth 2010; Holm 1979.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from branchrank.scoring.clustering import (
    LEAST_PAGES,
    ROUNDING,
    Floats,
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

#: The most pages of which all halves are enumerated, and the number of halves drawn for more.
EXACT_CLUSTERS, DRAWS = 20, 100_000
#: The intraclass correlation that is assumed for the differences on a page, if the corpus is unknown.
ASSUMED_ICC_OF_DIFFERENCES = 0.4
#: The most additions with which a distribution is computed exactly.
MOST_STEPS = 500_000_000
#: The number of bisection steps, for a bound that is exact to 8 digits.
HALVINGS = 27
#: The share of alpha that numbers of tied questions may have together to be left out of a bound.
NEGLIGIBLE = 1e-9


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

    ``totals`` are the page totals of the differences. If the sizes of the pages are not counts (several
    datasets), the sizes of the pages whose sum is 0 are drawn too. ``asked`` is the share of the corpus's
    pages that have questions, or 0 if the corpus is unknown.
    """

    def __init__(self, totals: PageTotals, *, asked: float = 0.0, seed: int = 0, draws: int = DRAWS) -> None:
        self._totals, self._asked = totals, asked
        self._tolerance = ROUNDING * float(np.abs(totals.sums).sum())
        mean = float(totals.mean)
        self.mean = 0.0 if abs(mean) * totals.n <= self._tolerance else mean
        moving = np.abs(totals.sums) >= ROUNDING
        self._tied = totals.sizes[~moving]
        self._seed, self._draws = seed, draws
        self.test = "sign-flip, exact"
        #: The probability of an unseen half, if halves are drawn.
        self._least = 0.0
        self._sums, self._sizes, self._chances = self._halves(
            np.stack([totals.sums[moving], totals.sizes[moving]], axis=1)
        )

    def _halves(self, pages: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the sum, the questions and the probability of each random half of ``pages`` (m, 2)."""
        counted = np.array_equal(self._tied, np.rint(self._tied))
        if counted and np.array_equal(pages, np.rint(pages)):
            distribution = _distribution(pages.astype(np.int64))
            if distribution is not None:
                return distribution
        if len(pages) <= EXACT_CLUSTERS:
            halves, chance = all_halves(pages), 0.5 ** len(pages)
        else:
            self.test = f"sign-flip, {self._draws:,} draws"
            self._least = 1 / (self._draws + 1)
            halves, chance = random_halves(pages, self._seed, self._draws), self._least / 2
            halves = np.concatenate([halves, pages.sum(0) - halves])
        if not counted:
            copies = -(-self._draws // len(halves))
            halves, chance = np.tile(halves, (copies, 1)), chance / copies
            halves[:, 1] += random_halves(self._tied, self._seed + 1, len(halves))
            self._tied = self._tied[:0]
        return halves[:, 0], halves[:, 1], np.full(len(halves), chance)

    @cached_property
    def _ties(self) -> Floats:
        """The probability that a half has k questions of the pages whose sum is 0, for each k."""
        chance = np.ones(1)
        for size, count in zip(*np.unique(self._tied.astype(int), return_counts=True), strict=True):
            pages = np.zeros(size * count + 1)
            pages[::size] = _binomial(int(count))
            chance = np.convolve(chance, pages)
        return chance

    @cached_property
    def p(self) -> float:
        """The p-value of the hypothesis that the true difference is 0."""
        if self.mean == 0:
            return 1.0
        left = self._sums if self.mean < 0 else -self._sums
        return min(1.0, self._least + 2 * float(self._chances[left >= -self._tolerance / 2].sum()))

    @cached_property
    def _sorted(self) -> tuple[Floats, Floats, Floats, float]:
        """The places of halves sorted by questions and sum, their cumulated chances, and all sizes of halves.

        The places of halves with one question more are farther by twice the last number.
        """
        reach = float(np.abs(self._sums).max()) + 1
        places = self._sums + 2 * reach * self._sizes
        order = places.argsort()
        chances = np.concatenate([[0.0], self._chances[order].cumsum()])
        return places[order], chances, np.unique(self._sizes), reach

    def _reached(self, alpha: float, side: float) -> Callable[[float], float]:
        """Return the probability that ``side`` times the mean of a half is at least theta, for each theta."""
        if not np.array_equal(self._totals.sizes, np.rint(self._totals.sizes)):
            left = side * self._sums + self._tolerance / 2
            return lambda theta: float(self._chances @ (left >= theta * self._sizes))
        places, chances, sizes, reach = self._sorted
        likely = np.flatnonzero(self._ties > alpha * NEGLIGIBLE / len(self._ties))
        questions, ties = np.add.outer(sizes, likely), self._ties[likely]

        def before(sums: Floats | float) -> Floats:
            """The probability of the halves before ``sums``, in the order of ``side``."""
            wanted = 2 * reach * sizes[:, None] + side * np.clip(sums, -reach, reach)
            return side * chances[np.searchsorted(places, wanted, "left" if side > 0 else "right")]

        total = before(reach)
        return lambda theta: float(((total - before(theta * questions - self._tolerance / 2)) @ ties).sum())

    def flip_bound(self, alpha: float, side: float) -> float:
        """Return the largest (side 1) or smallest (side -1) difference that the sign-flip test accepts."""
        reached = self._reached(alpha, side)

        def accepted(theta: float) -> bool:
            """Whether the mean of a half is at least ``side * theta`` often enough."""
            return self._least + 2 * reached(theta) >= alpha

        inside, outside = side * self.mean, 1.0
        if inside >= 1 or accepted(outside):
            return side
        if inside < 0:
            inside, outside = (0.0, outside) if self.p >= alpha else (inside, 0.0)
        for _ in range(HALVINGS):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if accepted(middle) else (inside, middle)
        return side * inside + 0.0

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
        ties = 1 - float(totals.non_zero) / totals.n
        most = np.sqrt((float(totals.squares) + ties) / (float(totals.non_zero) + ties))
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


def _binomial(n: int) -> Floats:
    """Return P(Bin(n, 1/2) = k) for k in 0..n."""
    from scipy.special import gammaln

    k = np.arange(n + 1)
    return np.asarray(np.exp(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) - n * np.log(2)))


def _distribution(pages: NDArray[np.int64]) -> tuple[Floats, Floats, Floats] | None:
    """Return the distribution of (sum, questions) of a random half, for ``pages`` (m, 2) of whole numbers.

    Pages of one question that is won or lost are added as two binomial distributions, and the others one by
    one. Returns ``None`` if this takes too many steps.
    """
    single = (np.abs(pages) == 1).all(1)
    won, lost = int((pages[single, 0] == 1).sum()), int((pages[single, 0] == -1).sum())
    others = pages[~single]
    others = others[np.argsort(others[:, 1], kind="stable")]
    lows = np.concatenate([[-lost], others[:, 0].clip(max=0)]).cumsum()
    highs = np.concatenate([[won], others[:, 0].clip(min=0)]).cumsum()
    sizes = np.concatenate([[won + lost], others[:, 1]]).cumsum()
    if ((highs - lows + 1.0) * (sizes + 1)).sum() > MOST_STEPS:
        return None
    chance = np.zeros((won + lost + 1, won + lost + 1))
    wins, losses = np.arange(won + 1)[:, None], np.arange(lost + 1)
    chance[lost + wins - losses, wins + losses] = _binomial(won)[:, None] * _binomial(lost)
    for total, size in others.tolist():
        rows, columns = chance.shape
        grown = np.zeros((rows + abs(total), columns + size))
        start = max(-total, 0)
        grown[start : start + rows, :columns] = chance / 2
        grown[start + total : start + total + rows, size:] += chance / 2
        chance = grown
    sums, questions = np.nonzero(chance)
    return (sums + lows[-1]).astype(float), questions.astype(float), chance[sums, questions]


def all_halves(values: Floats) -> Floats:
    """Return the sum of each of the 2**n subsets of ``values`` (n, ...), with shape (2**n, ...)."""
    sums = np.zeros((1, *values.shape[1:]))
    for value in values:
        sums = np.concatenate([sums + value, sums])
    return sums


def random_halves(values: Floats, seed: int, draws: int) -> Floats:
    """Return the sum of each random subset of ``values`` (n, ...), as an array of shape (draws, ...).

    Each value is in a subset with probability 1/2. In each draw, 8 random bits select one of the 256 subsets
    of a group of 8 values. The random bits are the raw output of PCG64, which is the same in all versions of
    NumPy.
    """
    words_per_group = -(-draws // 8)
    source = np.random.PCG64(seed)
    sums = np.zeros((draws, *values.shape[1:]))
    for start in range(0, len(values), 8):
        table = all_halves(values[start : start + 8])
        subsets = source.random_raw(words_per_group).view(np.uint8)[:draws]
        sums += table[subsets & (len(table) - 1)]
    return sums


def mcnemar(wins: int, losses: int) -> float:
    """Return the exact McNemar p-value of the questions that the two predictors score differently."""
    return min(1.0, 2 * float(binomial_cdf(min(wins, losses), wins + losses, 0.5)))


def binomial_cdf(most: NDArray[Any] | int, n: NDArray[Any] | int, chance: float) -> Floats:
    """Return P(Bin(n, chance) <= most), elementwise; ``most`` may be negative.

    ``scipy.special`` loads in a third of the time that ``scipy.stats`` takes.
    """
    from scipy.special import bdtr

    return np.where(np.less(most, 0), 0.0, bdtr(np.maximum(most, 0), n, chance))


def p_floor(differing: int) -> float:
    """Return min(1, 2**(1 - differing)), the smallest p-value for ``differing`` pairs or clusters."""
    return min(1.0, 2.0 ** (1 - differing))


def paired_t(differences: Sequence[float] | Floats) -> float | None:
    """Return the p-value of Student's paired t-test, which reports show beside the randomization test.

    Returns ``None`` if there are fewer than two questions, or if all differences are equal.
    """
    values = np.asarray(differences, dtype=np.float64)
    if len(values) < 2 or np.ptp(values) < 1e-12:
        return None
    from scipy.special import stdtr

    t = values.mean() / (values.std(ddof=1) / np.sqrt(len(values)))
    return float(2 * stdtr(len(values) - 1, -abs(t)))


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return the p-values adjusted with Holm's correction, in the order of ``p_values``."""
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return tuple(adjusted)
