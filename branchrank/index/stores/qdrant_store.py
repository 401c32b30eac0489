"""A Qdrant collection, embedded in this process or on a server.

1. An embedded collection is a shard of Qdrant's embedded engine (the package qdrant-edge-py) in a folder. A
   collection on a server is reached through Qdrant's REST interface. Every search is exact, so the embedded
   engine and a server return the same results.
2. A collection of BranchRank has one point per chunk. The id of a point is the UUID5 of the chunk's id, which
   the payload contains in the field ``key``. A point has a vector named ``dense`` (cosine) and, in a hybrid
   collection, a sparse vector named ``sparse`` with Qdrant's BM25 term weights. Qdrant computes the IDF. If
   the index stores token vectors, a point also has a multivector named ``tokens``. Qdrant's MaxSim is a sum
   over the query's tokens, so it is divided by their number.
3. In a collection of another program (:mod:`branchrank.index.stores.qdrant_existing`), the key of a point is
   its id as a string. BranchRank only reads such a collection. Distances (Euclid, Manhattan) are negated, so
   that larger values are better.
4. Points are uploaded to a server in batches, with several requests at the same time. After an interruption,
   points that are already on the server are not sent again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from branchrank.core.errors import ArtifactError
from branchrank.core.io.printable import encodable
from branchrank.core.records import Chunk, Record, Scored
from branchrank.core.settings import QdrantSettings
from branchrank.index.embedders.protocol import Vectors
from branchrank.index.stores.analyzer import chunk_terms
from branchrank.index.stores.qdrant_engines import BATCH, EmbeddedEngine, ServerEngine, edge
from branchrank.index.stores.vectors import check_query, upload_batches

DENSE = "dense"
SPARSE = "sparse"
TOKENS = "tokens"
KEY = "key"
_NO_GRAPH_KB = 1_000_000_000
_DISTANCES = ("Euclid", "Manhattan")
#: Maps payload fields to accepted values. The field :data:`KEY` accepts the keys of points.
Filters = Mapping[str, Sequence[str]]

_NAMESPACE = uuid.UUID("6f3c2a52-60b1-5d55-8f0e-7a1b2f9d4c11")


class SparseWeights(NamedTuple):
    """A sparse vector. ``indices`` are term ids, and ``values`` are the weights of these terms."""

    indices: list[int]
    values: list[float]


class Point(Record, frozen=True, kw_only=True):
    """One point of a collection of BranchRank, with the text that BM25 indexes.

    ``vector`` has unit length and the shape ``(d,)``. If the collection has token vectors, ``tokens``
    contains the unit vectors of the text's tokens, with the shape ``(number of tokens, d)``.
    """

    key: str
    vector: Vectors
    text: str
    payload: dict[str, str | int]
    tokens: Vectors | None = None


class CollectionLayout(NamedTuple):
    """The names, dimensions and metrics of the vectors that are searched.

    ``dense``, ``sparse`` and ``tokens`` are the names of the dense vector, the sparse vector and the
    multivector. A collection without sparse vectors or token vectors has ``None`` there.
    """

    dense: str
    size: int
    metric: str = "Cosine"
    sparse: str | None = None
    tokens: str | None = None
    token_size: int = 0
    token_metric: str = "Cosine"  # noqa: S105  (not a password)


class StoredVectors(NamedTuple):
    """The dense vector, the sparse vector and the token vectors of a point.

    A vector that the point does not have is ``None``. ``tokens`` has the shape ``(number of tokens, d)``.
    """

    dense: Vectors | None = None
    sparse: SparseWeights | None = None
    tokens: Vectors | None = None


def own_layout(dimension: int, *, sparse: bool = True, token_dimension: int = 0) -> CollectionLayout:
    """Return the layout of a collection of BranchRank."""
    tokens = TOKENS if token_dimension else None
    return CollectionLayout(
        DENSE, dimension, sparse=SPARSE if sparse else None, tokens=tokens, token_size=token_dimension
    )


def chunk_point(chunk: Chunk, vector: Vectors, tokens: Vectors | None = None) -> Point:
    """Return the point of a chunk with its unit vector and, if the index has them, its token vectors."""
    payload: dict[str, str | int] = {
        "file_path": chunk.source,
        "node_id": chunk.node_id,
        "line_start": chunk.line_start,
        "line_end": chunk.line_end,
    }
    return Point(key=chunk.id, vector=vector, text=chunk_terms(chunk), payload=payload, tokens=tokens)


class Bm25Encoder:
    """Computes Qdrant's BM25 term weights in this process (k1 = 1.2, b = 0.75, average length 256 tokens).

    The weights do not include the IDF, because Qdrant multiplies the weights by the IDF when it answers a
    query.
    """

    @cached_property
    def _model(self) -> Any:
        return edge().Bm25()

    def document(self, text: str) -> SparseWeights:
        """Return the BM25 weights of the terms in a text, for the sparse vector of a point."""
        found = self._model.embed_document(encodable(text))
        return SparseWeights(list(found.indices), list(found.values))

    def query(self, text: str) -> SparseWeights:
        """Return a sparse vector in which every distinct query term, except stop words, has weight 1."""
        found = self._model.embed_query(encodable(text))
        return SparseWeights(list(found.indices), list(found.values))


class QdrantCollection:
    """A collection that several threads can search at once. A method that fails raises ArtifactError.

    ``is_own`` is true for a collection that BranchRank created.
    """

    def __init__(
        self, engine: EmbeddedEngine | ServerEngine, layout: CollectionLayout, is_own: bool = False
    ) -> None:
        self.place = engine.place
        self.layout = layout
        self._engine = engine
        self._is_own = is_own
        self._encoder = Bm25Encoder()
        #: The ids of the points of another program's collection, by key.
        self._ids: dict[str, Any] = {}

    def count(self) -> int:
        """Return the number of points."""
        with self._engine.failures():
            return self._engine.count()

    def dense(self, vector: Vectors, n: int, filters: Filters | None = None) -> list[Scored]:
        """Return the ``n`` points whose dense vectors are nearest to ``vector``, with ties sorted by key."""
        check_query(vector, self.layout.size)
        found = self._query(vector.tolist(), self.layout.dense, n, filters)
        if self.layout.metric in _DISTANCES:
            found = sorted((Scored(key, -score) for key, score in found), key=_rank)
        return found

    def sparse(self, query: SparseWeights, n: int, filters: Filters | None = None) -> list[Scored]:
        """Return the ``n`` points with the best sparse scores, with ties sorted by key.

        Points that contain no term of the query are not returned.
        """
        if self.layout.sparse is None or not query.indices:
            return []
        vector = self._engine.models.SparseVector(indices=query.indices, values=query.values)
        return self._query(vector, self.layout.sparse, n, filters)

    def maxsim(self, tokens: Vectors, keys: Sequence[str]) -> dict[str, float]:
        """Return the MaxSim of each point in ``keys`` that has token vectors, best first.

        ``tokens`` contains the query's token vectors, with the shape ``(number of tokens, d)``.
        """
        if self.layout.tokens is None or not keys or not len(tokens):
            return {}
        found = self._query(tokens.tolist(), self.layout.tokens, len(keys), {KEY: keys})
        return {key: score / len(tokens) for key, score in found}

    def _query(self, vector: Any, using: str, n: int, filters: Filters | None) -> list[Scored]:
        engine, models = self._engine, self._engine.models
        conditions = [
            engine.with_ids([self._id(key) for key in values])
            if field == KEY
            else models.FieldCondition(key=field, match=models.MatchAny(any=list(values)))
            for field, values in (filters or {}).items()
        ]
        passing = models.Filter(must=conditions) if conditions else None
        with engine.failures():
            points = engine.query(vector, using, n, passing, [KEY] if self._is_own else [])
            found = [
                Scored(str(point.payload[KEY] if self._is_own else point.id), float(point.score))
                for point in points
            ]
        return sorted(found, key=_rank)

    def fill(self, keys: Sequence[str], points: Callable[[Sequence[int]], Sequence[Point]]) -> None:
        """Add the points with the keys ``keys``, except points that the collection already contains.

        ``points(rows)`` must return the point with the key ``keys[row]`` for each ``row`` in ``rows``. If a
        batch fails, its error is raised, and batches that have not started are not sent.
        """

        def send(rows: range) -> None:
            ids = {point_id(keys[row]): row for row in rows}
            with self._engine.failures():
                held = {str(point.id) for point in self._engine.retrieve(list(ids), False)}
            missing = [row for key, row in ids.items() if key not in held]
            if missing:
                self.upsert(points(missing))

        upload_batches(send, len(keys), BATCH, self._engine.uploads)

    def upsert(self, points: Sequence[Point]) -> None:
        """Add points, or replace points with the same key."""
        with self._engine.failures():
            self._engine.upsert(
                [
                    (point_id(point.key), self._vector(point), {**point.payload, KEY: point.key})
                    for point in points
                ]
            )

    def _vector(self, point: Point) -> dict[str, Any]:
        vector: dict[str, Any] = {DENSE: point.vector.tolist()}
        if self.layout.sparse:
            weights = self._encoder.document(point.text)
            vector[SPARSE] = self._engine.models.SparseVector(indices=weights.indices, values=weights.values)
        if self.layout.tokens and point.tokens is not None and len(point.tokens):
            vector[TOKENS] = point.tokens.tolist()
        return vector

    def payloads(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the key and the payload of every point of another program's collection."""
        offset = None
        while True:
            with self._engine.failures():
                points, offset = self._engine.scroll(offset)
            for point in points:
                self._ids[str(point.id)] = point.id
                yield str(point.id), point.payload or {}
            if offset is None or not points:
                return

    def vectors(self, keys: Sequence[str]) -> list[StoredVectors]:
        """Return the vectors of the points whose keys are in ``keys``, in the order of ``keys``."""
        with self._engine.failures():
            points = self._engine.retrieve([self._id(key) for key in keys], True)
        found = {str(point.id): stored_vectors(point.vector, self.layout) for point in points}
        return [found.get(key, StoredVectors()) for key in keys]

    def close(self) -> None:
        """Close the collection's files or connections."""
        with self._engine.failures():
            self._engine.close()

    def _id(self, key: str) -> Any:
        return point_id(key) if self._is_own else self._ids[key]


