"""The protocols for tasks and for the executors that run them on shards of work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, TypeVar

S = TypeVar("S")
R = TypeVar("R")
S_contra = TypeVar("S_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)


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
