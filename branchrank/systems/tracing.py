"""The trace of one query: the ranked list and the duration of each stage."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from branchrank.ranking.lists import RankedList
from branchrank.records import LLMCall, Scored, StageTrace


class Trace:
    """Collects the stages of one query, in the order in which they ran. Durations are in milliseconds."""

    def __init__(self) -> None:
        self.stages: list[StageTrace] = []
        self.stage_ms: dict[str, float] = {}
        self.calls: list[LLMCall] = []
        self.fallbacks: list[str] = []

    @contextmanager
    def timed(self, stage: str, clock: Callable[[], float] = time.perf_counter) -> Iterator[None]:
        """Add the duration of the ``with`` block to the time of ``stage``. ``clock`` returns seconds."""
        started = clock()
        try:
            yield
        finally:
            elapsed = 1000.0 * (clock() - started)
            self.stage_ms[stage] = self.stage_ms.get(stage, 0.0) + elapsed

    def add(self, stage: str, unit: Literal["chunk", "node", "span"], ranking: Sequence[Scored]) -> None:
        """Add the ranked list that ``stage`` returned."""
        columns = RankedList.of(ranking)
        self.stages.append(StageTrace(stage=stage, unit=unit, keys=columns.ids, scores=columns.scores))
