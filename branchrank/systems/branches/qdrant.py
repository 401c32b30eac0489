"""The branch kinds ``qdrant-dense`` and ``qdrant-sparse``, which search one Qdrant collection.

The collection contains the chunks and vectors of the index. With embedded Qdrant, each engine creates the
collection in a temporary folder on first use. On a server, the collection is named after a digest of its
content and created only once. If ``qdrant.collection`` is set, the user's own collection is searched instead
(see :mod:`branchrank.systems.branches.qdrant_placed`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from branchrank.errors import ArtifactError
from branchrank.index import Index
from branchrank.io.files import digest_of
from branchrank.ranking.maxsim import unit_tokens
from branchrank.settings import QdrantSettings
from branchrank.systems.branches import (
    BranchKind,
    BranchResult,
    Lookup,
    MaxSim,
    Opening,
    Scores,
    Search,
)
from branchrank.systems.branches.qdrant_placed import DENSE_ONLY, check_unit, placed_collection

if TYPE_CHECKING:
    from branchrank.stores.qdrant_points import Filters, Point, QdrantCollection


class QdrantDenseKind(BranchKind):
    """A search for the nearest vectors in the collection by cosine similarity."""

    name = "qdrant-dense"
    units = ("chunk", "span")
    needs_vector = True
    waits = True
    fills = True
    scale = "fixed"
    keeps_tokens = True

    def open(self, opening: Opening) -> Search:
        """Open the collection and return the search function."""
        if opening.settings.part(QdrantSettings).is_existing:
            return placed_collection(opening).dense
        collection = _collection(opening)

        def search(lookup: Lookup) -> BranchResult:
            check_unit(lookup, "chunk")
            vector = lookup.sources.embedding(lookup.query.text)
            return BranchResult(collection.dense(vector, lookup.n, _filters(lookup)))

        return search

    def open_scores(self, opening: Opening) -> Scores:
        """Return a function that scores points by cosine similarity."""
        if opening.settings.part(QdrantSettings).is_existing:
            return placed_collection(opening).dense_scores
        return lambda lookup, keys: lookup.sources.cosines(lookup.query.text, keys)

    def open_maxsim(self, opening: Opening) -> MaxSim | None:
        """Return the collection's MaxSim function, or ``None`` if the collection has no token vectors."""
        return _maxsim(opening)


class QdrantSparseKind(BranchKind):
    """A search with Qdrant's BM25. A collection without sparse vectors gives no results, only a notice."""

    name = "qdrant-sparse"
    units = ("chunk", "span")
    waits = True
    scale = "open"
    keeps_tokens = True

    def open(self, opening: Opening) -> Search:
        """Open the collection and return the search function."""
        from branchrank.stores.qdrant_points import Bm25Encoder

        if opening.settings.part(QdrantSettings).is_existing:
            return placed_collection(opening).sparse
        collection = _collection(opening)
        encoder = Bm25Encoder()

        def search(lookup: Lookup) -> BranchResult:
            check_unit(lookup, "chunk")
            if not collection.has_sparse:
                return BranchResult([], notices=(DENSE_ONLY,))
            return BranchResult(
                collection.sparse(encoder.query(lookup.query.words), lookup.n, _filters(lookup))
            )

        return search

    def open_scores(self, opening: Opening) -> Scores:
        """Return a function that scores points by their BM25 vectors, if the collection has any."""
        from branchrank.stores.qdrant_points import KEY, Bm25Encoder

        if opening.settings.part(QdrantSettings).is_existing:
            return placed_collection(opening).sparse_scores
        collection = _collection(opening)
        encoder = Bm25Encoder()

        def scores(lookup: Lookup, keys: Sequence[str]) -> Mapping[str, float]:
            return dict(collection.sparse(encoder.query(lookup.query.words), len(keys), {KEY: keys}))

        return scores

    def open_maxsim(self, opening: Opening) -> MaxSim | None:
        """Return the collection's MaxSim function, or ``None`` if the collection has no token vectors."""
        return _maxsim(opening)


def _maxsim(opening: Opening) -> MaxSim | None:
    """Return the collection's MaxSim function, or ``None`` if the collection has no token vectors."""
    if opening.settings.part(QdrantSettings).is_existing:
        placed = placed_collection(opening)
        return placed.maxsim if placed.has_tokens else None
    collection = _collection(opening)
    return collection.maxsim if collection.token_dimension else None


QDRANT_DENSE = QdrantDenseKind()
QDRANT_SPARSE = QdrantSparseKind()


def _filters(lookup: Lookup) -> Filters | None:
    """Return a Qdrant filter for the documents that pass the query's filters."""
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
            f"the Qdrant collection contains only {collection.count()} of {len(index.chunks)} chunks",
            remedy="read the log of the Qdrant server and run the command again",
        )
    return collection


def _embedded(opening: Opening, settings: QdrantSettings) -> QdrantCollection:
    from branchrank.stores.qdrant_embedded import EmbeddedCollection

    folder = opening.resources.enter_context(tempfile.TemporaryDirectory(prefix="branchrank-"))
    index = opening.index
    collection = EmbeddedCollection.create(
        Path(folder) / "qdrant",
        index.manifest.embedder.dimension,
        enable_hybrid=settings.enable_hybrid,
        token_dimension=_token_dimension(index),
    )
    collection.upsert(_points(index, range(len(index.chunks))))
    return collection


def _served(index: Index, settings: QdrantSettings) -> QdrantCollection:
    """Open the collection on the server, and add missing points."""
    from branchrank.stores.qdrant_server import ServerCollection, Storage

    storage = Storage(
        settings.shards, settings.replication_factor, settings.write_consistency, settings.on_disk
    )
    content: list[object] = [index.manifest, settings.enable_hybrid]
    if storage != Storage():
        content.append(storage)
    name = f"branchrank-{digest_of(content)[:32]}"
    try:
        collection = ServerCollection(settings.url, name)
    except ArtifactError:
        collection = ServerCollection.create(
            settings.url,
            name,
            index.manifest.embedder.dimension,
            enable_hybrid=settings.enable_hybrid,
            token_dimension=_token_dimension(index),
            storage=storage,
        )
    try:
        if collection.count() < len(index.chunks):
            collection.fill(tuple(index.chunks), partial(_points, index))
    except BaseException:
        collection.close()
        raise
    return collection


def _token_dimension(index: Index) -> int:
    return index.token_vectors.dimension if index.token_vectors is not None else 0


def _points(index: Index, rows: Sequence[int]) -> list[Point]:
    """Return the points for the chunks in these rows of the index."""
    from branchrank.stores.qdrant_points import chunk_points

    store, kept = index.exact_vectors, index.token_vectors
    chunks = [index.chunks[store.ids[row]] for row in rows]
    vectors = np.array([store.vector(chunk.id) for chunk in chunks], dtype=np.float32)
    tokens = None if kept is None else [unit_tokens(kept.vectors(chunk.id)) for chunk in chunks]
    return chunk_points(chunks, vectors, tokens)
