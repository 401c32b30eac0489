"""Run a task on shards of work: in this process, in several processes, or on a Ray cluster.

A :class:`~branchrank.core.execution.Task` can be divided into shards, and an
:class:`~branchrank.core.execution.Executor` yields the results in the order of the shards.
:func:`open_executor` opens the executor that the settings in ``[engine]`` select. On a Ray cluster, each
worker is an actor:

1. If ``--ray-address`` is not set, the command starts a cluster with one node. The node listens only on
   127.0.0.1, and has no dashboard. When this cluster is shut down, its temporary files are removed.
2. If ``--ray-address`` is set, the command joins the cluster at that address as a driver, so the command must
   run on one of the cluster's nodes.
3. Ray is configured to send no usage statistics, and to write its logs only to its own files.
4. Each actor uses one of the cluster's CPUs. Ray does not restart an actor that dies, because the pool starts
   a new actor.
5. With ``--ray-ship``, the files that the task needs are put into Ray's object store, and each actor unpacks
   its own copy of the files.

:mod:`branchrank.core.execution.workers` is imported only if work is divided.
"""

from __future__ import annotations

import logging
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from branchrank.core.errors import MissingDependencyError, Remedy, UsageError, WorkerError
from branchrank.core.execution import Executor, R, S, Task, limited_threads, usable_cpus
from branchrank.core.io import imported, temporary_environment
from branchrank.core.io.progress import Notify, no_notice
from branchrank.core.settings import EngineSettings, LLMSettings, Resolved

if TYPE_CHECKING:
    from branchrank.core.execution.workers import Setup

_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
}
#: Restricts Ray to the loopback address on Linux, as Ray does by default on macOS and Windows.
_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
_STORE_BYTES = 256 * 1024 * 1024
_ANSWERS_WITHIN_S = 5.0


class InProcess:
    """An executor that runs tasks in this process.

    ``threads`` is the number of threads to use, or 0 to keep the current number of threads.
    """

    workers = 1
    in_process = True

    def __init__(self, threads: int = 0) -> None:
        self._threads = threads

    def map(self, task: Task[S, R], shards: Sequence[S]) -> Iterator[R]:
        """Yield the results, as described for :meth:`branchrank.core.execution.Executor.map`."""
        if not shards:
            return
        with limited_threads(self._threads), task.open() as work:
            for shard in shards:
                yield from work(shard)


def is_distributed(settings: Resolved) -> bool:
    """Return whether the settings select several processes or a Ray cluster."""
    engine = settings.part(EngineSettings)
    return engine.kind == "ray" or engine.jobs > 1


def check_engine(settings: Resolved, *, asks_llm: bool = False) -> None:
    """Check the engine settings before any work starts.

    ``asks_llm`` is true if the command makes LLM calls. Raises :class:`UsageError` for settings that
    contradict each other, and :class:`MissingDependencyError` if Ray is not installed.
    """
    engine = settings.part(EngineSettings)
    if engine.kind != "ray":
        for flag, value in (("--ray-address", engine.ray_address), ("--ray-ship", engine.ray_ship)):
            if value:
                raise UsageError(
                    f"{flag} needs --engine ray",
                    remedy=(Remedy("add {}", "--engine", "ray"), Remedy("remove {}", flag)),
                )
    elif find_spec("ray") is None:
        raise MissingDependencyError("ray", extra="ray", purpose="--engine ray")
    _check_address(settings, engine.ray_address)
    if asks_llm and is_distributed(settings):
        _check_llm(settings.part(LLMSettings))


def _check_address(settings: Resolved, address: str) -> None:
    """Raise UsageError for a remote cluster in a settings file."""
    if not address:
        return
    from branchrank.core.io.keys import is_loopback

    origin = settings.origins.get("engine.ray_address", "")
    # A cluster can run code in this process, so a downloaded settings file must not select a remote cluster.
    host = address.rpartition(":")[0].strip("[]")
    if not origin.startswith(("flag", "environment")) and not is_loopback(host):
        raise UsageError(
            f"{origin} sets the Ray cluster {address}, but a file can only select a cluster on this machine",
            remedy=Remedy("if you trust the cluster, add {}", "--ray-address", address),
        )


def _check_llm(llm: LLMSettings) -> None:
    """Raise UsageError if LLM calls are limited or recorded.

    Limits and recordings work only in a single process.
    """
    given = {"--max-calls": llm.max_calls, "--max-tokens": llm.max_tokens, "--llm-record": llm.record}
    for flag, value in given.items():
        if value:
            raise UsageError(
                f"{flag} works only within one process, but --jobs or --engine divides the LLM calls among "
                "several processes",
                remedy=(Remedy("remove {}", flag), Remedy("remove {}", "--jobs --engine")),
            )


@contextmanager
def open_executor(settings: Resolved, notify: Notify = no_notice) -> Iterator[Executor]:
    """Open the executor that the settings in ``[engine]`` select.

    Workers are started when the first shards are submitted. Raises the same errors as :func:`check_engine`.
    """
    check_engine(settings)
    engine = settings.part(EngineSettings)
    if not is_distributed(settings):
        yield InProcess(engine.threads)
        return
    from branchrank.core.execution.workers import Pool, ProcessWorker, Worker

    start: Callable[[Setup], Worker] = ProcessWorker
    jobs = engine.jobs
    with ExitStack() as opened:
        if engine.kind == "ray":
            ray = opened.enter_context(connected(engine.ray_address, jobs))
            jobs = jobs or max(1, int(ray.cluster_resources().get("CPU", 0)))
            start = RayWorkers(ray, ship=engine.ray_ship).start
        yield opened.enter_context(closing(Pool(start, jobs, threads=engine.threads, notify=notify)))


