"""Build, open and query the index of a workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from branchrank.index.opening import open_or_build
from branchrank.index.reader import Index, open_index

if TYPE_CHECKING:
    from branchrank.index.build import build_index as build_index

__all__ = ["Index", "build_index", "open_index", "open_or_build"]


def __getattr__(name: str) -> object:
    # This module is imported on first use, because importing it is slow and queries do not need it.
    if name == "build_index":
        from branchrank.index.build import build_index

        return build_index
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
