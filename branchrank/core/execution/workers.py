"""Workers that process shards in processes on this machine, and the pool that gives them the shards.

1. Each worker processes one shard at a time. A thread of the command takes one shard after another, and sends
   it to an idle worker or to a new worker. Workers are reused if ``map`` is called again with the same task.
2. Results are returned in the order of the shards. At most :data:`AHEAD` shards per worker are in progress or
   waiting to be returned, to limit memory use and the work that an interruption can lose.
3. If a worker dies before its shard is finished, the shard goes to another worker. The pool raises an error
   if :data:`MOST_DEATHS` workers die while processing the same shard, or if :data:`MOST_DEATHS` workers in a
   row die before they are ready.
4. A cluster that has lost a node may have no CPU for a new worker. Until it has one, an idle worker takes the
   shard.
5. A worker is a new Python interpreter that is connected to the command by a socket, or an actor in a Ray
   cluster (:mod:`branchrank.core.execution.executors`). Workers are not started with ``multiprocessing``,
   which would import the caller's script again. Each process has its own process group, so Ctrl-C reaches
   only the command, which then stops its workers. A process exits when the command closes the socket or
   exits.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import count, islice
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from branchrank.core.errors import Remedy, UsageError, WorkerError
from branchrank.core.execution import R, S, Task, thread_count, use_threads
from branchrank.core.io import VERSION, set_up_worker
from branchrank.core.io.progress import Notify

AHEAD = 4
MOST_DEATHS = 3
#: At least one worker must be ready within this number of seconds.
STARTS_WITHIN_S = 300.0
_WAIT_S = 1.0
_ENDS_WITHIN_S = 10.0
_READY = b"ready"
_START = "from branchrank.core.execution.workers import serve; serve({})"
#: The module name that pickle records for a class or function defined in a script. Workers can't import this
#: module.
_IN_SCRIPT = b"\x8c\x08__main__"
#: Workers get these environment variables and all variables that start with ``BRANCHRANK_``.
_KEYS = ("OPENAI_API_KEY", "HF_HOME", "HF_HUB_OFFLINE", "HF_TOKEN")
#: Workspace folders that are not shipped, so each worker starts with empty caches.
_LEFT_OUT = ("hybrid/cache",)


class Setup(NamedTuple):
    """The data that every worker for a task receives when the worker starts.

    - ``task`` is the pickled task.
    - ``threads`` is the number of threads that the worker uses.
    - ``folder`` is the command's working directory.
    - ``path`` is the command's import path.
    - ``environment`` contains BranchRank's environment variables and the API keys.
    - ``needs`` contains the paths that the task reads, relative to ``folder``.
    """

    task: bytes
    threads: int
    folder: str
    path: tuple[str, ...]
    environment: dict[str, str]
    version: str = VERSION
    needs: tuple[str, ...] = ()


class Handler:
    """Opens the task in ``setup`` when the first shard arrives, and keeps the task open until :meth:`close`.

    ``shipped`` is an archive of the files that the task needs. If ``shipped`` is ``None``, the worker reads
    these files at the same paths as the process that started the worker.
    """

    def __init__(self, setup: Setup, shipped: bytes | None = None) -> None:
        self._setup = setup
        self._shipped = shipped
        self._opened = contextlib.ExitStack()
        self._work: Callable[[Any], Iterable[Any]] | None = None
        set_up_worker(setup.environment, setup.path)
        use_threads(setup.threads)

    def handle(self, shard: bytes) -> bytes:
        """Process a pickled shard and return the pickled pair (results, ``None``) or (``None``, error)."""
        try:
            if self._work is None:
                self._work = self._open()
            return pickle.dumps((list(self._work(pickle.loads(shard))), None))  # noqa: S301 - from our parent
        except Exception as error:
            return _raised(error)

    def close(self) -> None:
        """Release the task's resources."""
        self._opened.close()

    def _open(self) -> Callable[[Any], Iterable[Any]]:
        if self._setup.version != VERSION:
            raise WorkerError(
                f"{os.uname().nodename} has BranchRank {VERSION}, but the command has {self._setup.version}",
                remedy="install the same version of BranchRank on every node",
            )
        self._enter_folder()
        task = pickle.loads(self._setup.task)  # noqa: S301 - from our parent
        work: Callable[[Any], Iterable[Any]] = self._opened.enter_context(task.open())
        return work

    def _enter_folder(self) -> None:
        """Change to the command's working directory, or to its copy if files were shipped."""
        place = Path(self._setup.folder)
        if self._shipped is not None:
            root = self._opened.enter_context(tempfile.TemporaryDirectory(prefix="branchrank-"))
            unpack(self._shipped, Path(root))
            self._shipped = None
            place = Path(root, str(place).lstrip("/"))
            place.mkdir(parents=True, exist_ok=True)
        missing = [need for need in (".", *self._setup.needs) if not (place / need).exists()]
        if missing:
            raise WorkerError(
                f"the node {os.uname().nodename} has no {os.path.normpath(place / missing[0])}, which the "
                "worker needs",
                remedy=("put it on a disk that all nodes share", Remedy("add {}", "--ray-ship")),
            )
        os.chdir(place)


