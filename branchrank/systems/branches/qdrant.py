"""``qdrant-dense`` and ``qdrant-sparse``: both searches of one Qdrant collection.

The collection holds the index's chunks and vectors. Embedded, it is made in a temporary folder (about 0.1 ms
a chunk); on a server it is named after its content and made once. An existing collection of the user
(``qdrant.collection``) can be searched instead: see :mod:`branchrank.systems.branches.qdrant_placed`.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from branchrank.artifacts import digest_of
from branchrank.errors import ArtifactError
from branchrank.index import Index
from branchrank.settings import QdrantSettings
from branchrank.systems.branches.protocol import BranchKind, BranchResult, Lookup, Opening, Scores, Search
from branchrank.systems.branches.qdrant_placed import DENSE_ONLY, check_unit, placed_collection

if TYPE_CHECKING:
    from branchrank.stores.qdrant_points import Filters, QdrantCollection


class QdrantDenseKind(BranchKind):
    """Nearest vectors in the collection, by cosine."""

    name = "qdrant-dense"
    units = ("chunk", "span")
    needs_vector = True
    waits = True
    fills = True
    scale = "fixed"

    def open(self, opening: Opening) -> Search:
        """Open the collection, or share the one that is open."""
        if opening.settings.part(QdrantSettings).is_existing:
            return placed_collection(opening).dense
        collection = _collection(opening)

        def search(lookup: Lookup) -> BranchResult:
            check_unit(lookup, "chunk")
            vector = lookup.sources.embedding(lookup.query.text)
            return BranchResult(collection.dense(vector, lookup.n, _filters(lookup)))

        return search

    def open_scores(self, opening: Opening) -> Scores:
        """Score with the index's vectors; an existing collection scores with its own."""
        if opening.settings.part(QdrantSettings).is_existing:
            return placed_collection(opening).dense_scores
        return lambda lookup, keys: lookup.sources.cosines(lookup.query.text, keys)


class QdrantSparseKind(BranchKind):
    """Qdrant's BM25 over the same points; a collection without sparse vectors finds nothing and says so."""

    name = "qdrant-sparse"
    units = ("chunk", "span")
    waits = True
    scale = "open"

    def open(self, opening: Opening) -> Search:
        """Open the collection, or share the one that is open."""
        from branchrank.stores.qdrant_points import Bm25Encoder

        if opening.settings.part(QdrantSettings).is_existing:
            return placed_collection(opening).sparse
        collection = _collection(opening)
        encoder = Bm25Encoder()

        def search(lookup: Lookup) -> BranchResult:
            check_unit(lookup, "chunk")
            if not collection.has_sparse:
                return BranchResult([], notices=(DENSE_ONLY,))
            return BranchResult(collection.sparse(encoder.query(_words(lookup)), lookup.n, _filters(lookup)))

        return search

    def open_scores(self, opening: Opening) -> Scores:
        """Score only the given points by the collection's BM25; no scores without sparse vectors."""
        from branchrank.stores.qdrant_points import KEY, Bm25Encoder

        if opening.settings.part(QdrantSettings).is_existing:
            return placed_collection(opening).sparse_scores
        collection = _collection(opening)
        encoder = Bm25Encoder()

        def scores(lookup: Lookup, keys: Sequence[str]) -> Mapping[str, float]:
            return dict(collection.sparse(encoder.query(_words(lookup)), len(keys), {KEY: keys}))

        return scores


QDRANT_DENSE = QdrantDenseKind()
QDRANT_SPARSE = QdrantSparseKind()


def _words(lookup: Lookup) -> str:
    return lookup.query.keywords.strip() or lookup.query.text


def _filters(lookup: Lookup) -> Filters | None:
    """Return the documents that pass the query's filters; Qdrant ranks only these."""
    if not lookup.query.filters:
        return None
    return {"file_path": sorted(lookup.sources.admitted_sources(lookup.query.filters))}


def _collection(opening: Opening) -> QdrantCollection:
    return opening.shared("qdrant collection", lambda: _opened(opening))


def _opened(opening: Opening) -> QdrantCollection:
    index, settings = opening.index, opening.settings.part(QdrantSettings)
    collection = _served(index, settings) if settings.url else _embedded(opening, settings)
    opening.resources.callback(collection.close)
    if collection.count() != len(index.chunks):
        raise ArtifactError(
            f"the Qdrant collection holds {collection.count()} of {len(index.chunks)} chunks",
            remedy="look at the server's log and run the command again",
        )
    return collection


def _embedded(opening: Opening, settings: QdrantSettings) -> QdrantCollection:
    from branchrank.stores.qdrant_embedded import EmbeddedCollection

    folder = opening.resources.enter_context(tempfile.TemporaryDirectory(prefix="branchrank-"))
    dimension = opening.index.manifest.embedder.dimension
    collection = EmbeddedCollection.create(
        Path(folder) / "qdrant", dimension, enable_hybrid=settings.enable_hybrid
    )
    _fill(collection, opening.index)
    return collection


def _served(index: Index, settings: QdrantSettings) -> QdrantCollection:
    from branchrank.stores.qdrant_server import ServerCollection

    name = f"branchrank-{digest_of([index.manifest, settings.enable_hybrid])[:32]}"
    with contextlib.suppress(ArtifactError):
        held = ServerCollection(settings.url, name)
        if held.count() == len(index.chunks):
            return held
        held.close()
    made = ServerCollection.create(
        settings.url, name, index.manifest.embedder.dimension, enable_hybrid=settings.enable_hybrid
    )
    _fill(made, index)
    return made


def _fill(collection: QdrantCollection, index: Index) -> None:
    from branchrank.stores.qdrant_points import chunk_points

    store = index.exact_vectors
    chunks = list(index.chunks.values())
    vectors = np.array([store.vector(chunk.id) for chunk in chunks], dtype=np.float32)
    collection.upsert(chunk_points(chunks, vectors))
