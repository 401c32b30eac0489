"""Read the corpus in shards, and combine the results into the chunks, nodes and tokens of an index.

1. A shard consists of consecutive documents in the corpus. The result for a shard does not depend on
   documents outside the shard, so shards can be read in several processes. The results for all shards are
   joined in the order of the documents.
2. To save memory, data whose size depends on the corpus are stored as bytes or arrays.
3. Chunks and nodes supplied by the user replace the computed chunks and nodes
   (:mod:`branchrank.index.adopted_files`).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from branchrank.corpus.chunking import chunk_document, token_counter
from branchrank.corpus.document import Document, DocumentOutline
from branchrank.corpus.loading import CorpusFile, CorpusOutline, corpus_digest, discover
from branchrank.corpus.reading import read_document
from branchrank.embedders import Embedder
from branchrank.embedders.protocol import Vectors
from branchrank.errors import CorpusError
from branchrank.execution import Executor
from branchrank.index.adopted_files import given_chunks, given_nodes
from branchrank.index.adoption import adopted_vectors
from branchrank.index.calibration import probe_title
from branchrank.index.records_file import RecordLines, encoded
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.io.files import read_beneath
from branchrank.io.progress import Progress
from branchrank.records import Chunk, Node, Record
from branchrank.settings import Bm25Settings
from branchrank.stores.analyzer import analyzer, chunk_terms, node_terms
from branchrank.stores.bm25 import TokenCounts, count_tokens, merged, reordered
from branchrank.tree.build import Outline, Page, draft_page
from branchrank.tree.navigate import Tree

#: The number of documents in a shard, which must not depend on the number of processes.
DOCUMENTS = 128
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
    """The contents of an index, before its vectors are computed. ``adopted`` are adopted vectors, if any."""

    files: tuple[CorpusFile, ...]
    corpus: CorpusOutline
    chunks: list[RecordLines]
    chunk_tokens: TokenCounts
    nodes: Nodes
    notes: tuple[str, ...]
    adopted: Vectors | None


class Shard(NamedTuple):
    """The part of an index that is computed from one shard.

    ``pages`` contains the encoded nodes of each document. ``sections`` contains, for each document, the
    number of nodes with lines. ``node_tokens`` contains the token counts of all nodes with lines.
    """

    documents: list[DocumentOutline]
    notes: list[str]
    pages: list[bytes]
    sections: list[int]
    node_tokens: TokenCounts
    chunks: RecordLines
    chunk_tokens: TokenCounts


class ReadTask(Record, frozen=True, kw_only=True):
    """A task for worker processes, which reads documents below ``root`` with the index's settings.

    ``with_nodes`` is false if the user supplies the nodes, and ``with_chunks`` is false if the user supplies
    the chunks.
    """

    root: str
    chunk_tokens: int
    chunk_overlap: int
    chunk_limit: int
    bm25: Bm25Settings
    with_nodes: bool
    with_chunks: bool

    @property
    def needs(self) -> tuple[Path, ...]:
        """The folder that contains the documents, which every worker must be able to read."""
        return (Path(self.root),)

    @contextmanager
    def open(self) -> Iterator[Callable[[Sequence[str]], Iterator[Shard]]]:
        """Yield a function that reads a shard and returns an iterator over this one :class:`Shard`."""
        yield lambda sources: iter([self.read(sources)])

    def read(self, sources: Sequence[str]) -> Shard:
        """Read the documents of a shard, and add a note for each document that can't be read."""
        documents: list[DocumentOutline] = []
        notes: list[str] = []
        pages: list[bytes] = []
        sections: list[int] = []
        node_texts: list[str] = []
        chunks: list[Chunk] = []
        for source in sources:
            try:
                document = read_document(source, read_beneath(Path(self.root), source))
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                notes.append(f"{source!a}: skipped because it can't be read ({reason})")
                continue
            documents.append(DocumentOutline.of(document))
            notes += [f"{source!a}: {note}" for note in document.notes]
            if self.with_nodes:
                page = draft_page(document)
                texts = [node_terms(node) for node in page.nodes if node.has_lines]
                pages.append(msgspec.msgpack.encode(page))
                sections.append(len(texts))
                node_texts += texts
            if self.with_chunks:
                chunks += self._chunks(document)
        analyze = analyzer(self.bm25)
        return Shard(
            documents,
            notes,
            pages,
            sections,
            count_tokens(node_texts, analyze),
            encoded(chunks),
            count_tokens(map(chunk_terms, chunks), analyze),
        )

    def _chunks(self, document: Document) -> list[Chunk]:
        return chunk_document(
            document,
            target_tokens=self.chunk_tokens,
            overlap_tokens=self.chunk_overlap,
            limit_tokens=self.chunk_limit,
            count_tokens=token_counter(),
        )


def shards_of(sources: Sequence[str]) -> list[Sequence[str]]:
    """Divide the sources of a corpus into shards."""
    return [sources[start : start + DOCUMENTS] for start in range(0, len(sources), DOCUMENTS)]


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
    adopted = adopted_vectors(workspace, corpus, embedder.identity)
    nodes, tree_notes = _nodes(workspace, corpus, parts)
    chunks, chunk_tokens = _chunks(workspace, corpus, parts, nodes)
    if not any(map(len, chunks)):
        raise CorpusError(
            f"the documents of the corpus {root} contain no text", remedy="add a document with text"
        )
    return Contents(found.files, corpus, chunks, chunk_tokens, nodes, (*corpus.notes, *tree_notes), adopted)


@dataclass
class _Parts:
    """The combined results of all shards. To free memory, results that have been used are removed.

    ``pages`` maps the path of each document to the document's encoded nodes. The class
    :class:`Shard` describes all other fields.
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
