"""The callbacks by which long work reports its progress; every part of the package accepts them."""

from __future__ import annotations

from collections.abc import Callable

#: Called with one line of text for the user.
Notify = Callable[[str], None]

#: Called as ``progress(stage, done, total)``: ``done`` of ``total`` units of a stage are finished. A total of
#: 0 means that it is unknown. Stages are ``read`` (documents), ``embed`` (texts), ``store`` (steps),
#: ``summaries`` (nodes), ``questions`` and ``latency`` (queries), ``download`` (bytes), ``unpack`` and
#: ``clone`` (steps).
Progress = Callable[[str, int, int], None]


def no_notice(line: str) -> None:
    """Report nothing."""


def no_progress(stage: str, done: int, total: int) -> None:
    """Report nothing."""
