"""Tasks for the executors, in a module that a worker can import."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from branchrank.core.errors import MissingDependencyError
from branchrank.core.execution import thread_count


class SquareTask:
    """Squares the numbers of a shard. ``script`` says what else happens at which number."""

    def __init__(
        self, folder: Path, *, script: dict[int, str] | None = None, needs: tuple[Path, ...] = ()
    ) -> None:
        self.folder = folder
        self.script = script or {}
        self.needs = needs

    @contextmanager
    def open(self) -> Iterator[Callable[[list[int]], Iterator[int]]]:
        (self.folder / f"opened-{os.getpid()}-{time.monotonic_ns()}").touch()
        yield self.work
        (self.folder / f"closed-{os.getpid()}-{time.monotonic_ns()}").touch()

    def work(self, shard: list[int]) -> Iterator[int]:
        for number in shard:
            self.act(number, self.script.get(number, ""))
            yield number * number

    def act(self, number: int, what: str) -> None:
        if what == "slow":
            time.sleep(0.3)
        elif what == "error":
            raise ValueError(f"no square of {number}")
        elif what == "package":
            raise MissingDependencyError("thing", extra="things", purpose="the square")
        elif what == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif what == "die once" and not (self.folder / "died").exists():
            (self.folder / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        elif what == "wait":
            (self.folder / "waiting").touch()
            time.sleep(60)


class FactsTask:
    """Tells about the worker's process."""

    needs: tuple[Path, ...] = ()

    @contextmanager
    def open(self) -> Iterator[Callable[[str], list[object]]]:
        yield lambda name: [
            {
                "threads": thread_count(),
                "variable": os.environ.get("OMP_NUM_THREADS", ""),
                "torch": sys.modules["torch"].get_num_threads() if name == "torch" and _loaded() else 0,
                "folder": os.getcwd(),
                "pid": os.getpid(),
            }
        ]


def _loaded() -> bool:
    try:
        import torch
    except ModuleNotFoundError:  # there is no build without CUDA for this version of Python
        return False

    from branchrank.core.execution import limit_torch

    limit_torch()
    return bool(torch)


class ReadTask:
    """Reads files below the working directory."""

    def __init__(self, *needs: Path) -> None:
        self.needs = needs

    @contextmanager
    def open(self) -> Iterator[Callable[[str], list[str]]]:
        yield lambda name: [Path(name).read_text(encoding="utf-8"), os.getcwd()]
