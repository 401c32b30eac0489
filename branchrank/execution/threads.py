"""The number of threads that computations of this process use.

1. Without a choice nothing is changed: PyTorch, BLAS and the embedders use their own defaults.
2. A worker is told the number of the process that started it, because the last digits of a PyTorch model's
   vectors can depend on it. A cluster may set another default: Ray allows an actor one OpenMP thread.
3. PyTorch takes the number when it is loaded (:func:`limit_torch`), or at once if it is loaded already.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

#: The variables from which numeric libraries read their number of threads when they are loaded.
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

_chosen = 0


def usable_cpus() -> int:
    """The number of CPUs that this process may use, at least 1."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_count() -> int:
    """The number of threads chosen for this process; without a choice, one per usable CPU."""
    return _chosen or usable_cpus()


def default_threads() -> int:
    """The number of threads that this process uses for PyTorch without a choice."""
    if _chosen:
        return _chosen
    torch = sys.modules.get("torch")
    if torch is not None:
        return int(torch.get_num_threads())
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdecimal() and int(given) else usable_cpus()


def use_threads(count: int) -> None:
    """Set the number of threads of this process, a worker, until it ends."""
    global _chosen
    _chosen = count
    os.environ.update(dict.fromkeys(VARIABLES, str(count)))
    limit_torch()


@contextlib.contextmanager
def limited_threads(count: int) -> Iterator[None]:
    """Use ``count`` threads for the duration of a ``with`` block; 0 changes nothing."""
    global _chosen
    before, torch_before = _chosen, _torch_threads()
    if count:
        _chosen = count
        limit_torch()
    try:
        yield
    finally:
        _chosen = before
        torch = sys.modules.get("torch")
        if count and torch is not None and torch_before:
            torch.set_num_threads(torch_before)


def limit_torch() -> None:
    """Give PyTorch the chosen number of threads, if it is loaded. Call it after a model's first import."""
    torch = sys.modules.get("torch")
    if _chosen and torch is not None:
        torch.set_num_threads(_chosen)


def _torch_threads() -> int:
    torch = sys.modules.get("torch")
    return int(torch.get_num_threads()) if torch is not None else 0
