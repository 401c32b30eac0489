"""The code that runs in a worker, which opens a task once and processes one shard after another.

A worker is a process on this machine or an actor in a Ray cluster. Processes and actors receive the same
:class:`Setup` and the same messages.
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
from branchrank.errors import WorkerError
from branchrank.execution.shipping import unpack
from branchrank.execution.threads import use_threads
from branchrank.io.environment import enter_folder, set_up_worker


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
    version: str = __version__
    needs: tuple[str, ...] = ()


class Done(NamedTuple):
    """A message with the results for a shard."""

    results: list[Any]


class Raised(NamedTuple):
    """A message with the exception that was raised while a shard was processed."""

    error: Exception


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
        """Process a pickled shard and return a pickled :class:`Done` or :class:`Raised`."""
        try:
            if self._work is None:
                self._work = self._open()
            return pickle.dumps(Done(list(self._work(pickle.loads(shard)))))  # noqa: S301 - from our parent
        except Exception as error:
            return _raised(error)

    def close(self) -> None:
        """Release the task's resources."""
        self._opened.close()

    def _open(self) -> Callable[[Any], Iterable[Any]]:
        if self._setup.version != __version__:
            raise WorkerError(
                f"{os.uname().nodename} has BranchRank {__version__}, but the command has "
                f"{self._setup.version}",
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
                remedy="put it on a disk that all nodes share, or add --ray-ship",
            )
        enter_folder(place)


def _raised(error: Exception) -> bytes:
    """Pickle an exception or, if it can't be pickled, a :class:`WorkerError` with the same message."""
    error.add_note("in a worker:\n" + "".join(traceback.format_exception(error)))
    try:
        content = pickle.dumps(Raised(error))
        pickle.loads(content)  # noqa: S301 - our own
    except Exception:
        content = pickle.dumps(Raised(WorkerError(f"{type(error).__name__}: {error}")))
    return content
