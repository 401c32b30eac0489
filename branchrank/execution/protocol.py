"""A task, its shards, and the executors that run it."""

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
    """Work that can be divided into shards. A task can be pickled, and is opened once in each worker.

    What a task has open (a model, an index, a client) is not pickled: the process that made the task uses it,
    and a worker opens its own.
    """

    @property
    def needs(self) -> tuple[Path, ...]:
        """The files and folders that a worker reads: on a path that every node has, or shipped."""

    def open(self) -> AbstractContextManager[Callable[[S_contra], Iterable[R_co]]]:
        """Return a context with a function from a shard to its results."""


class Executor(Protocol):
    """Runs a task over shards."""

    @property
    def workers(self) -> int:
        """The number of shards that can be under way at the same time, at least 1."""

    @property
    def in_process(self) -> bool:
        """Whether the work is done in this process, with what the task has open."""

    def map(self, task: Task[S, R], shards: Sequence[S]) -> Iterator[R]:
        """Yield the results of every shard, in the order of the shards.

        An exception of the task is raised with its type, after the results of earlier shards. Raises
        :class:`~branchrank.errors.WorkerError` when workers can't be started or keep ending. Nothing runs
        after the iterator is closed or the executor is.
        """
