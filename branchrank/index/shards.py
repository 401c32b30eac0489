"""Reading a shard of a corpus: documents in, the encoded parts of an index out.

A shard is a run of documents in the order of the corpus. It is read without regard to other documents, so
shards can be read in any process, and the parts are joined in order. Parts are bytes and arrays: no document,
node or chunk stays in memory as Python objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from branchrank.corpus.chunking import chunk_document
from branchrank.corpus.document import Document, DocumentOutline
from branchrank.corpus.reading import read_document
from branchrank.corpus.tokens import token_counter
from branchrank.index.records_file import RecordLines, encoded
from branchrank.records import Chunk, Record
from branchrank.safe_open import read_beneath
from branchrank.settings import Bm25Settings
from branchrank.stores.analyzer import analyzer
from branchrank.stores.bm25_weights import TokenCounts, count_tokens
from branchrank.stores.indexed_text import chunk_terms, node_terms
from branchrank.tree.build import draft_page

#: Documents of a shard. It does not depend on the number of processes, so the parts are always the same.
DOCUMENTS = 128


class Shard(NamedTuple):
    """What was read of a run of documents.

    ``pages`` are the encoded nodes of each document; ``sections`` counts those of each that have lines, whose
    tokens are in ``node_tokens``.
    """

    documents: list[DocumentOutline]
    notes: list[str]
    pages: list[bytes]
    sections: list[int]
    node_tokens: TokenCounts
    chunks: RecordLines
    chunk_tokens: TokenCounts


class ReadTask(Record, frozen=True, kw_only=True):
    """Reads documents below ``root``; the other fields are settings of the index.

    ``with_nodes`` and ``with_chunks`` are false where the user's own are used.
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
        """The folder of the documents."""
        return (Path(self.root),)

    @contextmanager
    def open(self) -> Iterator[Callable[[Sequence[str]], Iterator[Shard]]]:
        """Yield a function from the sources of a shard to its one result."""
        yield lambda sources: iter([self.read(sources)])

    def read(self, sources: Sequence[str]) -> Shard:
        """Read the documents; one that can't be read is left out with a note."""
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
    """Divide the documents of a corpus into shards."""
    return [sources[start : start + DOCUMENTS] for start in range(0, len(sources), DOCUMENTS)]
