"""The side of a worker: open a task once, and answer one shard after the other.

A worker is a process of this machine or an actor of a Ray cluster. It gets the same :class:`Setup` and the
same messages in both.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import tempfile
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from branchrank import __version__
from branchrank.environment import enter_folder, set_up_worker
from branchrank.errors import WorkerError
from branchrank.execution.shipping import unpack
from branchrank.execution.threads import use_threads


class Setup(NamedTuple):
    """What every worker of a task gets, once.

    ``task`` is the pickled task, ``threads`` the number of threads to use, ``folder`` the working directory,
    ``path`` the import path, ``environment`` the variables of BranchRank and the keys of endpoints.
    ``needs`` are the files and folders that the task reads, relative to ``folder``.
    """

    task: bytes
    threads: int
    folder: str
    path: tuple[str, ...]
    environment: dict[str, str]
    version: str = __version__
    needs: tuple[str, ...] = ()


class Done(NamedTuple):
    """The results of a shard."""

    results: list[Any]


class Raised(NamedTuple):
    """The exception of a shard."""

    error: Exception


class Handler:
    """Opens the task of a ``setup`` when the first shard arrives, and keeps it open until closed.

    ``shipped`` is an archive of what the task needs; without it the worker reads the paths of the command.
    """

    def __init__(self, setup: Setup, shipped: bytes | None = None) -> None:
        self._setup = setup
        self._shipped = shipped
        self._opened = contextlib.ExitStack()
        self._work: Callable[[Any], Iterable[Any]] | None = None
        set_up_worker(setup.environment, setup.path)
        use_threads(setup.threads)

    def handle(self, shard: bytes) -> bytes:
        """Return a pickled :class:`Done` or :class:`Raised`."""
        try:
            if self._work is None:
                self._work = self._open()
            return pickle.dumps(Done(list(self._work(pickle.loads(shard)))))  # noqa: S301 - from our parent
        except Exception as error:
            return _raised(error)

    def close(self) -> None:
        """Close the task."""
        self._opened.close()

    def _open(self) -> Callable[[Any], Iterable[Any]]:
        if self._setup.version != __version__:
            raise WorkerError(
                f"{os.uname().nodename} has BranchRank {__version__}, and the command {self._setup.version}",
                remedy="install the same version on every node",
            )
        self._enter_folder()
        task = pickle.loads(self._setup.task)  # noqa: S301 - from our parent
        work: Callable[[Any], Iterable[Any]] = self._opened.enter_context(task.open())
        return work

    def _enter_folder(self) -> None:
        """Change to the working directory of the command, or to that of the shipped copy."""
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
                f"{os.uname().nodename} has no {os.path.normpath(place / missing[0])}, which the work reads",
                remedy="put it on a path that every node has, or add --ray-ship",
            )
        enter_folder(place)


def _raised(error: Exception) -> bytes:
    """Pickle an exception with its type; one that can't be pickled becomes a :class:`WorkerError`."""
    error.add_note("in a worker:\n" + "".join(traceback.format_exception(error)))
    try:
        content = pickle.dumps(Raised(error))
        pickle.loads(content)  # noqa: S301 - our own
    except Exception:
        content = pickle.dumps(Raised(WorkerError(f"{type(error).__name__}: {error}")))
    return content
