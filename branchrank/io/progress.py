"""Report the progress of long operations: the callbacks, and how a terminal, notebook or log shows them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from branchrank.io.environment import preserved_random_state
from branchrank.io.printable import safe

#: A function that is called with one line of text for the user.
Notify = Callable[[str], None]

#: A callback function ``progress(stage, done, total)``. ``total`` is the number of units in the stage, or 0
#: if the number is unknown. The stage ``read`` counts documents, ``embed`` counts texts, ``summaries`` counts
#: nodes, ``download`` counts bytes, ``questions`` and ``latency`` count queries, and ``store``, ``unpack``
#: and ``clone`` count steps.
Progress = Callable[[str, int, int], None]


def no_notice(line: str) -> None:
    """Ignore the message."""


def no_progress(stage: str, done: int, total: int) -> None:
    """Ignore the progress."""


class ProgressReporter(Protocol):
    """Shows the progress of a long operation, stage by stage."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show that ``done`` of the ``total`` units in ``stage`` are finished.

        A ``total`` of 0 means that the total is unknown.
        """

    def status(self, text: str) -> None:
        """Show a status line, such as the costs so far, in place of the previous status line."""


class Quiet:
    """A progress reporter that shows nothing."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Do nothing."""

    def status(self, text: str) -> None:
        """Do nothing."""


class Announcements:
    """Reports progress if standard error is not a terminal.

    Each stage is printed once, and the last status is printed at the end.
    """

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.last = ""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Print the name of a stage when it is reported for the first time."""
        if stage not in self.seen:
            self.seen.add(stage)
            _print_line(f"{stage} ({total})" if total else stage)

    def status(self, text: str) -> None:
        """Store the status line, to print it at the end."""
        self.last = text


class NotebookLine:
    """Shows progress on one line of a notebook cell's output, updated in place."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.stage = self.text = ""
        self.shown = ""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show the progress of a stage, with at most about 100 updates per stage."""
        if done % max(1, total // 100) and done != total:
            return
        self.stage = f"{stage} {done:,}/{total:,}" if total else stage
        self._update()

    def status(self, text: str) -> None:
        """Replace the status text that follows the stage's progress."""
        self.text = text
        self._update()

    def _update(self) -> None:
        line = safe("  ".join(part for part in (self.stage, self.text) if part))
        if line != self.shown:
            self.shown = line
            self.handle.update({"text/plain": line}, raw=True)


class Bars:
    """Shows one progress bar per stage, and a status text next to the bar that changed last."""

    def __init__(self, bars: Any) -> None:
        self.bars = bars
        self.tasks: dict[str, Any] = {}
        self.moving = ""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Update the progress bar of a stage."""
        if stage not in self.tasks:
            self.tasks[stage] = self.bars.add_task(stage, total=total or None, text="")
        self.moving = stage
        self.bars.update(self.tasks[stage], completed=done, total=total or None)

    def status(self, text: str) -> None:
        """Replace the status text."""
        if self.moving:
            self.bars.update(self.tasks[self.moving], text=safe(text))


class Called:
    """Reports progress to a callback function, and ignores status lines."""

    def __init__(self, callback: Progress) -> None:
        self.callback = callback

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Pass the progress on to the callback function."""
        self.callback(stage, done, total)

    def status(self, text: str) -> None:
        """Do nothing."""


@contextlib.contextmanager
def shown_progress(progress: bool | Progress) -> Iterator[ProgressReporter]:
    """Yield a reporter that shows bars (``True``), shows nothing (``False``) or calls a given function."""
    if isinstance(progress, bool):
        with progress_bars(quiet=not progress) as shown:
            yield shown
    else:
        yield Called(progress)


@contextlib.contextmanager
def progress_bars(quiet: bool = False) -> Iterator[ProgressReporter]:
    """Yield a reporter for the current output, which is a notebook, a terminal or a log.

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
        finally:  # the costs are also shown after an interrupt
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
    """Return a handle for updating output in the running notebook, or ``None`` outside a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None or type(shell).__name__ != "ZMQInteractiveShell":
        return None
    from IPython.display import DisplayHandle

    handle: Any = DisplayHandle()  # type: ignore[no-untyped-call]
    handle.display({"text/plain": ""}, raw=True)
    return handle


def _print_line(text: str) -> None:
    print(safe(text), file=sys.stderr)
