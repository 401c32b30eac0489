"""Memoisation of stage results, keyed by everything they depend on, so that shared work is done once.

1. A memo keeps the most recently used results, up to a number of bytes. A benchmark asks all predictors a
   question before the next one, so they share its results; those of older questions are dropped in turn.
2. The bytes are an estimate: arrays exactly, containers by their first few elements. Texts count nothing,
   because almost all of them are ids, which the index holds anyway.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Hashable
from itertools import islice
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from branchrank.ranking.lists import RankedList

T = TypeVar("T")

#: The results of one question on a million chunks take less; those of a thousand questions on a few thousand
#: chunks fit, too.
MEMO_BYTES = 256 << 20
_SAMPLED = 8


class Memo:
    """Keeps the most recently used stage results of a run, ``limit_bytes`` of them.

    A key's first element names the kind of work; ``computed`` and ``reused`` count by that name.
    """

    def __init__(self, limit_bytes: int = MEMO_BYTES) -> None:
        #: The values with their sizes, the least recently used first.
        self._kept: dict[tuple[Hashable, ...], tuple[Any, int]] = {}
        self._limit = limit_bytes
        self._bytes = 0
        self._lock = Lock()
        self.computed: Counter[str] = Counter()
        self.reused: Counter[str] = Counter()

    @property
    def held_bytes(self) -> int:
        """The estimated size of the values kept."""
        return self._bytes

    def begin_query(self) -> None:
        """Start a query. This class keeps everything; subclasses may clear results."""

    def get(self, key: tuple[Hashable, ...], compute: Callable[[], T]) -> T:
        """Return the value of ``key``, computed at the first call. Errors are not stored."""
        with self._lock:
            entry = self._kept.pop(key, None)
            if entry is not None:
                self._kept[key] = entry
                self.reused[str(key[0])] += 1
                kept: T = entry[0]
                return kept
        value = compute()
        size = self._size(key, value)
        with self._lock:
            self.computed[str(key[0])] += 1
            self._drop(key)
            self._kept[key] = (value, size)
            self._bytes += size
            while self._is_full():
                self._drop(next(iter(self._kept)))
        return value

    def _size(self, key: tuple[Hashable, ...], value: object) -> int:
        return sys.getsizeof(key) + held_bytes(value)

    def _is_full(self) -> bool:
        """Whether the least recently used result must go; the latest one always stays."""
        return self._bytes > self._limit and len(self._kept) > 1

    def _drop(self, key: tuple[Hashable, ...]) -> None:
        _, size = self._kept.pop(key, (None, 0))
        self._bytes -= size


class QueryMemo(Memo):
    """Keeps results only within one query, for latency measurements: each query does all of its work once."""

    def begin_query(self) -> None:
        """Clear the results of the previous query."""
        with self._lock:
            self._kept.clear()

    def _size(self, key: tuple[Hashable, ...], value: object) -> int:
        """Results of one query are not counted, which would take a fifth of its time."""
        return 0


class RecentMemo(Memo):
    """Keeps the ``limit`` most recently used results, for a long-running process."""

    def __init__(self, limit: int = 128) -> None:
        super().__init__()
        self._most = limit

    def _is_full(self) -> bool:
        return len(self._kept) > self._most or super()._is_full()


def held_bytes(value: Any) -> int:
    """Estimate the memory that a result holds.

    >>> held_bytes(np.zeros(1000, np.float32))
    4000
    """
    kind = type(value)  # ``isinstance`` with an abstract class such as a list's takes a microsecond
    if kind is str:
        return 0
    if kind is np.ndarray:
        return int(value.nbytes)
    size = sys.getsizeof(value)
    if kind is RankedList:
        return size + 40 * len(value)
    if kind is dict:
        return size + _sampled(value.values(), len(value))
    if issubclass(kind, tuple) or kind in (list, set, frozenset):
        return size + _sampled(value, len(value))
    return size


def _sampled(values: Any, count: int) -> int:
    """Estimate the bytes of ``count`` values: ``count`` times the mean size of the first ones."""
    sizes = [held_bytes(each) for each in islice(values, _SAMPLED)]
    return sum(sizes) * count // len(sizes) if sizes else 0
