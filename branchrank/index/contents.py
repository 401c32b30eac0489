"""Read the corpus in shards, and combine the results into the chunks, nodes and tokens of an index.

1. A shard consists of consecutive documents in the corpus. The result for a shard does not depend on
   documents outside the shard, so shards can be read in several processes. The results for all shards are
   joined in the order of the documents.
2. To save memory, data whose size depends on the corpus are stored as bytes or arrays.
3. Chunks and nodes supplied by the user replace the computed chunks and nodes
   (:mod:`branchrank.index.adopted_files`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from branchrank.core.errors import CorpusError, Remedy, UsageError
from branchrank.core.execution import Executor
from branchrank.core.io.files import read_beneath
from branchrank.core.io.progress import Progress
from branchrank.core.records import Chunk, Node, Record
from branchrank.core.settings import SECTIONS, Bm25Settings
from branchrank.documents.chunkers import Chunker, chunks_of, lines_to_chunk, open_chunker
from branchrank.documents.chunking import chunk_document, token_counter
from branchrank.documents.document import Document, without_content
from branchrank.documents.loading import Corpus, CorpusFile, corpus_of, discover, read_documents
from branchrank.documents.reading import document_digest, document_text, is_binary
from branchrank.documents.tree_build import CorpusOutline, Page, draft_page
from branchrank.index.adopted_files import given_chunks, given_nodes
from branchrank.index.adoption import adopted_vectors
from branchrank.index.embedders.protocol import Embedder, Vectors
from branchrank.index.generations import CHUNKS, NODES
from branchrank.index.records_file import RecordLines, RecordsFile, encoded, open_tree, write_records
from branchrank.index.stores.analyzer import Analyze, analyzer, chunk_terms, node_terms
from branchrank.index.stores.bm25 import TokenCounts, count_tokens, merged
from branchrank.index.workspace_folder import WorkspaceFolder

#: The number of documents in a shard, which must not depend on the number of processes.
DOCUMENTS = 128
#: The number of nodes that are encoded at once.
_BATCH = 4096


class Contents(NamedTuple):
    """The contents of an index, before its vectors are computed. Chunks and nodes are in the generation."""

    files: tuple[CorpusFile, ...]
    corpus: Corpus
    chunks: RecordsFile[Chunk]
    chunk_tokens: TokenCounts
    nodes: RecordsFile[Node]
    node_tokens: TokenCounts
    notes: tuple[str, ...]
    #: The adopted vectors, if any.
    adopted: Vectors | None
    #: The texts of binary documents, by their digests.
    texts: dict[str, str]


class Shard(NamedTuple):
    """The part of an index that is computed from one shard.

    ``pages`` contains, for each document, its encoded nodes and the token counts of its nodes with lines.
    """

    documents: list[Document]
    notes: list[str]
    pages: list[tuple[bytes, TokenCounts]]
    chunks: RecordLines
    chunk_tokens: TokenCounts
    texts: dict[str, str]


class ReadTask(Record, frozen=True, kw_only=True):
    """A task for worker processes, which reads documents below ``root`` with the index's settings.

    ``with_nodes`` is false if the user supplies the nodes, and ``with_chunks`` is false if the user supplies
    the chunks.
    """

    root: str
    chunker: str
    chunk_tokens: int
    chunk_overlap: int
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
        chunker = open_chunker(self.chunker, self.chunk_tokens, self.chunk_overlap)
        yield lambda sources: iter([self.read(sources, chunker)])

    def read(self, sources: Sequence[str], chunker: Chunker | None) -> Shard:
        """Read the documents of a shard, and add a note for each document that can't be read."""
        documents: list[Document] = []
        notes: list[str] = []
        pages: list[tuple[bytes, TokenCounts]] = []
        chunks: list[Chunk] = []
        texts: dict[str, str] = {}
        analyze = analyzer(self.bm25)
        for document in read_documents(Path(self.root), sources, notes):
            documents.append(without_content(document))
            texts |= _text_of(Path(self.root), document)
            if self.with_nodes:
                page = draft_page(document)
                pages.append((msgspec.msgpack.encode(page), _count(page.nodes, analyze)))
            if chunker is not None:
                lines = lines_to_chunk(Path(self.root), document)
                found, lost = chunks_of(document, lines, chunker, self.chunker)
                chunks += found
                notes += lost
            elif self.with_chunks:
                chunks += chunk_document(
                    document,
                    target_tokens=self.chunk_tokens,
                    overlap_tokens=self.chunk_overlap,
                    count_tokens=token_counter(),
                )
        tokens = count_tokens(map(chunk_terms, chunks), analyze)
        return Shard(documents, notes, pages, encoded(chunks), tokens, texts)


def _text_of(root: Path, document: Document) -> dict[str, str]:
    """Return the text of a binary document by the document's digest, or nothing for other documents."""
    with suppress(OSError):
        if is_binary(document.source):
            content = read_beneath(root, document.source)
            return {document_digest(document.source, content): document_text(document.source, content)}
    return {}


