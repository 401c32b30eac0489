"""Time two programs on the same work, and compute the ratio of their times."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.against.table import Row, Skipped

#: The minimum and maximum number of rounds for a pair, and the time in seconds after which no round starts.
LEAST, MOST, BUDGET = 5, 31, 8.0
#: The confidence level of a row's interval. The level is lower if there are fewer than six rounds.
LEVEL = 0.95

Clock = Callable[[Callable[[], object]], float]


class Pair(NamedTuple):
    """Two programs that do the same work, ``ours`` and ``theirs``, with ``number`` units of work per call.

    The table shows times per ``unit``, for example per ``question``. ``answers`` describes how the results of
    the two programs differ. ``clock`` runs one call and returns its duration in seconds (by default, wall
    time).
    """

    group: str
    what: str
    against: str
    ours: Callable[[], object]
    theirs: Callable[[], object]
    number: int
    unit: str
    answers: str
    clock: Clock | None = None
    budget: float = BUDGET


Source = Iterator[Pair | Skipped]


def wall(call: Callable[[], object]) -> float:
    """Return the wall time that one call takes, in seconds."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def measure(pair: Pair) -> Row:
    """Time the two programs alternately, after one untimed call of each program."""
    clock = pair.clock or wall
    if pair.clock is None:
        pair.ours()
        pair.theirs()
    ours: list[float] = []
    theirs: list[float] = []
    started = time.perf_counter()
    while len(ours) < LEAST or (len(ours) < MOST and time.perf_counter() - started < pair.budget):
        sides = [(pair.ours, ours), (pair.theirs, theirs)]
        for call, taken in sides if len(ours) % 2 == 0 else reversed(sides):
            taken.append(clock(call))
    ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
    low, high = median_interval(ratios)
    return Row(
        group=pair.group,
        what=pair.what,
        against=pair.against,
        unit=pair.unit,
        ours_ms=round(1000 * float(np.median(ours)) / pair.number, 4),
        theirs_ms=round(1000 * float(np.median(theirs)) / pair.number, 4),
        ratio=round(float(np.median(ratios)), 3),
        low=round(low, 3),
        high=round(high, 3),
        rounds=len(ours),
        answers=pair.answers,
    )


def median_interval(values: list[float]) -> tuple[float, float]:
    """Return a confidence interval for the median, computed from order statistics.

    For six or more values, the confidence level of the interval is at least 95%. The interval assumes only
    that the number of values below the median is binomial(n, 1/2).
    """
    from scipy.stats import binom

    n = len(values)
    rank = int(binom.ppf((1 - LEVEL) / 2, n, 0.5))  # 0 for fewer than six values
    rank = max(1, rank)
    ordered = sorted(values)
    return ordered[rank - 1], ordered[n - rank]
