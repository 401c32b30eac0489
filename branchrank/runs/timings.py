"""The times of a run: the file ``timings.csv``, and percentiles with ranges.

All bounds below assume that the times of different queries are independent. On a machine that is slow for a
while, neighboring queries are slow together, and the ranges are too narrow to be confidence intervals.

The q-quantile of n times is the ceil(q * n)-th smallest time. For q = 0.95, the q-quantile is the percentile
p95. The upper confidence bound for the q-quantile is the r-th smallest time, for the smallest r with P(Bin(n,
q) <= r - 1) >= confidence. The upper bound is valid for any distribution of the times. A 95% upper bound for
p95 can be computed if n is at least 59, since 1 - 0.95**59 is above 0.95. If n is too small for a bound, the
report prints the rank of the percentile (such as "second-slowest") instead of the bound. The endpoints of the
two-sided 95% interval are two of the n measured times. Each endpoint is chosen so that the true percentile is
beyond the endpoint with a probability of at most 2.5% (Hahn and Meeker 1991, section 5.2). A 95% interval can
be computed for p50 if n is at least 6, and for p95 if n is at least 72.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from math import ceil, fsum
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from branchrank.core.errors import RunError
from branchrank.core.io.files import write_text
from branchrank.core.io.table import table_csv, text_of
from branchrank.core.records import Record
from branchrank.scoring.significance import binomial_cdf

TOTAL = "total"
CPU = "cpu"
LLM_WAIT = "llm wait"
COMPUTE = "compute"

#: The phases of the latency pass. A predictor's first query is ``first``, and its other queries are ``warm``.
#: A query that fails is ``failed``, and its time is not part of any percentile. A query whose hits are not
#: those of its row is ``different``, and its predictor has no percentiles.
FIRST, WARM, FAILED, DIFFERENT = "first", "warm", "failed", "different"

_CONFIDENCE = 0.95
_ORDINALS = {1: "slowest", 2: "second-slowest", 3: "third-slowest"}


class Timing(Record, frozen=True, kw_only=True):
    """The time of one stage in one query."""

    predictor: str
    question_id: str
    phase: Annotated[str, msgspec.Meta(pattern="^(first|warm|failed|different)$")]
    stage: str
    ms: Annotated[float, msgspec.Meta(ge=0, lt=1e12)]


def write_timings(path: Path, timings: Sequence[Timing]) -> None:
    """Write ``timings.csv`` with one row per query and stage."""
    lines = (
        (timing.predictor, timing.question_id, timing.phase, timing.stage, f"{timing.ms:.4f}")
        for timing in timings
    )
    write_text(path, table_csv(Timing.__struct_fields__, lines))


def read_timings(path: Path) -> list[Timing]:
    """Return the timings in ``timings.csv``, or an empty list for a run without a latency pass."""
    if not path.exists():
        return []
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = [
                {name: text_of(row[name]) for name in Timing.__struct_fields__}
                for row in csv.DictReader(stream)
            ]
        return msgspec.convert(rows, list[Timing], strict=False)
    except (ValueError, KeyError, AttributeError, TypeError, csv.Error) as error:
        raise RunError(f"{path} is damaged: {error}", remedy="run the latency pass again") from None


class Percentile(Record, frozen=True, kw_only=True):
    """A percentile of ``n`` durations, in ms. The interval and the bound are ``None`` if n is too small.

    For independent times, the two-sided 95% interval is from ``low_ms`` to ``high_ms``, and ``upper_ms`` is
    the one-sided upper bound. ``words`` replaces the upper bound in reports if n is too small: the
    percentile's rank among the durations, as in ``second-slowest; no upper bound``.
    """

    n: int
    value_ms: float
    low_ms: float | None
    high_ms: float | None
    upper_ms: float | None
    words: str


def percentile(times_ms: Sequence[float], quantile: float) -> Percentile:
    """Return a percentile of the times, with a two-sided 95% interval and a one-sided 95% upper bound.

    ``quantile`` selects the percentile, such as 0.95 for p95.

    >>> found = percentile([float(ms) for ms in range(1, 101)], 0.5)
    >>> found.value_ms, found.low_ms, found.high_ms
    (50.0, 40.0, 61.0)
    """
    n = len(times_ms)
    ordered = sorted(times_ms)
    rank = max(1, ceil(round(quantile * n, 9)))  # rounded, since 0.95 * 20 is 19.000000000000004
    bound = _bound_rank(n, quantile, _CONFIDENCE)
    # The lower end is the upper end for the times in descending order.
    most, least = (_bound_rank(n, each, (1 + _CONFIDENCE) / 2) for each in (quantile, 1 - quantile))
    from_top = n - rank + 1
    return Percentile(
        n=n,
        value_ms=ordered[rank - 1],
        low_ms=ordered[n - least] if least is not None and most is not None else None,
        high_ms=ordered[most - 1] if least is not None and most is not None else None,
        upper_ms=None if bound is None else ordered[bound - 1],
        words=f"{_ORDINALS.get(from_top, f'{from_top}th-slowest of {n}')}; no upper bound",
    )


def _bound_rank(n: int, quantile: float, confidence: float) -> int | None:
    if 1 - quantile**n < confidence:
        return None
    return int(np.searchsorted(binomial_cdf(np.arange(n), n, quantile), confidence)) + 1


class Warm:
    """The times in ms of one predictor's warm queries by stage and question, and of its first query.

    ``failed`` is the number of queries that failed and therefore have no time, and ``different`` the number
    of queries that had other hits than in the quality pass, for which a predictor has no times.
    """

    def __init__(self, timings: Iterable[Timing], predictor: str) -> None:
        self.by_stage: dict[str, dict[str, float]] = {}
        self.first: float | None = None
        self.failed = 0
        self.different = 0
        for timing in timings:
            if timing.predictor != predictor:
                continue
            if timing.phase == WARM:
                self.by_stage.setdefault(timing.stage, {})[timing.question_id] = timing.ms
            elif timing.phase == FAILED:
                self.failed += 1
            elif timing.phase == DIFFERENT:
                self.different += 1
            elif timing.stage == TOTAL:
                self.first = timing.ms
        if self.different:
            self.by_stage, self.first = {}, None

    def percentile(self, stage: str, share: float) -> Percentile | None:
        """Return a percentile of a stage's times, or ``None`` if there are no timings."""
        times = self.by_stage.get(stage)
        return percentile(list(times.values()), share) if times else None

    def percentiles(self) -> dict[str, tuple[Percentile, Percentile]]:
        """Return the p50 and p95 of each stage's times."""
        return {
            stage: (percentile(list(ms.values()), 0.5), percentile(list(ms.values()), 0.95))
            for stage, ms in self.by_stage.items()
        }

    def mean(self, stage: str, less: str = "") -> float | None:
        """Return the mean time of a stage in ms, minus the time of the stage named in ``less`` (if any)."""
        times, off = self.by_stage.get(stage), self.by_stage.get(less, {})
        if not times:
            return None
        return fsum(ms - off.get(question, 0.0) for question, ms in times.items()) / len(times)
