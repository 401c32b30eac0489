"""Protect the state of the whole process while other libraries are imported or first used.

1. BranchRank leaves ``os.environ`` as it found it. Where a library reads an option only from the environment,
   the variable is set for the one call that reads it.
2. Some libraries draw from :mod:`random` when they are imported (rich, which httpx imports), or fix
   multiprocessing's start method when they are first used (tqdm). Both are restored.
3. A worker's process belongs to BranchRank: its variables, import path and working directory are those of the
   command that started it. PyTorch's number of threads is set in a worker, or where ``[engine] threads`` asks
   for it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping

_ONE_AT_A_TIME = threading.RLock()


@contextlib.contextmanager
def temporary_environment(**variables: str) -> Iterator[None]:
    """Set variables for the duration of a ``with`` block, then restore the previous values.

    Only one thread at a time can be inside the block. Other threads that read the environment meanwhile see
    the variables, so keep only the call that needs them in the block.
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
    """Restore the state of :mod:`random` at the end of a ``with`` block."""
    import random

    before = random.getstate()
    try:
        yield
    finally:
        random.setstate(before)


@contextlib.contextmanager
def preserved_start_method() -> Iterator[None]:
    """Unset multiprocessing's start method at the end of a ``with`` block, if it was unset before."""
    loaded = sys.modules.get("multiprocessing")
    was_open = loaded is None or loaded.get_start_method(allow_none=True) is None
    try:
        yield
    finally:
        loaded = sys.modules.get("multiprocessing")
        if was_open and loaded is not None:
            loaded.set_start_method(None, force=True)


def set_up_worker(variables: Mapping[str, str], path: Iterable[str] = ()) -> None:
    """Set variables and extend the import path of a worker's process."""
    os.environ.update(variables)
    sys.path.extend(place for place in path if place not in sys.path)


def enter_folder(folder: str | os.PathLike[str]) -> None:
    """Change the working directory of a worker's process."""
    os.chdir(folder)


def torch_threads() -> int:
    """PyTorch's number of threads; 0 while it is not loaded."""
    torch = sys.modules.get("torch")
    return 0 if torch is None else int(torch.get_num_threads())


def set_torch_threads(count: int) -> None:
    """Set PyTorch's number of threads, if it is loaded; 0 changes nothing."""
    torch = sys.modules.get("torch")
    if count and torch is not None:
        torch.set_num_threads(count)
