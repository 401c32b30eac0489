"""Files, HTTP, key-value stores, and the state of the process, which imported libraries must not change.

1. BranchRank does not change ``os.environ`` permanently. If a library reads an option only from an
   environment variable, the variable is set only during the call that reads the variable.
2. Importing rich (which httpx, Chroma and qdrant-client import) draws random numbers from :mod:`random`, and
   the first use of tqdm sets multiprocessing's start method. BranchRank restores the state of :mod:`random`
   and the start method afterwards.
3. A worker process inherits the environment variables, import path and working directory of the command.
   Worker processes always set PyTorch's number of threads. A process that is not a worker sets PyTorch's
   number of threads only if ``[engine] threads`` is set.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from branchrank.core.errors import MissingDependencyError

_ONE_AT_A_TIME = threading.RLock()
#: BranchRank's version. Importing the package itself here would be an import circle.
VERSION: str = sys.modules["branchrank"].__version__


@contextlib.contextmanager
def temporary_environment(**variables: str) -> Iterator[None]:
    """Set environment variables during a ``with`` block, then restore the previous values.

    Only one thread at a time can execute the block. Other threads can see the variables while the block runs,
    so the block should contain only the call that needs the variables.
    """
    with _ONE_AT_A_TIME:
        before = {name: os.environ.get(name) for name in variables}
        os.environ.update(variables)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


@contextlib.contextmanager
def preserved_random_state() -> Iterator[None]:
    """Save the state of :mod:`random`, and restore it at the end of a ``with`` block."""
    import random

    before = random.getstate()
    try:
        yield
    finally:
        random.setstate(before)


@contextlib.contextmanager
def preserved_start_method() -> Iterator[None]:
    """After a ``with`` block, clear multiprocessing's start method if no method was set before the block."""
    loaded = sys.modules.get("multiprocessing")
    was_open = loaded is None or loaded.get_start_method(allow_none=True) is None
    try:
        yield
    finally:
        loaded = sys.modules.get("multiprocessing")
        if was_open and loaded is not None:
            loaded.set_start_method(None, force=True)


def environment_of_parsers() -> dict[str, str]:
    """Return the variables with which Python finds its packages. A process that parses files gets no keys."""
    found = ("HOME", "LD_LIBRARY_PATH", "PATH")
    return {name: text for name, text in os.environ.items() if name in found or name.startswith("PYTHON")}


def set_up_worker(variables: Mapping[str, str], path: Iterable[str] = ()) -> None:
    """Set environment variables in a worker process, and extend its import path."""
    os.environ.update(variables)
    sys.path.extend(place for place in path if place not in sys.path)


def imported(module: str, package: str, *, purpose: str, extra: str) -> Any:
    """Import a module. Raises :class:`MissingDependencyError` if its package is not installed."""
    try:
        with preserved_random_state():
            return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(package, purpose=purpose, extra=extra) from error


class Closing(ABC):
    """Base class of objects that are closed at the end of a ``with`` block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Release the object's resources."""
