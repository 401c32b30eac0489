"""The text that each index stores for a chunk or a node."""

from __future__ import annotations

from pathlib import PurePosixPath

from branchrank.corpus.document import ENTRY_SUFFIX
from branchrank.records import Chunk, Node


def embedded_text(chunk: Chunk) -> str:
    """Return the text that is embedded for a chunk, which is the breadcrumb followed by the chunk's text."""
    return f"{chunk.breadcrumb}\n{chunk.text}"


def chunk_terms(chunk: Chunk) -> str:
    """Return the text that BM25 indexes for a chunk, which contains its path, its breadcrumb and its text."""
    return f"{_path(chunk.source)}\n{chunk.breadcrumb}\n{chunk.text}"


def node_terms(node: Node) -> str:
    """Return the text that BM25 indexes for a node, which contains its path, its breadcrumb and its text."""
    return f"{_path(node.source)}\n{node.breadcrumb}\n{node.text}"


def _path(source: str) -> str:
    if source.endswith(ENTRY_SUFFIX):
        return ""  # The name of the file is an identifier, not words.
    path = PurePosixPath(source)
    return " ".join([*path.parts[:-1], path.name.split(".")[0]])
