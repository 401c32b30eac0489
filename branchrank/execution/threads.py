"""The number of threads that computations of this process use.

1. Without a choice nothing is changed: PyTorch, BLAS and the embedders use their own defaults.
2. A worker is told the number of the process that started it, because the last digits of a PyTorch model's
   vectors can depend on it. A cluster may set another default: Ray allows an actor one OpenMP thread.
3. PyTorch takes the number when it is loaded (:func:`limit_torch`), or at once if it is loaded already.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from branchrank.environment import set_torch_threads, set_up_worker, torch_threads

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
    given = os.environ.get("OMP_NUM_THREADS", "")
    wanted = int(given) if given.isdecimal() else 0
    return _chosen or torch_threads() or wanted or usable_cpus()


def use_threads(count: int) -> None:
    """Set the number of threads of this process, a worker, until it ends."""
    global _chosen
    _chosen = count
    set_up_worker(dict.fromkeys(VARIABLES, str(count)))
    limit_torch()


@contextlib.contextmanager
def limited_threads(count: int) -> Iterator[None]:
    """Use ``count`` threads for the duration of a ``with`` block; 0 changes nothing."""
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
        set_torch_threads(torch_before)


def limit_torch() -> None:
    """Give PyTorch the chosen number of threads, if it is loaded. Call it after a model's first import."""
    set_torch_threads(_chosen)
