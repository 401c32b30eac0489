"""What each index reads of a chunk or a node."""

from __future__ import annotations

from pathlib import PurePosixPath

from branchrank.corpus.document import ENTRY_SUFFIX
from branchrank.records import Chunk, Node


def embedded_text(chunk: Chunk) -> str:
    """What is embedded of a chunk: where it stands, then what it says."""
    return f"{chunk.breadcrumb}\n{chunk.text}"


def chunk_terms(chunk: Chunk) -> str:
    """What BM25 counts of a chunk: the path's words, the titles above it and its text."""
    return f"{_path(chunk.source)}\n{chunk.breadcrumb}\n{chunk.text}"


def node_terms(node: Node) -> str:
    """What BM25 counts of a node: the path's words, the titles above it and its own text."""
    return f"{_path(node.source)}\n{node.breadcrumb}\n{node.text}"


def _path(source: str) -> str:
    if source.endswith(ENTRY_SUFFIX):
        return ""  # an identifier, no words
    path = PurePosixPath(source)
    return " ".join([*path.parts[:-1], path.name.split(".")[0]])
