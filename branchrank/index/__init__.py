"""The index of a workspace: build it, open it, query it."""

from __future__ import annotations

from branchrank.index.build import build_index
from branchrank.index.opening import open_or_build
from branchrank.index.reader import Index, open_index

__all__ = ["Index", "build_index", "open_index", "open_or_build"]
