"""The index of a workspace: build it, open it, ask it."""

from __future__ import annotations

from branchrank.index.build import Progress, build_index
from branchrank.index.reader import Index, open_index

__all__ = ["Index", "Progress", "build_index", "open_index"]
