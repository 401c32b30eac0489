"""Types of the callbacks that long operations call to report their progress."""

from __future__ import annotations

from collections.abc import Callable

#: Called with one line of text for the user.
Notify = Callable[[str], None]

#: Called as ``progress(stage, done, total)``, with the numbers of finished units and of all units (0:
#: unknown). Stages and their units: ``read`` (documents), ``embed`` (texts), ``store`` (steps), ``summaries``
#: (nodes), ``questions`` and ``latency`` (queries), ``download`` (bytes), ``unpack`` and ``clone`` (steps).
Progress = Callable[[str, int, int], None]


def no_notice(line: str) -> None:
    """Report nothing."""


def no_progress(stage: str, done: int, total: int) -> None:
    """Report nothing."""
