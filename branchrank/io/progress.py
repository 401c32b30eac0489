"""The types of the callback functions with which long operations report their progress."""

from __future__ import annotations

from collections.abc import Callable

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
