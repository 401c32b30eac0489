"""Read a shard of a corpus, and return the part of an index that is computed from this shard.

A shard consists of consecutive documents in the corpus. The result for a shard does not depend on documents
outside the shard, so shards can be read in several processes. The results for all shards are joined in the
order of the documents. To save memory, a result consists of bytes and arrays instead of Python objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from branchrank.corpus.chunking import chunk_document, token_counter
from branchrank.corpus.document import Document, DocumentOutline
from branchrank.corpus.reading import read_document
from branchrank.index.records_file import RecordLines, encoded
from branchrank.io.files import read_beneath
from branchrank.records import Chunk, Record
from branchrank.settings import Bm25Settings
from branchrank.stores.analyzer import analyzer
from branchrank.stores.bm25_weights import TokenCounts, count_tokens
from branchrank.stores.indexed_text import chunk_terms, node_terms
from branchrank.tree.build import draft_page

#: The number of documents in a shard, which must not depend on the number of processes.
DOCUMENTS = 128


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
