"""How work reports to the person who waits for it; every part of the package takes these callbacks."""

from __future__ import annotations

from collections.abc import Callable

#: Called with one line of text for the person who runs the work.
Notify = Callable[[str], None]
#: Called with the name of a stage, what is done of it, and of how much (0: unknown).
Progress = Callable[[str, int, int], None]
