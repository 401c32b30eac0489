"""Latency percentiles with an upper bound, if the sample is large enough for one.

The q-percentile of n times is the ceil(q n)-th smallest. Its upper bound is the r-th smallest, for the least
r with P(Bin(n, q) <= r - 1) >= confidence: it makes no assumption about the distribution. A 95% bound on p95
exists from n = 59 on, where 1 - 0.95**n first reaches 0.95. For a smaller n the printed words name the order
statistic and say that there is no bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from branchrank.errors import UsageError
from branchrank.records import Record

_ORDINALS = {1: "slowest", 2: "second-slowest", 3: "third-slowest"}


class Percentile(Record, frozen=True, kw_only=True):
    """A percentile of ``n`` times in ms; ``upper`` is its one-sided 95% bound or ``None``, in which
    case ``words`` replaces it in print."""

    quantile: float
    n: int
    value_ms: float
    upper_ms: float | None
    words: str


def percentile(times_ms: Sequence[float], quantile: float, confidence: float = 0.95) -> Percentile:
    """The percentile of the times with its upper bound. Raises :class:`UsageError` without times."""
    n = len(times_ms)
    if n == 0:
        raise UsageError("no times to take a percentile of", remedy="time at least one query")
    ordered = sorted(times_ms)
    rank = max(1, ceil(round(quantile * n, 9)))  # 0.95 * 20 must be 19, not 19.000000000000004
    bound = _bound_rank(n, quantile, confidence)
    from_top = n - rank + 1
    which = _ORDINALS.get(from_top, f"{from_top}th-slowest of {n}")
    upper = ordered[bound - 1] if bound is not None else None
    return Percentile(
        quantile=quantile,
        n=n,
        value_ms=ordered[rank - 1],
        upper_ms=upper,
        words=f"{which}; no upper bound" if upper is None else f"at most {upper:.1f} ms, 95% confidence",
    )


def _bound_rank(n: int, quantile: float, confidence: float) -> int | None:
    if 1 - quantile**n < confidence:
        return None
    from scipy.stats import binom

    return int(binom.ppf(confidence, n, quantile)) + 1
