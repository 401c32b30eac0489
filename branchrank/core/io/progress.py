"""Report the progress of long operations: the callbacks, and how a terminal, notebook or log shows them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from branchrank.core.io import preserved_random_state
from branchrank.core.io.printable import safe

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


class ProgressReporter:
    """Shows the progress of a long operation, stage by stage. This base class only calls ``callback``."""

    def __init__(self, callback: Progress = no_progress) -> None:
        self.callback = callback

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show that ``done`` of the ``total`` units in ``stage`` are finished.

        A ``total`` of 0 means that the total is unknown.
        """
        self.callback(stage, done, total)

    def status(self, text: str) -> None:
        """Show a status line, such as the costs so far, in place of the previous status line."""


class _Announcements(ProgressReporter):
    """Prints each stage once and the last status at the end, if standard error is not a terminal."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.status_text = ""

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage not in self.seen:
            self.seen.add(stage)
            _print_line(f"{stage} ({total})" if total else stage)

    def status(self, text: str) -> None:
        self.status_text = text


class _NotebookLine(ProgressReporter):
    """Shows progress on one line of a notebook cell's output, with about 100 updates per stage."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.stage = self.text = self.shown = ""

    def __call__(self, stage: str, done: int, total: int) -> None:
        if done % max(1, total // 100) and done != total:
            return
        self.stage = f"{stage} {done:,}/{total:,}" if total else stage
        self._update()

    def status(self, text: str) -> None:
        self.text = text
        self._update()

    def _update(self) -> None:
        line = safe("  ".join(part for part in (self.stage, self.text) if part))
        if line != self.shown:
            self.shown = line
            self.handle.update({"text/plain": line}, raw=True)


class _Bars(ProgressReporter):
    """Shows one progress bar per stage, and a status text next to the bar that changed last."""

    def __init__(self, bars: Any) -> None:
        self.bars = bars
        self.tasks: dict[str, Any] = {}
        self.moving: Any = None

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage not in self.tasks:
            self.tasks[stage] = self.bars.add_task(stage, total=total or None, text="")
        self.moving = self.tasks[stage]
        self.bars.update(self.moving, completed=done, total=total or None)

    def status(self, text: str) -> None:
        if self.moving is not None:
            self.bars.update(self.moving, text=safe(text))


@contextlib.contextmanager
def shown_progress(progress: bool | Progress) -> Iterator[ProgressReporter]:
    """Yield a reporter that shows progress (``True``), shows nothing (``False``) or calls a given function.

    Progress is shown on a line in a notebook, as bars in a terminal, and otherwise as lines in a log.

    Example::

        with shown_progress(True) as progress:
            progress("questions", 3, 100)
    """
    if not isinstance(progress, bool):
        yield ProgressReporter(progress)
    elif not progress:
        yield ProgressReporter()
    elif handle := _notebook_handle():
        yield _NotebookLine(handle)
    else:
        with preserved_random_state():
            from rich.console import Console
        console = Console(stderr=True)
        if console.is_terminal:
            with _bars(console) as bars:
                yield bars
            return
        announcements = _Announcements()
        try:
            yield announcements
        finally:  # the costs are also shown after an interrupt
            if announcements.status_text:
                _print_line(announcements.status_text)


@contextlib.contextmanager
def _bars(console: Any) -> Iterator[ProgressReporter]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[text]}", markup=False),
    )
    with Progress(*columns, console=console) as bars:
        yield _Bars(bars)


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
