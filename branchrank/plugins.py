"""What the author of a branch kind, embedder, reader, chunker, adapter or measure imports.

These names are part of the public API. `docs/extending.md` shows a package for each kind.
"""

from __future__ import annotations

from branchrank.core.records import Answer, LLMUse, Passage, Scored, Span
from branchrank.core.registry import Plugin
from branchrank.core.spec import Branch
from branchrank.documents.chunkers import CHUNKERS, Chunker
from branchrank.documents.document import Block, Findings, Heading, LinkTarget, Reference, plain_blocks
from branchrank.documents.lines import SharedLines
from branchrank.documents.reading import READERS, Reader
from branchrank.documents.text_chunkers import Piece
from branchrank.index.embedders import EMBEDDERS
from branchrank.index.embedders.protocol import (
    DocumentVectors,
    Embedder,
    EmbedderIdentity,
    QueryVectors,
    TokenEmbedder,
    Vectors,
    unit_row,
    unit_rows,
)
from branchrank.runs.adapters import ADAPTERS, Adapter, Retriever, no_options
from branchrank.scoring.measures import MEASURES, Definition, Ranking
from branchrank.search.systems.branches import (
    KINDS,
    BranchKind,
    BranchResult,
    Lookup,
    MaxSim,
    Opening,
    Scores,
    Search,
)

__all__ = ["Branch", "BranchKind", "BranchResult", "Lookup", "MaxSim", "Opening", "Scored", "Scores"]
__all__ += ["Search", "Span"]
__all__ += ["DocumentVectors", "Embedder", "EmbedderIdentity", "QueryVectors", "TokenEmbedder", "Vectors"]
__all__ += ["unit_row", "unit_rows"]
__all__ += ["Block", "Findings", "Heading", "LinkTarget", "Reader", "Reference", "SharedLines"]
__all__ += ["plain_blocks"]
__all__ += ["Chunker", "Piece"]
__all__ += ["Adapter", "Answer", "LLMUse", "Passage", "Retriever", "no_options"]
__all__ += ["Definition", "Ranking"]
__all__ += ["Plugin", "list_plugins"]


def list_plugins() -> list[Plugin]:
    """Import and list what installed packages add, with the errors."""
    registries = (KINDS, EMBEDDERS, READERS, CHUNKERS, ADAPTERS, MEASURES)
    return [plugin for registry in registries for plugin in registry.plugins()]
