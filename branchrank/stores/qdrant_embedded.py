"""A Qdrant collection in this process, without a server.

1. The collection is a directory that contains a shard of Qdrant's embedded engine (the package
   qdrant-edge-py). Searches are exact, so two builds return the same results. The script
   ``benchmarks/qdrant_hybrid.py`` measures how long searches take.
2. The write-ahead log is turned off, because only one process at a time can open a shard with a write-ahead
   log. Each change is flushed to disk.
3. Opening a shard changes its files, so the files can't be verified with a digest. If verified data is
   needed, the collection must be built again from the verified vectors of an index
   (:func:`branchrank.stores.qdrant_points.chunk_points`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from branchrank.embedders.protocol import Vectors
from branchrank.errors import ArtifactError
from branchrank.io.files import NOT_JSON
from branchrank.records import Scored
from branchrank.stores.qdrant_points import (
    DENSE,
    KEY,
    SPARSE,
    TOKENS,
    Bm25Encoder,
    Filters,
    Point,
    SparseWeights,
    accepted,
    edge,
    mean_of_sums,
    point_id,
    ranked_points,
)
from branchrank.stores.vectors import check_query

_NO_GRAPH_KB = 1_000_000_000


class _VectorConfig(msgspec.Struct):
    size: int


class _ShardConfig(msgspec.Struct):
    vectors: dict[str, _VectorConfig]
    sparse_vectors: dict[str, object] = {}


class EmbeddedCollection:
    """An embedded Qdrant collection in a directory. Several threads can use the collection at once."""

    def __init__(self, directory: Path) -> None:
        """Open the collection in ``directory``.

        Raises :class:`ArtifactError` if the directory does not contain a collection with dense vectors.
        """
        qdrant = edge()
        self._directory = directory
        try:
            config = msgspec.json.decode((directory / "edge_config.json").read_bytes(), type=_ShardConfig)
            self.dimension = config.vectors[DENSE].size
            self.token_dimension = config.vectors[TOKENS].size if TOKENS in config.vectors else 0
        except (OSError, KeyError, *NOT_JSON) as error:
            raise self._failure(f"does not contain a collection with dense vectors ({error})") from error
        self.has_sparse = SPARSE in config.sparse_vectors
        self._encoder = Bm25Encoder()
        with self._failures():
            self._shard: Any = qdrant.EdgeShard.load(str(directory))

    @classmethod
    def create(
        cls, directory: Path, dimension: int, *, enable_hybrid: bool = True, token_dimension: int = 0
    ) -> EmbeddedCollection:
        """Create an empty collection in an empty or new directory.

        The collection has sparse vectors if ``enable_hybrid`` is true, and a multivector for token vectors if
        ``token_dimension`` is not 0. Raises :class:`ArtifactError` if the collection can't be created.
        """
        qdrant = edge()
        directory.mkdir(parents=True, exist_ok=True)
        vectors = {DENSE: qdrant.EdgeVectorParams(size=dimension, distance=qdrant.Distance.Cosine)}
        if token_dimension:
            vectors[TOKENS] = qdrant.EdgeVectorParams(
                size=token_dimension,
                distance=qdrant.Distance.Cosine,
                multivector_config=qdrant.MultiVectorConfig(qdrant.MultiVectorComparator.MaxSim),
            )
        config = qdrant.EdgeConfig(
            vectors=vectors,
            sparse_vectors={SPARSE: qdrant.EdgeSparseVectorParams(modifier=qdrant.Modifier.Idf)}
            if enable_hybrid
            else {},
            optimizers=qdrant.EdgeOptimizersConfig(indexing_threshold=_NO_GRAPH_KB),
            wal_enabled=False,
        )
        try:
            shard = qdrant.EdgeShard.create(str(directory), config)
        except Exception as error:
            raise ArtifactError(
                f"cannot create a Qdrant collection in {directory}: {error}",
                remedy="use an empty directory",
            ) from error
        shard.flush()
        shard.close()
        return cls(directory)

    def upsert(self, points: Sequence[Point]) -> None:
        """Add points, or replace points with the same key, and flush the change to disk."""
        qdrant = edge()
        with self._failures():
            # Send one point per operation, because the engine reorders the points in an operation.
            # The order of the points affects the last digits of sparse scores, and thereby the ranking.
            for point in points:
                self._shard.update(qdrant.UpdateOperation.upsert_points([self._point(point)]))
            self._shard.flush()

    def delete(self, keys: Sequence[str]) -> None:
        """Delete the points whose keys are in ``keys``. Unknown keys are ignored."""
        with self._failures():
            self._shard.update(edge().UpdateOperation.delete_points([point_id(key) for key in keys]))
            self._shard.flush()

    def count(self) -> int:
        """Return the number of points."""
        with self._failures():
            return int(self._shard.count(edge().CountRequest(exact=True)))

    def dense(self, vector: Vectors, n: int, filters: Filters | None = None) -> list[Scored]:
        """Return the ``n`` points with the largest cosines, among the points that pass the filters.

        Ties are sorted by key.
        """
        check_query(vector, self.dimension)
        return self._query(vector.tolist(), DENSE, n, filters)

    def sparse(self, query: SparseWeights, n: int, filters: Filters | None = None) -> list[Scored]:
        """Return the ``n`` points with the best BM25 scores, among the points that pass the filters.

        Ties are sorted by key. Points that contain no term of the query are not returned.
        """
        if not self.has_sparse or not query.indices:
            return []
        return self._query(
            edge().SparseVector(indices=query.indices, values=query.values), SPARSE, n, filters
        )

    def maxsim(self, tokens: Vectors, keys: Sequence[str]) -> dict[str, float]:
        """Return the MaxSim between a query and each point in ``keys``; see :class:`QdrantCollection`."""
        if not keys or not len(tokens):
            return {}
        return mean_of_sums(self._query(tokens.tolist(), TOKENS, len(keys), {KEY: list(keys)}), tokens)

    def close(self) -> None:
        """Flush and close the shard."""
        with self._failures():
            self._shard.close()

    def _query(self, vector: Any, using: str, n: int, filters: Filters | None) -> list[Scored]:
        qdrant = edge()
        request = qdrant.QueryRequest(
            limit=n,
            query=qdrant.Query.Nearest(vector, using=using),
            filter=_filter(qdrant, filters),
            with_payload=[KEY],
            params=qdrant.SearchParams(exact=True),
        )
        with self._failures():
            return ranked_points(self._shard.query(request))

    def _point(self, point: Point) -> Any:
        qdrant = edge()
        vector: dict[str, Any] = {DENSE: point.vector.tolist()}
        if self.has_sparse:
            weights = self._encoder.document(point.text)
            vector[SPARSE] = qdrant.SparseVector(indices=weights.indices, values=weights.values)
        if self.token_dimension and point.tokens is not None and len(point.tokens):
            vector[TOKENS] = point.tokens.tolist()
        return qdrant.Point(id=point_id(point.key), vector=vector, payload={**point.payload, KEY: point.key})

    def _failure(self, reason: str) -> ArtifactError:
        return ArtifactError(
            f"the Qdrant directory {self._directory} {reason}",
            remedy="delete the directory and build it again",
        )

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except ArtifactError:
            raise
        except Exception as error:  # The engine raises plain ``Exception``.
            raise self._failure(f"can't be used: {error}") from error


def _filter(qdrant: Any, filters: Filters | None) -> Any:
    if not filters:
        return None
    conditions = [
        qdrant.FieldCondition(key=field, match=qdrant.MatchAny(accepted(value)))
        for field, value in filters.items()
    ]
    return qdrant.Filter(must=conditions)