def _rank(entry: Scored) -> tuple[float, str]:
    return -entry.score, entry.key


def embedded_collection(directory: Path, layout: CollectionLayout) -> QdrantCollection:
    """Create an empty collection of BranchRank in a new or empty directory."""
    place = f"the Qdrant collection in {directory}"
    engine = EmbeddedEngine(new_shard(directory, layout), place, "run the command again")
    return QdrantCollection(engine, layout, is_own=True)


def new_shard(directory: Path, layout: CollectionLayout) -> Any:
    """Create a shard of Qdrant's embedded engine. Raises ArtifactError if the directory is not empty."""
    qdrant = edge()
    distance = qdrant.Distance
    vectors = {
        layout.dense: qdrant.EdgeVectorParams(size=layout.size, distance=getattr(distance, layout.metric))
    }
    if layout.tokens is not None:
        vectors[layout.tokens] = qdrant.EdgeVectorParams(
            size=layout.token_size,
            distance=getattr(distance, layout.token_metric),
            multivector_config=qdrant.MultiVectorConfig(qdrant.MultiVectorComparator.MaxSim),
        )
    sparse = qdrant.EdgeSparseVectorParams(modifier=qdrant.Modifier.Idf)
    config = qdrant.EdgeConfig(
        vectors=vectors,
        sparse_vectors={} if layout.sparse is None else {layout.sparse: sparse},
        optimizers=qdrant.EdgeOptimizersConfig(indexing_threshold=_NO_GRAPH_KB),
        wal_enabled=False,
    )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return qdrant.EdgeShard.create(str(directory), config)
    except Exception as error:
        raise ArtifactError(
            f"cannot create a Qdrant collection in {directory}: {error}", remedy="use an empty directory"
        ) from error