class RayActor:
    """A worker that is an actor on the cluster."""

    def __init__(self, ray: Any, handle: Any) -> None:
        self._ray = ray
        self._handle = handle

    def wait(self) -> None:
        """Wait until the actor is running."""
        self._answer(self._handle.__ray_ready__.remote())

    def process(self, shard: bytes) -> bytes:
        """Send a shard to the actor, and return the answer."""
        content: bytes = self._answer(self._handle.handle.remote(shard))
        return content

    def _answer(self, reference: Any) -> Any:
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            from branchrank.core.execution.workers import LostError

            raise LostError(_reason(error)) from None

    def close(self) -> None:
        """Let the actor release the task's resources, within 5 seconds."""
        self._ray.wait([self._handle.close.remote()], timeout=_ANSWERS_WITHIN_S)

    def kill(self) -> None:
        """End the actor, unless the actor or its node has already died."""
        with suppress(Exception):
            self._ray.kill(self._handle)


class RayWorkers:
    """Starts actors on the cluster to which the module ``ray`` is connected."""

    def __init__(self, ray: Any, *, ship: bool) -> None:
        from branchrank.core.execution.workers import Handler

        self._ray = ray
        self._ship = ship
        # Ray's own retries are switched off, because the pool replaces actors that die.
        self._actor = self._ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Handler)
        self._shipped: tuple[Setup, Any] | None = None

    def start(self, setup: Setup) -> RayActor:
        """Start an actor on the cluster."""
        return RayActor(self._ray, self._actor.remote(setup, self._archive(setup)))

    def _archive(self, setup: Setup) -> Any:
        """Return a reference to the archive of shipped files, which is made once for all actors of a task."""
        from branchrank.core.execution.workers import pack

        if not self._ship:
            return None
        if self._shipped is None or self._shipped[0] is not setup:
            self._shipped = (setup, self._ray.put(pack(Path(setup.folder, need) for need in setup.needs)))
        return self._shipped[1]


@contextmanager
def connected(address: str, jobs: int) -> Iterator[Any]:
    """Yield the module ``ray``, connected to the cluster at ``address`` or to a new local cluster.

    A program that was already connected to a cluster stays connected. Raises
    :class:`MissingDependencyError` if Ray is not installed, and :class:`WorkerError` if the connection fails.
    """
    variables = _ENVIRONMENT | ({} if address else _LOOPBACK)
    with ExitStack() as opened:
        with temporary_environment(**variables), _kept_handlers():
            ray = imported("ray", "ray", extra="ray", purpose="--engine ray")
            if ray.is_initialized():  # The calling program is already connected.
                yield ray
                return
            quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
            opened.callback(ray.shutdown)
            if address:
                _check_answers(address)
                _start(ray, address, quiet)
            else:
                # Ray creates its sockets in this folder, and socket paths must be short.
                folder = tempfile.mkdtemp(prefix="branchrank-ray-", dir="/tmp")
                opened.callback(shutil.rmtree, folder, ignore_errors=True)
                opened.callback(ray.shutdown)
                own = {"num_cpus": jobs or usable_cpus(), "object_store_memory": _STORE_BYTES}
                _start(ray, "local", {**quiet, **own, "include_dashboard": False, "_temp_dir": folder})
        yield ray


def _start(ray: Any, address: str, options: dict[str, Any]) -> None:
    try:
        ray.init(address=address, **options)
    except Exception as error:  # Ray raises many kinds of errors.
        raise WorkerError(
            f"can't connect to the Ray cluster {address}: {str(error).strip().splitlines()[0]}",
            remedy="run the command on a node of the cluster, with the cluster's versions of Python and Ray",
        ) from error


def _check_answers(address: str) -> None:
    """Raise :class:`WorkerError` if nothing is listening on ``address``."""
    host, _, port = address.rpartition(":")
    if address == "auto":
        return
    try:  # Without this check, Ray would try to connect for a minute.
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWERS_WITHIN_S).close()
    except (OSError, ValueError, OverflowError) as error:
        raise WorkerError(
            f"the Ray address {address} does not answer: {error}",
            remedy=(
                Remedy(
                    "start a cluster with `ray start --head --port 6379` and give {}",
                    "--ray-address",
                    "HOST:6379",
                ),
                Remedy("remove {}", "--ray-address"),
            ),
        ) from None


@contextmanager
def _kept_handlers() -> Iterator[None]:
    """Undo Ray's changes to the SIGTERM handler and the exception hook at the end of a ``with`` block."""
    hook, handler = sys.excepthook, signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        sys.excepthook = hook
        # ``signal.signal`` fails outside the main thread, and if ``handler`` was not set from Python.
        with suppress(ValueError, TypeError):
            signal.signal(signal.SIGTERM, handler)


def _reason(error: Exception) -> str:
    """Return the line of Ray's error message that explains why an actor died."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if "node" in line.lower() or "exit" in line.lower()), lines[0])
