"""The kinds of branches. A branch turns a query into a ranked list.

The built-in branch kinds are in the modules of this package. An installed package can add a branch kind with
an entry point in the group ``branchrank.branches``. The entry point's name is the name of the branch kind,
and the entry point's value is an instance of :class:`BranchKind`.
"""

from __future__ import annotations

import importlib
from functools import cache
from importlib.metadata import entry_points

from branchrank.errors import UsageError, suggestion
from branchrank.spec import Branch
from branchrank.systems.branches.protocol import (
    BranchKind,
    BranchResult,
    Lookup,
    MaxSim,
    Opening,
    Scores,
    Search,
)

__all__ = [
    "BranchKind",
    "BranchResult",
    "Lookup",
    "MaxSim",
    "Opening",
    "Scores",
    "Search",
    "branch_kind",
    "kind_names",
    "label",
]

ENTRY_POINTS = "branchrank.branches"

#: A map from each built-in branch kind to its module and object. A module is imported on first use.
BUILTIN_KINDS = {
    "dense": "vectors:DENSE",
    "bm25": "words:BM25",
    "fts5": "fts5:FTS5",
    "grep": "grep:GREP",
    "qdrant-dense": "qdrant:QDRANT_DENSE",
    "qdrant-sparse": "qdrant:QDRANT_SPARSE",
    "tree": "tree:TREE",
}


def kind_names() -> tuple[str, ...]:
    """Return the names of all branch kinds. The built-in kinds come first."""
    installed = (entry.name for entry in entry_points(group=ENTRY_POINTS))
    return tuple(dict.fromkeys([*BUILTIN_KINDS, *installed]))


@cache
def branch_kind(name: str) -> BranchKind:
    """Return the branch kind called ``name``.

    Raises :class:`UsageError` if the name is unknown or the kind can't be imported.
    """
    if name in BUILTIN_KINDS:
        module, _, attribute = BUILTIN_KINDS[name].partition(":")
        found: BranchKind = getattr(importlib.import_module(f"{__name__}.{module}"), attribute)
        return found
    for entry in entry_points(group=ENTRY_POINTS, name=name):
        try:
            made = entry.load()
        except Exception as error:
            raise UsageError(
                f"the branch kind {name!r} ({entry.value}) cannot be imported: {error}",
                remedy="reinstall the package that provides it",
            ) from error
        if not isinstance(made, BranchKind):
            raise UsageError(
                f"the branch kind {name!r} ({entry.value}) is a {type(made).__name__}, not a BranchKind",
                remedy="change the entry point to an instance of branchrank.systems.branches.BranchKind",
            )
        return made
    raise UsageError(
        f"there is no branch kind {name!r}",
        remedy=suggestion(name, kind_names()) or f"choose one of {', '.join(kind_names())}",
    )


def label(branch: Branch) -> str:
    """Return the branch's name in traces and hits, such as ``dense(chunks)`` or ``grep``."""
    return branch_kind(branch.kind).label(branch.unit)
