"""Showing progress: bars in a terminal, one line in a notebook, announcements where output goes to a file."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any, Protocol

from branchrank.environment import preserved_random_state
from branchrank.printable import safe
from branchrank.progress import Progress


class ProgressReporter(Protocol):
    """Shows how far a stage of the work is."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """``done`` of ``total`` units of ``stage`` are finished; a total of 0 is unknown."""

    def status(self, text: str) -> None:
        """Show a line that replaces the one before, such as running costs."""


class Quiet:
    """Shows nothing."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Nothing."""

    def status(self, text: str) -> None:
        """Nothing."""


class Announcements:
    """For output that is not a terminal: each stage once, in one line; the last status at the end."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.last = ""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Announce a stage when it is new."""
        if stage not in self.seen:
            self.seen.add(stage)
            _print_line(f"{stage} ({total})" if total else stage)

    def status(self, text: str) -> None:
        """Keep the line."""
        self.last = text


class NotebookLine:
    """One line of a notebook's output, replaced as the work goes on."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.stage = self.text = ""
        self.shown = ""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show the stage; at most a hundred updates a stage reach the browser."""
        if done % max(1, total // 100) and done != total:
            return
        self.stage = f"{stage} {done:,}/{total:,}" if total else stage
        self._update()

    def status(self, text: str) -> None:
        """Replace the status behind the stage."""
        self.text = text
        self._update()

    def _update(self) -> None:
        line = safe("  ".join(part for part in (self.stage, self.text) if part))
        if line != self.shown:
            self.shown = line
            self.handle.update({"text/plain": line}, raw=True)


class Bars:
    """A bar per stage; the status stands behind the stage that moved last."""

    def __init__(self, bars: Any) -> None:
        self.bars = bars
        self.tasks: dict[str, Any] = {}
        self.moving = ""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Move a stage's bar."""
        if stage not in self.tasks:
            self.tasks[stage] = self.bars.add_task(stage, total=total or None, text="")
        self.moving = stage
        self.bars.update(self.tasks[stage], completed=done, total=total or None)

    def status(self, text: str) -> None:
        """Replace the status."""
        if self.moving:
            self.bars.update(self.tasks[self.moving], text=safe(text))


class Called:
    """A plain callback of the caller's own, which has no line for a status."""

    def __init__(self, callback: Progress) -> None:
        self.callback = callback

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Call back."""
        self.callback(stage, done, total)

    def status(self, text: str) -> None:
        """Nothing."""


@contextlib.contextmanager
def shown_progress(progress: bool | Progress) -> Iterator[ProgressReporter]:
    """Bars where ``progress`` is true, nothing where it is false, else the caller's own callback."""
    if isinstance(progress, bool):
        with progress_bars(quiet=not progress) as shown:
            yield shown
    else:
        yield Called(progress)


@contextlib.contextmanager
def progress_bars(quiet: bool = False) -> Iterator[ProgressReporter]:
    """Progress for whoever watches: a notebook's output, the terminal, or the lines of a log.

    Example::

        with progress_bars() as progress:
            progress("questions", 3, 100)
    """
    if quiet:
        yield Quiet()
        return
    if handle := _notebook_handle():
        yield NotebookLine(handle)
        return
    with preserved_random_state():
        from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        announcements = Announcements()
        try:
            yield announcements
        finally:  # what interrupted work has spent is shown too
            if announcements.last:
                _print_line(announcements.last)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[text]}", markup=False),
    )
    with Progress(*columns, console=console) as bars:
        yield Bars(bars)


def _notebook_handle() -> Any:
    """A display of the running notebook; ``None`` outside of one."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None or type(shell).__name__ != "ZMQInteractiveShell":
        return None
    from IPython.display import DisplayHandle

    handle: Any = DisplayHandle()  # type: ignore[no-untyped-call]
    handle.display({"text/plain": ""}, raw=True)
    return handle


def _print_line(text: str) -> None:
    print(safe(text), file=sys.stderr)
