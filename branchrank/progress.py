"""How work reports to the person who waits for it; every part of the package takes these callbacks."""

from __future__ import annotations

from collections.abc import Callable

#: Called with one line of text for the person who runs the work.
Notify = Callable[[str], None]

#: Called with (stage, done, total): ``done`` of ``total`` units of a stage are finished; 0 is unknown.
Progress = Callable[[str, int, int], None]


def no_notice(line: str) -> None:
    """Ignore a line of text."""


def no_progress(stage: str, done: int, total: int) -> None:
    """Ignore a step of progress."""
