"""The types of the callback functions with which long operations report their progress."""

from __future__ import annotations

from collections.abc import Callable

#: A function that is called with one line of text for the user.
Notify = Callable[[str], None]

#: Called as ``progress(stage, done, total)``. ``total`` is the number of units in the stage (0 if unknown).
#: The units are documents (``read``), texts (``embed``), steps (``store``, ``unpack``, ``clone``), nodes
#: (``summaries``), queries (``questions``, ``latency``) and bytes (``download``).
Progress = Callable[[str, int, int], None]


def no_notice(line: str) -> None:
    """Report nothing."""


def no_progress(stage: str, done: int, total: int) -> None:
    """Report nothing."""