def _raised(error: Exception) -> bytes:
    """Pickle an exception or, if it can't be pickled, a :class:`WorkerError` with the same message."""
    error.add_note("in a worker:\n" + "".join(traceback.format_exception(error)))
    try:
        content = pickle.dumps((None, error))
        pickle.loads(content)  # noqa: S301 - our own
    except Exception:
        content = pickle.dumps((None, WorkerError(f"{type(error).__name__}: {error}")))
    return content


class LostError(Exception):
    """A worker has died."""


class Worker(Protocol):
    """One worker, which one thread at a time uses, except for :meth:`kill`."""

    def wait(self) -> None:
        """Wait until the worker is ready. Raises :class:`LostError` if it has died."""

    def process(self, shard: bytes) -> bytes:
        """Return :meth:`Handler.handle`'s answer to a pickled shard. Raises :class:`LostError`."""

    def close(self) -> None:
        """Release the worker's resources and end it."""

    def kill(self) -> None:
        """End the worker at once. A call that waits for the worker then raises :class:`LostError`."""


class Pool:
    """An executor that uses up to ``workers`` workers, and must be closed after use.

    ``start`` starts a worker without waiting for it. ``threads`` is the number of threads in each worker. If
    ``threads`` is 0, each worker uses as many threads as this process. ``notify`` is called when a worker
    dies and its shard is processed again.
    """

    in_process = False

    def __init__(
        self, start: Callable[[Setup], Worker], workers: int, *, threads: int, notify: Notify
    ) -> None:
        self.start = start
        self.workers = workers
        self.threads = threads
        self.notify = notify
        self._task: object = None
        self._crew: _Crew | None = None

    def map(self, task: Task[S, R], shards: Sequence[S]) -> Iterator[R]:
        """Yield the results as :meth:`branchrank.core.execution.Executor.map` does."""
        if not shards:
            return
        if self._crew is None or self._task is not task:
            self.close()
            self._crew, self._task = _Crew(self, _setup(task, self.threads or thread_count())), task
        try:
            yield from self._crew.results(shards)
        except BaseException:
            self.close(at_once=True)
            raise

    def close(self, *, at_once: bool = False) -> None:
        """Stop all workers. Unless ``at_once`` is true, each idle worker releases its resources first."""
        crew, self._crew, self._task = self._crew, None, None
        if crew is not None:
            crew.stop(at_once)


class _Crew:
    """The workers for one task. Each thread processes one shard at a time with one worker."""

    def __init__(self, pool: Pool, setup: Setup) -> None:
        self.pool = pool
        self.setup = setup
        self.lock = threading.Lock()
        self.threads = ThreadPoolExecutor(pool.workers)
        self.starters = ThreadPoolExecutor(pool.workers)  # wait for new workers
        self.workers: dict[Worker, bool] = {}  # whether each worker is ready
        self.idle: list[Worker] = []
        self.starting: list[tuple[Worker, Future[None]]] = []  # new workers that no thread waits for
        self.messages: deque[str] = deque()
        self.stopping = False

    def results(self, shards: Sequence[Any]) -> Iterator[Any]:
        """Yield the results for every shard, in the order of the shards."""
        waiting = iter(shards)
        outcomes: deque[Future[bytes]] = deque()
        for number in range(1, len(shards) + 1):
            for shard in islice(waiting, AHEAD * self.pool.workers - len(outcomes)):
                outcomes.append(self.threads.submit(self._process, pickle.dumps(shard)))
            try:
                content = self._waited(outcomes.popleft())
            except LostError as error:
                raise WorkerError(
                    f"{MOST_DEATHS} workers died while processing shard {number} of {len(shards)}: {error}",
                    remedy=("check the free memory", Remedy("use one process with {}", "--jobs", "1")),
                ) from None
            results, raised = pickle.loads(content)  # noqa: S301 - from our workers
            if raised is not None:
                raise raised
            yield from results

    def _waited(self, outcome: Future[bytes]) -> bytes:
        """Wait for the outcome of a shard. Raises :class:`WorkerError` if the workers don't start."""
        since = time.monotonic()
        while True:
            while self.messages:
                self.pool.notify(self.messages.popleft())
            with contextlib.suppress(TimeoutError):
                return outcome.result(_WAIT_S)
            if time.monotonic() - since > STARTS_WITHIN_S and not any(self.workers.values()):
                raise WorkerError(
                    f"no worker was ready within {STARTS_WITHIN_S:.0f} seconds",
                    remedy=(
                        "check that the cluster has free CPUs (`ray status`)",
                        Remedy("lower {}", "--jobs"),
                    ),
                )

    def stop(self, at_once: bool) -> None:
        """End all workers. Unless ``at_once`` is true, each idle worker releases its resources first."""
        with self.lock:
            self.stopping = True
            idle = [] if at_once else [*self.idle]
            for worker in self.workers:
                if worker not in idle:
                    worker.kill()
        self.threads.shutdown(cancel_futures=True)
        with ThreadPoolExecutor() as threads:
            threads.map(lambda worker: worker.close(), idle)
        for worker in self.workers:
            worker.kill()
        self.starters.shutdown()

    def _process(self, shard: bytes) -> bytes:
        """Process a shard, with another worker if a worker dies. Raises LostError after too many deaths."""
        for deaths in count(1):
            worker = self._ready()
            try:
                content = worker.process(shard)
            except LostError as error:
                self._end(worker)
                if deaths == MOST_DEATHS:
                    raise
                self.messages.append(f"a worker died ({error}); its shard goes to another worker")
            else:
                self.idle.append(worker)
                return content
        raise AssertionError

    def _ready(self) -> Worker:
        """Return an idle or a new worker. Raises LostError if the crew is stopped."""
        for starts in count(1):
            with self.lock:
                if self.stopping:
                    raise LostError("stopped")
                if self.idle:
                    return self.idle.pop()
                worker, ready = self.starting.pop() if self.starting else self._started()
            while not wait((ready,), _WAIT_S).done:
                with self.lock:
                    if self.idle:
                        self.starting.append((worker, ready))
                        return self.idle.pop()
            try:
                ready.result()
            except LostError as error:
                self._end(worker)
                if starts == MOST_DEATHS:
                    raise WorkerError(
                        f"{MOST_DEATHS} workers in a row died before they were ready: {error}",
                        remedy=Remedy(
                            "run the command without {} to see the error itself", "--jobs --engine"
                        ),
                    ) from None
            else:
                self.workers[worker] = True
                return worker
        raise AssertionError

    def _started(self) -> tuple[Worker, Future[None]]:
        worker = self.pool.start(self.setup)
        self.workers[worker] = False
        return worker, self.starters.submit(worker.wait)

    def _end(self, worker: Worker) -> None:
        worker.kill()
        with self.lock:
            del self.workers[worker]


