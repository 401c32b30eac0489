"""Run a task on shards of work: in this process, in several processes, or on a Ray cluster.

A :class:`~branchrank.core.execution.Task` can be divided into shards, and an
:class:`~branchrank.core.execution.Executor` yields the results in the order of the shards.
:func:`open_executor` opens the executor that the settings in ``[engine]`` select.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from importlib.util import find_spec

from branchrank.core.errors import MissingDependencyError, Remedy, UsageError
from branchrank.core.execution import Executor, R, S, Task, limited_threads
from branchrank.core.io.progress import Notify, no_notice
from branchrank.core.settings import EngineSettings, LLMSettings, Resolved


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
    """Raise UsageError for a Ray Client address, and for a remote cluster in a settings file."""
    if address.startswith("ray://"):
        raise UsageError(
            f"{address} is an address for Ray Client, which is not supported",
            remedy=Remedy("run the command on a node of the cluster, with {}", "--ray-address", "HOST:6379"),
        )
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
    from branchrank.core.execution.workers import Pool, ProcessWorker, Setup, Worker

    start: Callable[[Setup], Worker] = ProcessWorker
    jobs = engine.jobs
    with ExitStack() as opened:
        if engine.kind == "ray":
            from branchrank.core.execution.ray_workers import RayWorkers, connected

            ray = opened.enter_context(connected(engine.ray_address, jobs))
            jobs = jobs or max(1, int(ray.cluster_resources().get("CPU", 0)))
            start = RayWorkers(ray, ship=engine.ray_ship).start
        yield opened.enter_context(closing(Pool(start, jobs, threads=engine.threads, notify=notify)))
