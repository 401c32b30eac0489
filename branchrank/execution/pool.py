"""The executor that divides shards among several workers, and replaces workers that die.

1. Each worker processes one shard at a time. Workers are started when there are shards to process, and are
   reused if ``map`` is called again with the same task.
2. Results are returned in the order of the shards. At most :data:`AHEAD` shards per worker are in progress or
   waiting to be returned, to limit memory use and the work that an interruption can lose.
3. If a worker dies before its shard is finished, a new worker is started, and the unfinished shard is
   processed next.
4. The executor raises an error if :data:`MOST_DEATHS` workers die while processing the same shard.
5. The executor also raises an error if :data:`MOST_DEATHS` workers in a row die before they are ready.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import time
from collections import Counter, deque
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from branchrank.errors import UsageError, WorkerError
from branchrank.execution.handler import Done, Raised, Setup
from branchrank.execution.protocol import R, S, Task
from branchrank.execution.threads import thread_count
from branchrank.io.progress import Notify

W = TypeVar("W")

AHEAD = 4
MOST_DEATHS = 3
#: At least one worker must be ready within this number of seconds.
STARTS_WITHIN_S = 300.0
_WAIT_S = 1.0
#: The module name that pickle records for a class or function defined in a script. Workers can't import this
#: module.
_IN_SCRIPT = b"\x8c\x08__main__"
#: Workers get these environment variables and all variables that start with ``BRANCHRANK_``.
_KEYS = ("OPENAI_API_KEY", "HF_HOME", "HF_HUB_OFFLINE", "HF_TOKEN")


class Ready(NamedTuple):
    """A worker has started and can process its first shard."""


class Answered(NamedTuple):
    """A worker has finished its shard. ``content`` is a pickled ``Done`` or ``Raised`` message."""

    content: bytes


class Lost(NamedTuple):
    """A worker has died."""

    reason: str


Event = Ready | Answered | Lost


class Backend(Protocol[W]):
    """Starts workers, sends them shards and waits for events."""

    workers: int

    def start(self, setup: Setup) -> W:
        """Start a worker, for which :meth:`wait` later returns :class:`Ready` or :class:`Lost`."""

    def submit(self, worker: W, shard: bytes) -> None:
        """Send a shard to a ready worker.

        After the worker has processed the shard or has died, :meth:`wait` returns :class:`Answered` or
        :class:`Lost`.
        """

    def wait(self, workers: Collection[W], timeout: float) -> list[tuple[W, Event]]:
        """Return the workers' events, or an empty list if nothing happens within ``timeout`` seconds."""

    def stop(self, workers: Collection[W], *, at_once: bool) -> None:
        """Stop workers. Unless ``at_once`` is true, each worker releases its resources before it exits."""

    def close(self) -> None:
        """Close the backend's own connections."""


class Pool(Generic[W]):
    """An executor that uses a backend's workers, and must be closed after use.

    ``threads`` is the number of threads in each worker. If ``threads`` is 0, each worker uses as many threads
    as this process. ``notify`` is called when a worker dies and its shard goes to another worker.
    """

    in_process = False

    def __init__(self, backend: Backend[W], *, threads: int, notify: Notify) -> None:
        self._backend = backend
        self._threads = threads
        self._notify = notify
        self._task: object = None
        self._crew: _Crew[W] | None = None

    @property
    def workers(self) -> int:
        """The number of workers."""
        return self._backend.workers

    def map(self, task: Task[S, R], shards: Sequence[S]) -> Iterator[R]:
        """Yield the results as :meth:`branchrank.execution.protocol.Executor.map` does."""
        if not shards:
            return
        crew = self._crew_for(task)
        try:
            yield from _Round(crew, shards, self._notify)
        except BaseException:
            self._dismiss(at_once=True)
            raise

    def close(self) -> None:
        """Stop all workers and close the backend."""
        self._dismiss(at_once=False)
        self._backend.close()

    def _crew_for(self, task: Task[Any, Any]) -> _Crew[W]:
        if self._crew is None or self._task is not task:
            self._dismiss(at_once=False)
            self._crew = _Crew(self._backend, _setup(task, self._threads or thread_count()))
            self._task = task
        return self._crew

    def _dismiss(self, *, at_once: bool) -> None:
        crew, self._crew, self._task = self._crew, None, None
        if crew is not None:
            crew.stop(at_once=at_once)


