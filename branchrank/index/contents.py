"""Read the corpus in shards, and combine the results into the chunks, nodes and tokens of an index.

To save memory, data whose size depends on the corpus are stored as bytes or arrays. Chunks and nodes supplied
by the user replace the computed chunks and nodes (:mod:`branchrank.index.user_files`).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import msgspec
import numpy as np
from numpy.typing import NDArray

from branchrank.corpus.document import DocumentOutline
from branchrank.corpus.loading import CorpusFile, CorpusOutline, corpus_digest, discover
from branchrank.embedders import Embedder
from branchrank.errors import CorpusError
from branchrank.execution.executors import Executor
from branchrank.index.adoption import Adoption, check_adoption, read_adoption
from branchrank.index.calibration import probe_title
from branchrank.index.records_file import RecordLines, encoded
from branchrank.index.shards import ReadTask, shards_of
from branchrank.index.user_files import given_chunks, given_nodes
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.io.progress import Progress
from branchrank.records import Node
from branchrank.stores.analyzer import analyzer
from branchrank.stores.bm25_weights import TokenCounts, count_tokens, merged, reordered
from branchrank.stores.indexed_text import chunk_terms, node_terms
from branchrank.tree.build import Outline, Page
from branchrank.tree.navigate import Tree

#: The number of nodes that are encoded at once.
_BATCH = 4096


@dataclass(frozen=True)
class Nodes:
    """The nodes of an index, in pre-order and encoded as JSON Lines.

    ``depths`` contains each node's depth below the root. ``tokens`` contains the token counts of the nodes
    that have lines. ``titles`` contains the distinct titles of files and sections, with the node's id in
    place of an empty title.
    """

    lines: list[RecordLines]
    depths: NDArray[np.int32]
    tokens: TokenCounts
    titles: set[str]


@dataclass(frozen=True)
class Contents:
    """The contents of an index, before its vectors are computed."""

    files: tuple[CorpusFile, ...]
    corpus: CorpusOutline
    chunks: list[RecordLines]
    chunk_tokens: TokenCounts
    nodes: Nodes
    notes: tuple[str, ...]
    adoption: Adoption | None


def read_contents(
    workspace: WorkspaceFolder, embedder: Embedder, executor: Executor, progress: Progress
) -> Contents:
    """Read the corpus, and return the contents of its index.

    ``progress`` is called with the number of documents that have been read so far.

    Raises :class:`CorpusError` if the corpus contains no text, and :class:`InputError` if the user's chunks
    or nodes do not match the corpus.
    """
    root = workspace.corpus_root
    # Modification times are recorded before the files are read, so a file that changes during the build
    # makes the index stale.
    found = discover(root, workspace.exclude)
    settings = workspace.index_settings
    task = ReadTask(
        root=str(root),
        chunk_tokens=settings.chunk_tokens,
        chunk_overlap=settings.chunk_overlap,
        # The model adds one token at each end of a text, so two tokens are subtracted from the model's limit.
        chunk_limit=max(8, embedder.identity.max_tokens - 2),
        bm25=workspace.bm25_settings,
        with_nodes=workspace.nodes_file is None,
        with_chunks=workspace.chunks_file is None,
    )
    parts = _read_shards(executor, task, [file.source for file in found.files], progress)
    if not parts.documents:
        raise CorpusError(
            f"the documents of the corpus {root} can't be read", remedy="check the permissions of its files"
        )
    corpus = CorpusOutline(
        root=str(root),
        documents=tuple(parts.documents),
        digest=corpus_digest((document.source, document.digest) for document in parts.documents),
        notes=(*found.notes, *parts.notes),
    )
    adoption = read_adoption(workspace.adoption_file)
    if adoption is not None:
        check_adoption(adoption, workspace, corpus)
    nodes, tree_notes = _nodes(workspace, corpus, parts)
    chunks, chunk_tokens = _chunks(workspace, corpus, parts, nodes)
    if not any(map(len, chunks)):
        raise CorpusError(
            f"the documents of the corpus {root} contain no text", remedy="add a document with text"
        )
    return Contents(found.files, corpus, chunks, chunk_tokens, nodes, (*corpus.notes, *tree_notes), adoption)


@dataclass
class _Parts:
    """The combined results of all shards. To free memory, results that have been used are removed.

    ``pages`` maps the path of each document to the document's encoded nodes. The class
    :class:`~branchrank.index.shards.Shard` describes all other fields.
    """

    documents: list[DocumentOutline]
    notes: list[str]
    pages: dict[str, bytes]
    sections: list[int]
    node_tokens: list[TokenCounts]
    chunks: list[RecordLines]
    chunk_tokens: list[TokenCounts]


def _read_shards(executor: Executor, task: ReadTask, sources: Sequence[str], progress: Progress) -> _Parts:
    parts = _Parts([], [], {}, [], [], [], [])
    done = 0
    divided = shards_of(sources)
    for part, shard in zip(divided, executor.map(task, divided), strict=True):
        parts.documents += shard.documents
        parts.notes += shard.notes
        if shard.pages:
            names = (document.source for document in shard.documents)
            parts.pages.update(zip(names, shard.pages, strict=True))
        parts.sections += shard.sections
        parts.node_tokens.append(shard.node_tokens)
        parts.chunks.append(shard.chunks)
        parts.chunk_tokens.append(shard.chunk_tokens)
        done += len(part)
        progress("read", done, len(sources))
    return parts


def _nodes(workspace: WorkspaceFolder, corpus: CorpusOutline, parts: _Parts) -> tuple[Nodes, list[str]]:
    """Return the nodes, and notes about toctree entries that were ignored."""
    titles: set[str] = set()
    depths = array("i")
    if workspace.nodes_file is not None:
        given = given_nodes(workspace.nodes_file, corpus).nodes
        lines = _encoded(_noted(given.values(), titles, depths))
        texts = (node_terms(node) for node in given.values() if node.has_lines)
        tokens = count_tokens(texts, analyzer(workspace.bm25_settings))
        return Nodes(lines, np.array(depths, dtype=np.int32), tokens, titles), []
    outline = Outline(corpus.documents, workspace.corpus_name)
    order: list[str] = []

    def page_of(source: str) -> Page:
        order.append(source)
        return msgspec.msgpack.decode(parts.pages.pop(source), type=Page)

    lines = _encoded(_noted(outline.nodes(page_of), titles, depths))
    sizes = np.array(parts.sections, dtype=np.intp)
    rows = {document.source: row for row, document in enumerate(corpus.documents)}
    tokens = reordered(merged(_taken(parts.node_tokens)), sizes, [rows[source] for source in order])
    return Nodes(lines, np.array(depths, dtype=np.int32), tokens, titles), outline.notes


def _taken(parts: list[TokenCounts]) -> Iterator[TokenCounts]:
    """Yield the token counts in order, and remove each from the list to free its memory."""
    parts.reverse()
    while parts:
        yield parts.pop()


def _noted(nodes: Iterable[Node], titles: set[str], depths: array[int]) -> Iterator[Node]:
    """Yield the nodes, and collect their depths and the titles of nodes that have lines."""
    for node in nodes:
        depths.append(node.depth)
        if node.line_start is not None:
            titles.add(probe_title(node))
        yield node


def _encoded(nodes: Iterable[Node]) -> list[RecordLines]:
    remaining = iter(nodes)
    return [encoded(part) for part in iter(lambda: list(islice(remaining, _BATCH)), [])]


def _decoded(lines: Iterable[RecordLines]) -> Iterator[Node]:
    decoder = msgspec.json.Decoder(Node)
    for part in lines:
        yield from map(decoder.decode, part.content.splitlines())


def _chunks(
    workspace: WorkspaceFolder, corpus: CorpusOutline, parts: _Parts, nodes: Nodes
) -> tuple[list[RecordLines], TokenCounts]:
    if workspace.chunks_file is None:
        return parts.chunks, merged(_taken(parts.chunk_tokens))
    given = given_chunks(workspace.chunks_file, corpus, Tree(_decoded(nodes.lines)))
    analyze = analyzer(workspace.bm25_settings)
    return [encoded(given)], count_tokens(map(chunk_terms, given), analyze)