def _setup(task: Task[Any, Any], threads: int) -> Setup:
    """Return the setup for a task's workers. Raises UsageError if the task can't be pickled."""
    try:
        content = pickle.dumps(task)
        if _IN_SCRIPT in content:
            raise TypeError("it uses a class or function defined in the script")
    except Exception as error:  # A user's object can raise any exception.
        raise UsageError(
            f"the work can't be sent to other processes: {type(error).__name__}: {error}",
            remedy=("give the predictor as module:Class", Remedy("remove {}", "--jobs --engine")),
        ) from error
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


class ProcessWorker:
    """A worker process, and the connection that the command uses to communicate with the worker."""

    def __init__(self, setup: Setup) -> None:
        self._connection, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _START.format(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                process_group=0,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(setup.path)},
            )
        self._setup = setup

    def wait(self) -> None:
        """Send the setup to the process, and wait until the process is ready."""
        self.process(pickle.dumps(self._setup))

    def process(self, shard: bytes) -> bytes:
        """Send a shard to the process, and return the answer."""
        try:
            self._connection.send_bytes(shard)
            return self._connection.recv_bytes()
        except (EOFError, OSError):
            self.close()
            self.kill()
            code = self._process.returncode
            how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            raise LostError(how) from None

    def close(self) -> None:
        """Close the connection, and wait at most 10 seconds until the process has exited."""
        self._connection.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDS_WITHIN_S)

    def kill(self) -> None:
        """Kill the process, and wait until it has exited."""
        self._process.kill()
        self._process.wait()


def serve(descriptor: int) -> None:
    """Handle shards in a worker process until the command closes the socket ``descriptor``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Connection(descriptor) as connection:
        try:
            handler = Handler(connection.recv())
            connection.send_bytes(_READY)
            while True:
                connection.send_bytes(handler.handle(connection.recv_bytes()))
        except (EOFError, OSError):  # The command has closed its end of the socket, or has exited.
            handler.close()


def pack(paths: Iterable[Path]) -> bytes:
    """Return an uncompressed tar archive of files and folders, for workers without a shared disk.

    Each file is stored under its absolute path, so that relative paths from one file to another still work.
    Workspace caches and symbolic links with absolute targets are left out. Symbolic links with relative
    targets are copied as links.
    """
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for path in dict.fromkeys(map(os.path.abspath, paths)):
            archive.add(path, filter=_kept)
    return stream.getvalue()


def _kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Return ``None`` for caches, special files and links with absolute targets, which are left out."""
    if member.name.endswith(_LEFT_OUT) or member.linkname.startswith("/"):
        return None
    return member if member.isfile() or member.isdir() or member.issym() or member.islnk() else None


def unpack(content: bytes, root: Path) -> None:
    """Unpack an archive into ``root``. Raises ``tarfile.FilterError`` for a path outside ``root``."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(root, filter="data")