class _Crew(Generic[W]):
    """The workers for one task, and the state of each worker."""

    def __init__(self, backend: Backend[W], setup: Setup) -> None:
        self.backend = backend
        self.setup = setup
        self.starting: set[W] = set()
        self.idle: deque[W] = deque()
        self.busy: dict[W, int] = {}
        self.failed_starts = 0
        self._waiting_since = time.monotonic()

    def staff(self, wanted: int) -> None:
        """Start workers until there are ``wanted`` workers or as many as the backend allows."""
        if not (self.starting or self.idle or self.busy):
            self._waiting_since = time.monotonic()
        while len(self.starting) + len(self.idle) + len(self.busy) < min(wanted, self.backend.workers):
            self.starting.add(self.backend.start(self.setup))

    def give(self, number: int, shard: bytes) -> None:
        """Send a shard to an idle worker."""
        worker = self.idle.popleft()
        self.busy[worker] = number
        self.backend.submit(worker, shard)

    def events(self) -> list[tuple[int | None, Event]]:
        """Wait for events, and return each event with the worker's shard number, which can be ``None``."""
        found: list[tuple[int | None, Event]] = []
        for worker, event in self.backend.wait([*self.starting, *self.busy, *self.idle], _WAIT_S):
            number = self.busy.pop(worker, None)
            self.starting.discard(worker)
            if isinstance(event, Lost):
                with contextlib.suppress(ValueError):
                    self.idle.remove(worker)
                self.failed_starts += number is None
                self.backend.stop([worker], at_once=True)
            else:
                self.failed_starts = 0
                self.idle.append(worker)
            found.append((number, event))
        self._check()
        return found

    def _check(self) -> None:
        """Raise :class:`WorkerError` if no worker becomes ready in time."""
        if self.idle or self.busy:
            self._waiting_since = time.monotonic()
        elif self.starting and time.monotonic() - self._waiting_since > STARTS_WITHIN_S:
            raise WorkerError(
                f"no worker was ready within {STARTS_WITHIN_S:.0f} seconds",
                remedy="check that the cluster has free CPUs (`ray status`), or lower --jobs",
            )

    def stop(self, *, at_once: bool) -> None:
        self.backend.stop([*self.starting, *self.busy], at_once=True)
        self.backend.stop(list(self.idle), at_once=at_once)


class _Round(Generic[W]):
    """One call to ``map``, which sends shards to workers and yields the results in the same order."""

    def __init__(self, crew: _Crew[W], shards: Sequence[Any], notify: Notify) -> None:
        self.crew = crew
        self.shards = shards
        self.notify = notify
        self.outcomes: dict[int, Done | Raised] = {}
        self.next_given = 0
        self.again: deque[int] = deque()
        self.deaths: Counter[int] = Counter()

    def __iter__(self) -> Iterator[Any]:
        for number in range(len(self.shards)):
            while number not in self.outcomes:
                self._advance(number)
            outcome = self.outcomes.pop(number)
            if isinstance(outcome, Raised):
                raise outcome.error
            yield from outcome.results

    def _advance(self, oldest: int) -> None:
        """Send shards to the idle workers, and then wait for an event."""
        crew = self.crew
        crew.staff(len(self.again) + len(crew.busy) + len(self.shards) - self.next_given)
        limit = min(len(self.shards), oldest + AHEAD * crew.backend.workers)
        while crew.idle and (self.again or self.next_given < limit):
            if self.again:
                number = self.again.popleft()
            else:
                number, self.next_given = self.next_given, self.next_given + 1
            crew.give(number, pickle.dumps(self.shards[number]))
        for concerned, event in crew.events():
            if isinstance(event, Answered) and concerned is not None:
                self.outcomes[concerned] = pickle.loads(event.content)  # noqa: S301 - from our workers
            elif isinstance(event, Lost):
                self._lost(concerned, event.reason)

    def _lost(self, number: int | None, reason: str) -> None:
        """Return a dead worker's shard to the queue. Raises :class:`WorkerError` after too many deaths."""
        if number is None:
            if self.crew.failed_starts >= MOST_DEATHS:
                raise WorkerError(
                    f"{MOST_DEATHS} workers in a row died before they were ready: {reason}",
                    remedy="run the command without --jobs and --engine to see the error itself",
                )
            return
        self.deaths[number] += 1
        if self.deaths[number] >= MOST_DEATHS:
            raise WorkerError(
                f"{MOST_DEATHS} workers died while processing shard {number + 1} of "
                f"{len(self.shards)}: {reason}",
                remedy="check the free memory, or use one process with --jobs 1",
            )
        self.again.append(number)
        self.notify(f"a worker died ({reason}); its shard goes to another worker")


def _setup(task: Task[Any, Any], threads: int) -> Setup:
    """Return the setup for a task's workers. Raises UsageError if the task can't be pickled."""
    try:
        content = pickle.dumps(task)
    except Exception as error:  # A user's object can raise any exception.
        raise UsageError(
            f"the work can't be sent to other processes: {type(error).__name__}: {error}",
            remedy="give the predictor as module:Class, or remove --jobs and --engine",
        ) from error
    if _IN_SCRIPT in content:
        raise UsageError(
            "the work can't be sent to other processes: it uses a class or function defined in the script",
            remedy="move the class or function to a module, and give the predictor as module:Class",
        )
    return Setup(
        task=content,
        threads=threads,
        folder=os.getcwd(),
        path=tuple(os.path.abspath(place) for place in sys.path),
        environment={
            name: value
            for name, value in os.environ.items()
            if name.startswith("BRANCHRANK_") or name in _KEYS
        },
        needs=tuple(os.path.relpath(need) for need in task.needs),
    )
