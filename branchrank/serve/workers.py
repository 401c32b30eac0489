"""A small thread pool with a bounded queue. If the queue is full, work is refused immediately."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import TypeVar

T = TypeVar("T")


class QueueFullError(Exception):
    """Error for work that is refused because all threads are busy and the queue is full."""


class Workers:
    """Runs up to ``threads`` functions in parallel and queues up to ``waiting`` more.

    Call :meth:`close` when the workers are no longer needed.
    """

    def __init__(self, threads: int, waiting: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="retrieval")
        self._capacity = threads + waiting
        self._taken = 0
        self._lock = Lock()

    async def run(self, work: Callable[[], T]) -> T:
        """Run ``work`` in a thread and return its result.

        Raises :class:`QueueFullError` if the queue is full.
        """
        with self._lock:
            if self._taken >= self._capacity:
                raise QueueFullError
            self._taken += 1
        try:
            future = self._pool.submit(work)
        except BaseException:
            self._leave()
            raise
        future.add_done_callback(self._leave)
        return await asyncio.wrap_future(future)

    def _leave(self, _finished: Future[T] | None = None) -> None:
        with self._lock:
            self._taken -= 1

    def close(self) -> None:
        """Wait until the running functions have finished, and discard those in the queue."""
        self._pool.shutdown(wait=True, cancel_futures=True)
