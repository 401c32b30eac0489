"""Functions that return the text that is embedded, or indexed with BM25, for a chunk or node."""

from __future__ import annotations

from pathlib import PurePosixPath

from branchrank.corpus.document import ENTRY_SUFFIX
from branchrank.records import Chunk, Node


def embedded_text(chunk: Chunk) -> str:
    """Return the text to embed for a chunk: its breadcrumb, followed by its text."""
    return f"{chunk.breadcrumb}\n{chunk.text}"


def chunk_terms(chunk: Chunk) -> str:
    """Return the text that BM25 indexes for a chunk: its path, breadcrumb and text."""
    return f"{_path(chunk.source)}\n{chunk.breadcrumb}\n{chunk.text}"


def node_terms(node: Node) -> str:
    """Return the text that BM25 indexes for a node: its path, breadcrumb and text."""
    return f"{_path(node.source)}\n{node.breadcrumb}\n{node.text}"


def _path(source: str) -> str:
    if source.endswith(ENTRY_SUFFIX):
        return ""  # The file name of a BEIR document is an id without words.
    path = PurePosixPath(source)
    return " ".join([*path.parts[:-1], path.name.split(".")[0]])
