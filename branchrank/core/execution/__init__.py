"""The protocols for tasks and executors, and the number of threads that numeric libraries use.

1. If no number of threads is chosen, PyTorch, BLAS and the embedders use their own defaults.
2. A worker uses the same number of threads as the process that started it, because the last digits of a
   PyTorch model's vectors can depend on the number of threads. A worker on a Ray cluster must set the number
   of threads explicitly, because Ray gives an actor only one OpenMP thread by default.
3. :func:`limit_torch` sets PyTorch's number of threads, and must be called after PyTorch is loaded.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, TypeVar

from branchrank.core.io import set_up_worker

S = TypeVar("S")
R = TypeVar("R")
S_contra = TypeVar("S_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)

#: Environment variables from which numeric libraries read the number of threads when they are loaded.
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

_chosen = 0


class Task(Protocol[S_contra, R_co]):
    """Work that can be divided into shards. A task can be pickled, and each worker opens the task once.

    An open model, index or client that a task holds is not pickled, and is used only in the process that
    created the task. Each worker opens the model, index or client itself.
    """

    @property
    def needs(self) -> tuple[Path, ...]:
        """The files and folders that a worker reads, from a shared disk or from a shipped copy."""

    def open(self) -> AbstractContextManager[Callable[[S_contra], Iterable[R_co]]]:
        """Return a context manager for the function that computes the results for a shard."""


class Executor(Protocol):
    """Runs a task on each shard of the work."""

    @property
    def workers(self) -> int:
        """The number of shards that can be processed at the same time, at least 1."""

    @property
    def in_process(self) -> bool:
        """Whether tasks run in this process, where they can use objects that are already open."""

    def map(self, task: Task[S, R], shards: Sequence[S]) -> Iterator[R]:
        """Yield the results for every shard, in the order of the shards.

        If the task raises an exception for a shard, ``map`` first yields the results for earlier shards and
        then raises an exception of the same type. Raises :class:`~branchrank.core.errors.WorkerError` if
        workers can't be started or die repeatedly. When the iterator or the executor is closed, all work
        stops.
        """


def torch_threads() -> int:
    """Return PyTorch's number of threads, or 0 if PyTorch is not loaded."""
    torch = sys.modules.get("torch")
    return 0 if torch is None else int(torch.get_num_threads())


def usable_cpus() -> int:
    """Return the number of CPUs that this process may use, at least 1."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_count() -> int:
    """Return the number of threads for this process.

    The first of these numbers that is available is used: the number set for this process, PyTorch's number of
    threads (if PyTorch is loaded), the value of ``OMP_NUM_THREADS``, and the number of usable CPUs.
    """
    given = os.environ.get("OMP_NUM_THREADS", "")
    wanted = int(given) if given.isdecimal() else 0
    return _chosen or torch_threads() or wanted or usable_cpus()


def use_threads(count: int) -> None:
    """Set the number of threads that this worker process uses until it exits."""
    global _chosen
    _chosen = count
    set_up_worker(dict.fromkeys(VARIABLES, str(count)))
    limit_torch()


@contextlib.contextmanager
def limited_threads(count: int) -> Iterator[None]:
    """Use ``count`` threads inside a ``with`` block, or the current number of threads if ``count`` is 0."""
    global _chosen
    if not count:
        yield
        return
    before, torch_before = _chosen, torch_threads()
    _chosen = count
    limit_torch()
    try:
        yield
    finally:
        _chosen = before
        limit_torch(torch_before)


def limit_torch(count: int = 0) -> None:
    """Set PyTorch's number of threads to ``count`` or the chosen number, if PyTorch is loaded.

    Call this function after importing a library that loads PyTorch.
    """
    torch = sys.modules.get("torch")
    if torch is not None and (wanted := count or _chosen):
        torch.set_num_threads(wanted)
