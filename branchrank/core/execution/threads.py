"""The number of threads that numeric libraries use in this process.

1. If no number of threads is chosen, PyTorch, BLAS and the embedders use their own defaults.
2. A worker uses the same number of threads as the process that started it, because the last digits of a
   PyTorch model's vectors can depend on the number of threads. A worker on a Ray cluster must set the number
   of threads explicitly, because Ray gives an actor only one OpenMP thread by default.
3. :func:`limit_torch` sets PyTorch's number of threads, and must be called after PyTorch is loaded.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from branchrank.core.io.environment import set_torch_threads, set_up_worker, torch_threads

#: Environment variables from which numeric libraries read the number of threads when they are loaded.
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

_chosen = 0


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
        set_torch_threads(torch_before)


def limit_torch() -> None:
    """Set PyTorch's number of threads, if PyTorch is loaded.

    Call this function after importing a library that loads PyTorch.
    """
    set_torch_threads(_chosen)
