"""Limits on what one piece of work may take: processor time, wall time, memory."""

from __future__ import annotations

import contextlib
import resource
import signal
from collections.abc import Iterator


class HungError(BaseException):
    """The work took too long. No handler of ``Exception`` in the product swallows it."""


class TooMuchMemoryError(BaseException):
    """The process grew by more than it may."""


def _late(_signum: int, _frame: object) -> None:
    raise HungError


def peak_mib() -> float:
    """The most memory that this process has had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextlib.contextmanager
def limited(cpu_s: float, wall_s: float, growth_mib: float) -> Iterator[None]:
    """Raise :class:`HungError` past either time, :class:`TooMuchMemoryError` where the peak grows by more.

    Only in the main thread. Processor time does not depend on how busy the machine is; wall time also ends
    work that waits.
    """
    before = {number: signal.signal(number, _late) for number in (signal.SIGVTALRM, signal.SIGALRM)}
    peak = peak_mib()
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_s)
    signal.setitimer(signal.ITIMER_REAL, wall_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            # ``None`` stands for a handler that Python did not install.
            signal.signal(number, handler or signal.SIG_DFL)
    if (grown := peak_mib() - peak) > growth_mib:
        raise TooMuchMemoryError(f"the process grew by {grown:.0f} MiB")