def served_collection(name: str, layout: CollectionLayout, settings: QdrantSettings) -> QdrantCollection:
    """Open the collection ``name`` of BranchRank on a server, and create the collection if it is missing."""
    engine = ServerEngine(settings.url, name)
    try:
        with engine.failures():
            if not engine.client.collection_exists(name):
                _create_on_server(engine, layout, settings)
            elif not engine.client.get_collection(name).config.params.sparse_vectors:
                layout = layout._replace(sparse=None)
    except BaseException:
        engine.close()
        raise
    return QdrantCollection(engine, layout, is_own=True)


def _create_on_server(engine: ServerEngine, layout: CollectionLayout, settings: QdrantSettings) -> None:
    models = engine.models
    common = {"distance": models.Distance.COSINE, "on_disk": settings.on_disk or None}
    vectors = {DENSE: models.VectorParams(size=layout.size, **common)}
    if layout.tokens:
        vectors[TOKENS] = models.VectorParams(
            size=layout.token_size,
            multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM),
            # The multivector has no search graph, because MaxSim is computed only for candidates.
            hnsw_config=models.HnswConfigDiff(m=0),
            **common,
        )
    sparse = {SPARSE: models.SparseVectorParams(modifier=models.Modifier.IDF)}
    engine.client.create_collection(
        engine.name,
        vectors_config=vectors,
        sparse_vectors_config=sparse if layout.sparse else None,
        shard_number=settings.shards or None,
        replication_factor=settings.replication_factor or None,
        write_consistency_factor=settings.write_consistency or None,
    )


def stored_vectors(vector: Any, layout: CollectionLayout) -> StoredVectors:
    """Convert a point's vectors from any of Qdrant's types to :class:`StoredVectors`."""
    named = vector if isinstance(vector, Mapping) else {"": vector}
    dense = named.get(layout.dense)
    sparse = None if layout.sparse is None else named.get(layout.sparse)
    tokens = None if layout.tokens is None else named.get(layout.tokens)
    if isinstance(sparse, Mapping):
        sparse = SparseWeights(sparse["indices"], sparse["values"])
    return StoredVectors(
        None if dense is None else np.asarray(dense, dtype=np.float32),
        None if sparse is None else SparseWeights(list(sparse.indices), list(sparse.values)),
        None if tokens is None else np.asarray(tokens, dtype=np.float32),
    )


def point_id(key: str) -> str:
    """Return the id of the point with the key ``key`` in a collection of BranchRank."""
    return str(uuid.uuid5(_NAMESPACE, key))
