"""Shared work is done once: results of pure stages, kept by what they depend on, and counted."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar

T = TypeVar("T")


class Memo:
    """Remembers stage results for the life of a run.

    A key's first element names the kind of work; ``computed`` and ``reused`` count by that name.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[Hashable, ...], Any] = {}
        self._lock = Lock()
        self.computed: Counter[str] = Counter()
        self.reused: Counter[str] = Counter()

    def begin_query(self) -> None:
        """Called before each query; a memo for the life of a run keeps everything."""

    def get(self, key: tuple[Hashable, ...], compute: Callable[[], T]) -> T:
        """The value under ``key``, computed at the first call. Errors are not kept."""
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
    """Remembers within one query alone, for the latency pass: each query does all of its work once."""

    def begin_query(self) -> None:
        """Forget the query before."""
        self._kept.clear()


class RecentMemo(Memo):
    """Remembers the ``limit`` results that were asked for last, for a process that answers for ever."""

    def __init__(self, limit: int = 128) -> None:
        super().__init__()
        self._limit = limit
        self._kept: OrderedDict[tuple[Hashable, ...], Any] = OrderedDict()

    def get(self, key: tuple[Hashable, ...], compute: Callable[[], T]) -> T:
        """As :meth:`Memo.get`; then what was asked for longest ago is forgotten."""
        value = super().get(key, compute)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            while len(self._kept) > self._limit:
                self._kept.popitem(last=False)
        return value
