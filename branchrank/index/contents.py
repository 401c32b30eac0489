"""The contents of an index before the embedding: chunks, nodes and their tokens, joined from shards.

Everything that grows with the corpus is bytes or arrays. The user's own chunks or nodes replace those that a
build makes (:mod:`branchrank.index.user_files`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import msgspec
import numpy as np

from branchrank.corpus.discovery import CorpusFile, discover
from branchrank.corpus.loading import CorpusOutline, corpus_digest
from branchrank.embedders import Embedder
from branchrank.errors import CorpusError
from branchrank.execution import Executor
from branchrank.index.adoption import Adoption, check_adoption, read_adoption
from branchrank.index.calibration import probe_title
from branchrank.index.records_file import RecordLines, encoded
from branchrank.index.shards import ReadTask, Shard, shards_of
from branchrank.index.user_files import given_chunks, given_nodes
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.progress import Progress
from branchrank.records import Node
from branchrank.stores.analyzer import analyzer
from branchrank.stores.bm25_weights import TokenCounts, count_tokens, merged, reordered
from branchrank.stores.indexed_text import chunk_terms, node_terms
from branchrank.tree.build import Outline, Page
from branchrank.tree.navigate import Tree

#: Nodes that are encoded at once.
_BATCH = 4096


@dataclass(frozen=True)
class Nodes:
    """The nodes of an index in pre-order, as encoded lines.

    ``sections`` are the ids of the nodes that have lines of their own, ``tokens`` the tokens of their texts.
    ``titles`` are the distinct titles of files and sections; an empty one is replaced by the id.
    """

    lines: list[RecordLines]
    count: int
    sections: list[str]
    tokens: TokenCounts
    titles: set[str]


@dataclass(frozen=True)
class Contents:
    """The contents of an index before the embedding."""

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
    """Read the corpus; ``progress`` counts documents.

    Raises :class:`CorpusError` when it holds no text, and what the user's own chunks and nodes raise.
    """
    root = workspace.corpus_root
    # Taken before reading: a file that changes during the read makes the index stale, not wrong.
    found = discover(root, workspace.exclude)
    settings = workspace.index_settings
    task = ReadTask(
        root=str(root),
        chunk_tokens=settings.chunk_tokens,
        chunk_overlap=settings.chunk_overlap,
        # The model adds tokens for the start and the end of a text.
        chunk_limit=max(8, embedder.identity.max_tokens - 2),
        bm25=workspace.bm25_settings,
        with_nodes=workspace.nodes_file is None,
        with_chunks=workspace.chunks_file is None,
    )
    shards = _read_shards(executor, task, [file.source for file in found.files], progress)
    documents = [document for shard in shards for document in shard.documents]
    if not documents:
        raise CorpusError(
            f"no document of the corpus {root} can be read", remedy="look at the permissions of its files"
        )
    corpus = CorpusOutline(
        root=str(root),
        documents=tuple(documents),
        digest=corpus_digest((document.source, document.digest) for document in documents),
        notes=(*found.notes, *(note for shard in shards for note in shard.notes)),
    )
    adoption = read_adoption(workspace.adoption_file)
    if adoption is not None:
        check_adoption(adoption, workspace, corpus)
    nodes, tree_notes = _nodes(workspace, corpus, shards)
    chunks, chunk_tokens = _chunks(workspace, corpus, shards, nodes)
    if not any(part.ids for part in chunks):
        raise CorpusError(f"no document of the corpus {root} holds any text", remedy="add text to index")
    return Contents(found.files, corpus, chunks, chunk_tokens, nodes, (*corpus.notes, *tree_notes), adoption)


def _read_shards(
    executor: Executor, task: ReadTask, sources: Sequence[str], progress: Progress
) -> list[Shard]:
    shards = []
    done = 0
    parts = shards_of(sources)
    for part, shard in zip(parts, executor.map(task, parts), strict=True):
        shards.append(shard)
        done += len(part)
        progress("read", done, len(sources))
    return shards


def _nodes(
    workspace: WorkspaceFolder, corpus: CorpusOutline, shards: Sequence[Shard]
) -> tuple[Nodes, list[str]]:
    """The nodes, and notes about toctree entries that were ignored."""
    titles: set[str] = set()
    if workspace.nodes_file is not None:
        given = given_nodes(workspace.nodes_file, corpus).nodes
        lines = _encoded(_titled(given.values(), titles))
        texts = (node_terms(node) for node in given.values() if node.has_lines)
        tokens = count_tokens(texts, analyzer(workspace.bm25_settings))
        return Nodes(lines, len(given), _sections(lines), tokens, titles), []
    outline = Outline(corpus.documents, workspace.corpus_name)
    order: list[str] = []
    pages = dict(zip((d.source for d in corpus.documents), chain(*(s.pages for s in shards)), strict=True))

    def page_of(source: str) -> Page:
        order.append(source)
        return msgspec.msgpack.decode(pages.pop(source), type=Page)

    lines = _encoded(_titled(outline.nodes(page_of), titles))
    tokens = merged([shard.node_tokens for shard in shards])
    sizes = np.array([size for shard in shards for size in shard.sections], dtype=np.intp)
    rows = {document.source: row for row, document in enumerate(corpus.documents)}
    tokens = reordered(tokens, sizes, [rows[source] for source in order])
    count = sum(len(part.ids) for part in lines)
    return Nodes(lines, count, _sections(lines), tokens, titles), outline.notes


def _sections(lines: Iterable[RecordLines]) -> list[str]:
    """The ids of the nodes that have lines of their own."""
    return [
        key
        for part in lines
        for key, (_, first, last) in zip(part.ids, part.places, strict=True)
        if last >= first > 0
    ]


def _titled(nodes: Iterable[Node], titles: set[str]) -> Iterator[Node]:
    """Yield the nodes; the titles of files and sections are added to ``titles``."""
    for node in nodes:
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
    workspace: WorkspaceFolder, corpus: CorpusOutline, shards: Sequence[Shard], nodes: Nodes
) -> tuple[list[RecordLines], TokenCounts]:
    if workspace.chunks_file is None:
        return [shard.chunks for shard in shards], merged([shard.chunk_tokens for shard in shards])
    given = given_chunks(workspace.chunks_file, corpus, Tree(_decoded(nodes.lines)))
    analyze = analyzer(workspace.bm25_settings)
    return [encoded(given)], count_tokens(map(chunk_terms, given), analyze)