def read_contents(
    workspace: WorkspaceFolder, generation: Path, embedder: Embedder, executor: Executor, progress: Progress
) -> Contents:
    """Read the corpus, write its chunks and nodes to ``generation``, and return the contents of its index.

    ``progress`` is called with the number of documents that have been read so far.

    Raises :class:`CorpusError` if the corpus contains no text, and :class:`InputError` if the user's chunks
    or nodes do not match the corpus.
    """
    root = workspace.corpus_root
    # Modification times are recorded before the files are read, so a file that changes during the build
    # makes the index stale.
    found = discover(root, workspace.exclude)
    settings = workspace.index_settings
    given = workspace.given("chunks")
    if given is not None and settings.chunker != SECTIONS:
        raise UsageError(
            f"the chunker {settings.chunker} has no effect, because the chunks are those of {given}",
            remedy="remove `chunks` from branchrank.toml, or use the chunker sections",
        )
    tokens = embedder.identity.chunk_tokens(settings.chunk_tokens)
    if given is None and settings.chunk_tokens > embedder.identity.max_tokens:
        workspace.notify(
            f"chunk_tokens is {settings.chunk_tokens}, but {embedder.identity.name} reads at most "
            f"{tokens} tokens of a chunk, so the chunks have at most {tokens}"
        )
    task = ReadTask(
        root=str(root),
        chunker=settings.chunker,
        chunk_tokens=tokens,
        chunk_overlap=settings.chunk_overlap,
        bm25=workspace.bm25_settings,
        with_nodes=workspace.given("nodes") is None,
        with_chunks=given is None,
    )
    sources = [file.source for file in found.files]
    divided = [sources[start : start + DOCUMENTS] for start in range(0, len(sources), DOCUMENTS)]
    shards: list[Shard] = []
    for number, shard in enumerate(executor.map(task, divided), start=1):
        shards.append(shard)
        progress("read", min(number * DOCUMENTS, len(sources)), len(sources))
    documents = [document for shard in shards for document in shard.documents]
    corpus = corpus_of(root, documents, [*found.notes, *(note for shard in shards for note in shard.notes)])
    adopted = adopted_vectors(workspace, corpus, embedder.identity)
    node_tokens, tree_notes = _write_nodes(workspace, generation, corpus, shards)
    nodes = RecordsFile(generation, NODES, Node)
    if given is None:
        chunk_lines = [shard.chunks for shard in shards]
        chunk_tokens = merged(shard.chunk_tokens for shard in shards)
    else:
        own = given_chunks(given, corpus, open_tree(nodes))
        chunk_lines = [encoded(own)]
        chunk_tokens = count_tokens(map(chunk_terms, own), analyzer(workspace.bm25_settings))
    if not any(map(len, chunk_lines)):
        if settings.chunker != SECTIONS:
            message = f"the chunker {settings.chunker} made no chunks from the documents of the corpus {root}"
            raise CorpusError(message, remedy=Remedy("choose another {}", "--chunker"))
        raise CorpusError(
            f"the documents of the corpus {root} contain no text", remedy="add a document with text"
        )
    write_records(generation, CHUNKS, chunk_lines)
    chunks = RecordsFile(generation, CHUNKS, Chunk)
    notes = (*corpus.notes, *tree_notes)
    texts = {digest: text for shard in shards for digest, text in shard.texts.items()}
    return Contents(found.files, corpus, chunks, chunk_tokens, nodes, node_tokens, notes, adopted, texts)


def _count(nodes: Iterable[Node], analyze: Analyze) -> TokenCounts:
    """Count the tokens of the nodes that have lines."""
    return count_tokens((node_terms(node) for node in nodes if node.has_lines), analyze)


def _write_nodes(
    workspace: WorkspaceFolder, generation: Path, corpus: Corpus, shards: list[Shard]
) -> tuple[TokenCounts, list[str]]:
    """Write the nodes in pre-order. Return their token counts, and notes on ignored toctree entries.

    To free memory, the pages of a shard are removed from it.
    """
    path = workspace.given("nodes")
    if path is not None:
        given = given_nodes(path, corpus).nodes
        write_records(generation, NODES, _encoded(given.values()), tree=True)
        return _count(given.values(), analyzer(workspace.bm25_settings)), []
    outline = CorpusOutline(corpus.documents, workspace.corpus_name)
    pages: dict[str, tuple[bytes, TokenCounts]] = {}
    for shard in shards:
        pages |= zip((document.source for document in shard.documents), shard.pages, strict=True)
        shard.pages.clear()
    counts: list[TokenCounts] = []

    def page_of(source: str) -> Page:
        page, counted = pages.pop(source)
        counts.append(counted)
        return msgspec.msgpack.decode(page, type=Page)

    write_records(generation, NODES, _encoded(outline.nodes(page_of)), tree=True)
    return merged(counts), outline.notes


def _encoded(nodes: Iterable[Node]) -> Iterator[RecordLines]:
    remaining = iter(nodes)
    return map(encoded, iter(lambda: list(islice(remaining, _BATCH)), []))
