"""Intervals: Wilson for a rate, BCa paired bootstrap over clusters for a difference of means.

BCa (Efron 1987): resample whole clusters with replacement, take the mean difference of each resample,
and read the interval at percentiles corrected for bias (share of resamples below the estimate, ties
half) and for skew (jackknife over clusters). Resampling questions instead of clusters would treat the
questions of one page as independent and make intervals too short (Miller 2024).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from branchrank.measures.significance import Floats, cluster_sums
from branchrank.records import Record

RESAMPLES = 9_999
_BATCH = 500
_SLACK = 1e-12  # means that differ by rounding only count as equal


class Interval(Record, frozen=True, kw_only=True):
    """``low <= high``, of confidence ``level``."""

    low: float
    high: float
    level: float = 0.95


class Rate(Record, frozen=True, kw_only=True):
    """``successes`` out of ``n`` with its Wilson interval; 0 with the interval 0..1 when n is 0."""

    successes: int
    n: int
    value: float
    low: float
    high: float


def rate(successes: int, n: int, level: float = 0.95) -> Rate:
    """A rate with its Wilson score interval (Wilson 1927)."""
    if n == 0:
        return Rate(successes=0, n=0, value=0.0, low=0.0, high=1.0)
    from scipy.stats import binomtest

    interval = binomtest(successes, n).proportion_ci(confidence_level=level, method="wilson")
    return Rate(
        successes=successes,
        n=n,
        value=successes / n,
        low=max(0.0, float(interval.low)),
        high=min(1.0, float(interval.high)),
    )


@lru_cache(maxsize=2)
def _resample_counts(clusters: int, resamples: int, seed: int) -> NDArray[np.uint16]:
    """How often each resample (rows) drew each cluster (columns): (resamples, clusters).

    Drawn once for all the comparisons over the same questions, from PCG64's stable raw stream.
    """
    source = np.random.PCG64(seed)
    counts = np.empty((resamples, clusters), dtype=np.uint16)
    for row in range(resamples):
        uniform = (source.random_raw(clusters) >> np.uint64(11)) * 2.0**-53
        counts[row] = np.bincount((uniform * clusters).astype(np.intp), minlength=clusters)
    counts.setflags(write=False)
    return counts


def _resampled_means(sums: Floats, sizes: Floats, resamples: int, seed: int) -> Floats:
    """The mean of every resample (resamples,), a batch of resamples at a time to bound the memory."""
    counts = _resample_counts(len(sums), resamples, seed)
    means = np.empty(resamples)
    for start in range(0, resamples, _BATCH):
        batch = counts[start : start + _BATCH].astype(np.float64)
        # A BLAS product rounds differently for another number of threads.
        totals, counted = (np.einsum("ij,j->i", batch, column) for column in (sums, sizes))
        means[start : start + _BATCH] = totals / counted
    return means


def paired_bootstrap(
    differences: Sequence[float] | Floats,
    clusters: Sequence[str],
    *,
    level: float = 0.95,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Interval:
    """BCa interval of the mean of ``differences`` (n,), each in -1..1, resampled by cluster.

    When every resample gives the same mean (no pair differs, all differ alike, or there is a single
    cluster) the bootstrap knows nothing, and the interval is :func:`unseen_interval`.
    """
    values = np.asarray(differences, dtype=np.float64)
    sums = cluster_sums(values, clusters)
    sizes = cluster_sums(np.ones(len(values)), clusters)
    estimate = float(values.mean())
    if np.ptp(sums / sizes) < _SLACK:
        return unseen_interval(estimate, len(sums), level)
    from scipy.special import ndtr, ndtri

    means = _resampled_means(sums, sizes, resamples, seed)
    below = np.count_nonzero(means < estimate - _SLACK) + np.count_nonzero(means <= estimate + _SLACK)
    share = float(np.clip(below / (2 * resamples), 1 / (resamples + 1), resamples / (resamples + 1)))
    bias = float(ndtri(share))
    without_one = (sums.sum() - sums) / (sizes.sum() - sizes)
    skew = without_one.mean() - without_one
    acceleration = float((skew**3).sum() / (6 * (skew**2).sum() ** 1.5))
    tail = float(ndtri((1 + level) / 2))
    percentiles = [float(ndtr(bias + (bias + z) / (1 - acceleration * (bias + z)))) for z in (-tail, tail)]
    low, high = np.quantile(means, percentiles)
    return Interval(low=float(low), high=float(high), level=level)


def unseen_interval(value: float, n: int, level: float = 0.95) -> Interval:
    """Bounds for a mean when all ``n`` independent clusters showed the same ``value`` in -1..1.

    Had a share q of all clusters another value, n equal ones in a row would have chance (1-q)**n. So
    with the wanted confidence q is at most 1 - ((1-level)/2)**(1/n), and those unseen clusters can
    pull the mean at most to -1 or 1. For no differing pair in 100 questions: about +-0.036.
    """
    unseen = 1 - ((1 - level) / 2) ** (1 / n)
    return Interval(low=value - unseen * (1 + value), high=value + unseen * (1 - value), level=level)
