"""Significance tests for paired scores from two predictors.

The unit of analysis is the question. Questions whose gold is in the same source form a cluster, because they
tend to succeed or fail together. Every test is two-sided and uses the differences in score, ``candidate -
baseline``.

1. Binary scores (hit or miss) are tested with the exact McNemar test if every cluster has one question.
2. All other scores are tested with sign-flip randomization. Under the null hypothesis, the sum of a cluster's
   differences is equally likely to be positive or negative. A sum within 1e-9 of 0 counts as 0.
3. If all cluster sums are integers (for example, with binary scores), the null distribution of their total is
   computed exactly by convolution. If some sums are not integers and at most 20 sums are nonzero, the null
   distribution is computed from all sign patterns. If some sums are not integers and more than 20 sums are
   nonzero, sign patterns are drawn with a seeded random generator. The p-value from random sign patterns is
   (r + 1) / (draws + 1), where r is the number of drawn totals whose absolute value is at least that of the
   observed total.
4. Holm's correction covers the comparisons that share a baseline and a measure.
5. The fragility of a result is the number of wrong gold labels after which it is no longer significant.

Sources: McNemar 1947; Smucker, Allan and Carterette, CIKM 2007; Phipson and Smyth 2010; Holm 1979.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from branchrank.core.records import Record

Floats = NDArray[np.float64]

EXACT_CLUSTERS = 20
DRAWS = 100_000
ROUNDING = 1e-9  # scores in 0..1 that differ by less than this value count as equal


class Significance(Record, frozen=True, kw_only=True):
    """A two-sided p-value in 0..1, and the name of the test."""

    p: float
    test: str


def mcnemar(wins: int, losses: int) -> Significance:
    """Run the exact McNemar test, a sign test on the questions that the two predictors score differently."""
    p = min(1.0, 2 * float(binomial_cdf(min(wins, losses), wins + losses, 0.5)))
    return Significance(p=p, test="exact McNemar")


def binomial_cdf(most: NDArray[Any] | int, n: NDArray[Any] | int, chance: float) -> Floats:
    """Return P(Bin(n, chance) <= most), elementwise; ``most`` may be negative.

    ``scipy.special`` loads in a third of the time that ``scipy.stats`` takes.
    """
    from scipy.special import bdtr

    return np.where(np.less(most, 0), 0.0, bdtr(np.maximum(most, 0), n, chance))


def cluster_sums(values: Sequence[float] | Floats, clusters: Sequence[str]) -> Floats:
    """Return the sum of ``values`` (n,) for each cluster, in the order in which the clusters first occur."""
    place = {cluster: index for index, cluster in enumerate(dict.fromkeys(clusters))}
    index = np.fromiter((place[cluster] for cluster in clusters), dtype=np.intp, count=len(clusters))
    sums = np.bincount(index, weights=np.asarray(values, dtype=np.float64), minlength=len(place))
    return sums.astype(np.float64, copy=False)


def non_zero(sums: Floats) -> Floats:
    """Return the entries (m,) of ``sums`` (n,) whose absolute value is at least 1e-9."""
    return sums[np.abs(sums) >= ROUNDING]


def sign_flip(sums: Floats, *, seed: int = 0, draws: int = DRAWS) -> Significance:
    """Use sign-flip randomization to test whether the total of ``sums`` (one per cluster) differs from 0."""
    moving = non_zero(sums)
    if not len(moving):
        return Significance(p=1.0, test="sign-flip, exact")
    if np.array_equal(moving, np.rint(moving)):
        return Significance(p=_whole_number_p(moving.astype(np.int64)), test="sign-flip, exact")
    observed = abs(float(moving.sum())) - ROUNDING * float(np.abs(moving).sum())
    if len(moving) <= EXACT_CLUSTERS:
        totals = _totals(all_halves(moving), moving)
        return Significance(p=float(np.mean(np.abs(totals) >= observed)), test="sign-flip, exact")
    totals = _totals(random_halves(moving, seed, draws), moving)
    extreme = int(np.count_nonzero(np.abs(totals) >= observed))
    return Significance(p=(extreme + 1) / (draws + 1), test=f"sign-flip, {draws:,} draws")


def _whole_number_p(moving: NDArray[np.int64]) -> float:
    """Return the exact p-value for integer cluster sums, from a convolution of two-point distributions."""
    sizes = np.abs(moving)
    reach = int(sizes.sum())
    chance = np.zeros(2 * reach + 1)  # chance[reach + t] = P(total = t)
    chance[reach] = 1.0
    for size in sizes.tolist():
        shifted = np.zeros_like(chance)
        shifted[size:] += chance[:-size] / 2
        shifted[:-size] += chance[size:] / 2
        chance = shifted
    observed = abs(int(moving.sum()))
    return min(1.0, float(chance[: reach - observed + 1].sum() + chance[reach + observed :].sum()))


def _totals(halves: Floats, moving: Floats) -> Floats:
    """Return the total of each sign pattern: the half with positive signs minus the other half."""
    return np.asarray(2 * halves - moving.sum())


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


def p_floor(differing: int) -> float:
    """Return min(1, 2**(1 - differing)), the smallest p-value for ``differing`` pairs or clusters."""
    return min(1.0, 2.0 ** (1 - differing))


def fragility(
    a: Mapping[str, float],
    b: Mapping[str, float],
    clusters: Mapping[str, str],
    *,
    alpha: float = 0.05,
    seed: int = 0,
) -> tuple[tuple[str, ...], int]:
    """Return the smallest set of questions whose relabeling makes a lead lose its significance.

    The set is empty if the difference is not significant with the original labels. The second value is the
    number of questions that favor the leader. Questions with equal differences are sorted by id.

    Suppose that a question's gold is wrong, and that the predictor with the lower score had in fact found the
    correct answer. If the gold label is corrected, the question's difference in score changes its sign, so
    the sum of the differences over all questions falls by twice the question's difference. The labels of the
    questions that favor the leader most are corrected first, because correcting these labels reduces the sum
    of the differences most. If clusters have several questions, the computed number of labels is only an
    upper bound: correcting fewer labels may be enough to change the result.

    The test is a sign-flip test by cluster, without correction for multiple comparisons. For hit rates with
    one question per cluster, the sign-flip test is the same as the exact McNemar test. If the verdict uses
    Holm's correction, pass alpha divided by the number of candidates.
    """
    ids = sorted(clusters)
    remaining = np.array([b[each] - a[each] for each in ids])
    if remaining.sum() < 0:
        remaining = -remaining
    favoring = sorted((i for i in range(len(ids)) if remaining[i] > 0), key=lambda i: (-remaining[i], ids[i]))
    sources = [clusters[each] for each in ids]
    changed = 0
    while remaining.sum() > 1e-9 and sign_flip(cluster_sums(remaining, sources), seed=seed).p < alpha:
        remaining[favoring[changed]] *= -1
        changed += 1
    return tuple(ids[i] for i in favoring[:changed]), len(favoring)
