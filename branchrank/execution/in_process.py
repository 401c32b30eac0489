"""The executor that runs one shard after another in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from branchrank.execution.protocol import R, S, Task
from branchrank.execution.threads import limited_threads


class InProcess:
    """An executor that runs tasks in this process.

    ``threads`` is the number of threads to use, or 0 to keep the current number of threads.
    """

    workers = 1
    in_process = True

    def __init__(self, threads: int = 0) -> None:
        self._threads = threads

    def map(self, task: Task[S, R], shards: Sequence[S]) -> Iterator[R]:
        """Yield the results, as described for :meth:`branchrank.execution.protocol.Executor.map`."""
        if not shards:
            return
        with limited_threads(self._threads), task.open() as work:
            for shard in shards:
                yield from work(shard)
