"""A target: a function of bytes that may raise only the project's own errors, and never a wrong result.

1. ``run`` gives bytes to one reader, loader, parser or server, and checks what it returns where there is an
   oracle. It raises :class:`WrongResult` for a result that can't be right.
2. ``seeds`` are valid inputs. Inputs are made from them by :mod:`fuzz.mutation`.
3. An input fails by an exception that is not a :class:`BranchRankError` (``crashed``), by taking too long
   (``hung``), by taking too much memory (``crashed``) or by a wrong result (``wrong``).
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from support.limits import HungError, TooMuchMemoryError, limited

from branchrank.core.errors import BranchRankError

#: Seconds of processor time, and wall time, that one input may take.
CPU_S, WALL_S = 5.0, 60.0
#: MiB that the process may grow by, at its peak, for one input.
GROWTH_MIB = 256

Kind = Literal["crashed", "hung", "wrong"]


class WrongResult(AssertionError):
    """A result that can't be right, whatever the input is."""


@dataclass(frozen=True)
class Target:
    """``make_seeds`` is called when they are needed; in binary inputs (not ``is_text``) only bytes change."""

    name: str
    run: Callable[[bytes], None]
    make_seeds: Callable[[], tuple[bytes, ...]]
    is_text: bool = True

    @cached_property
    def seeds(self) -> tuple[bytes, ...]:
        """Valid inputs."""
        return self.make_seeds()


@contextmanager
def never_refused() -> Iterator[None]:
    """An error of the product is a wrong result here: every query has an answer, even an empty one."""
    try:
        yield
    except BranchRankError as error:
        raise WrongResult(f"refused: {error}") from error


def seeds(*valid: bytes) -> Callable[[], tuple[bytes, ...]]:
    """Seeds that need not be made."""
    return lambda: valid


@dataclass(frozen=True)
class Failure:
    """How one input failed. ``place``, the product's last line in the traceback, tells failures apart."""

    kind: Kind
    place: str
    error: str


def require(holds: bool, what: str) -> None:
    """Raise :class:`WrongResult` that says ``what`` unless it ``holds``."""
    if not holds:
        raise WrongResult(what)


def failure_of(target: Target, content: bytes) -> Failure | None:
    """Run one input; return how it failed, ``None`` if it did not."""
    try:
        with limited(CPU_S, WALL_S, GROWTH_MIB):
            target.run(content)
    except BranchRankError:
        return None
    except WrongResult as error:
        return _failure("wrong", error)
    except HungError as error:
        return _failure("hung", error)
    except (Exception, TooMuchMemoryError) as error:
        return _failure("crashed", error)
    return None


def _failure(kind: Kind, error: BaseException) -> Failure:
    frames = [
        f"{frame.filename.partition('/branchrank/')[2]}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if "/branchrank/" in frame.filename and "/site-packages/" not in frame.filename
    ]
    told = "".join(traceback.format_exception(error, limit=-6))[-3_000:]
    return Failure(kind, f"{type(error).__name__} {frames[-1] if frames else ''}", told)
