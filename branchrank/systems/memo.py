"""Memoisation of stage results, keyed by everything they depend on, so that shared work is done once."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar

T = TypeVar("T")


class Memo:
    """Keeps stage results for the duration of a run.

    A key's first element names the kind of work; ``computed`` and ``reused`` count by that name.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[Hashable, ...], Any] = {}
        self._lock = Lock()
        self.computed: Counter[str] = Counter()
        self.reused: Counter[str] = Counter()

    def begin_query(self) -> None:
        """Start a query. This class keeps everything; subclasses may clear results."""

    def get(self, key: tuple[Hashable, ...], compute: Callable[[], T]) -> T:
        """Return the value of ``key``, computed at the first call. Errors are not stored."""
        with self._lock:
            if key in self._kept:
                self.reused[str(key[0])] += 1
                kept: T = self._kept[key]
                return kept
        value = compute()
        with self._lock:
            self.computed[str(key[0])] += 1
            self._kept[key] = value
        return value


class QueryMemo(Memo):
    """Keeps results only within one query, for latency measurements: each query does all of its work once."""

    def begin_query(self) -> None:
        """Clear the results of the previous query."""
        self._kept.clear()


class RecentMemo(Memo):
    """Keeps the ``limit`` most recently used results, for a long-running process."""

    def __init__(self, limit: int = 128) -> None:
        super().__init__()
        self._limit = limit
        self._kept: OrderedDict[tuple[Hashable, ...], Any] = OrderedDict()

    def get(self, key: tuple[Hashable, ...], compute: Callable[[], T]) -> T:
        """Like :meth:`Memo.get`; then drop the least recently used result if there are too many."""
        value = super().get(key, compute)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            while len(self._kept) > self._limit:
                self._kept.popitem(last=False)
        return value
