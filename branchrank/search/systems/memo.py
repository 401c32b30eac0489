"""Memoization of stage results, so that a stage that several systems share is computed once.

1. The key of a result contains all values that the result depends on.
2. A memo stores the most recently used results, up to a limit in bytes. A benchmark run answers a question
   with all predictors before it starts the next question, so that the predictors can share cached results for
   the question.
3. The size of a list, tuple, set or dictionary is estimated from its first elements. Strings count as 0
   bytes, because almost all strings are ids that the index stores anyway.
4. While the latency pass runs, :func:`caches_off` switches off the memos and the caches of embeddings of all
   engines in the process, also of engines that a user's own predictor opened.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from itertools import islice
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from branchrank.core.ranked_lists import RankedList

T = TypeVar("T")

#: The default limit in bytes, enough for one question with a corpus of a million chunks.
MEMO_BYTES = 256 << 20
_SAMPLED = 8


#: The number of ``with caches_off()`` blocks that the process has entered. Not a ``ContextVar``, because
#: engines and predictors also work in threads of their own.
_blocks = 0


@contextmanager
def caches_off() -> Iterator[None]:
    """Let no query use results of earlier queries, in any engine of this process."""
    global _blocks
    _blocks += 1
    try:
        yield
    finally:
        _blocks -= 1


def caches_are_off() -> bool:
    """Return whether the process is in a ``with caches_off()`` block."""
    return _blocks > 0


class Memo:
    """Stores the ``most`` most recently used stage results, up to ``limit_bytes`` bytes.

    The first element of a key is the kind of result, such as ``"embed"``. ``computed`` counts the computed
    results of each kind, and ``reused`` counts the reused results. With ``one_query``, results are stored for
    only one query, so that a measured latency includes all the work for the query.
    """

    def __init__(
        self, limit_bytes: int = MEMO_BYTES, most: float = math.inf, *, one_query: bool = False
    ) -> None:
        #: The values with their sizes in bytes, the least recently used value first.
        self._kept: dict[tuple[Hashable, ...], tuple[Any, int]] = {}
        self._limit = limit_bytes
        self._most = most
        self._one_query = one_query
        self._bytes = 0
        self._lock = Lock()
        self.computed: Counter[str] = Counter()
        self.reused: Counter[str] = Counter()

    @property
    def held_bytes(self) -> int:
        """The estimated size of the stored values in bytes."""
        return self._bytes

    def begin_query(self) -> None:
        """Start a query. If caches are off, the results of earlier queries are cleared."""
        if self._one_query or caches_are_off():
            with self._lock:
                self._kept.clear()
                self._bytes = 0

    def get(self, key: tuple[Hashable, ...], compute: Callable[[], T]) -> T:
        """Return the value stored for ``key``. If no value is stored, call ``compute`` and store its result.

        If ``compute`` raises an error, nothing is stored.
        """
        with self._lock:
            entry = self._kept.pop(key, None)
            if entry is not None:
                self._kept[key] = entry
                self.reused[str(key[0])] += 1
                kept: T = entry[0]
                return kept
        value = compute()
        # A memo of one query needs no limit, and estimating the size would take a fifth of the query's time.
        size = 0 if self._one_query else sys.getsizeof(key) + held_bytes(value)
        with self._lock:
            self.computed[str(key[0])] += 1
            self._drop(key)
            self._kept[key] = (value, size)
            self._bytes += size
            # The last remaining result is kept.
            while len(self._kept) > self._most or (self._bytes > self._limit and len(self._kept) > 1):
                self._drop(next(iter(self._kept)))
        return value

    def _drop(self, key: tuple[Hashable, ...]) -> None:
        _, size = self._kept.pop(key, (None, 0))
        self._bytes -= size


def held_bytes(value: Any) -> int:
    """Estimate the size of a result in memory, in bytes.

    >>> held_bytes(np.zeros(1000, np.float32))
    4000
    """
    kind = type(value)  # ``isinstance`` with an abstract class takes a microsecond
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
    """Estimate the total size in bytes of ``count`` values from the mean size of the first few."""
    sizes = [held_bytes(each) for each in islice(values, _SAMPLED)]
    return sum(sizes) * count // len(sizes) if sizes else 0
