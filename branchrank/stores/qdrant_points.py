"""Points with vectors and metadata, and the interface of the Qdrant collections that store them.

1. The id of a point is the UUID5 of its key, so a chunk has the same point id in every collection.
2. A point has a vector named ``dense`` (with the cosine metric). In a hybrid collection, a point also has a
   sparse vector named ``sparse`` with Qdrant's BM25 term weights. Qdrant computes the IDF from the points of
   the collection.
3. If the index stores token vectors, a point has a multivector named ``tokens``. Qdrant's MaxSim is the sum
   of each query token's largest cosine with a token of the point. BranchRank's MaxSim is a mean, so Qdrant's
   sum is divided by the number of query tokens.
4. The payload of a point contains its key in the ``key`` field, and the metadata for filters.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from branchrank.embedders.protocol import Vectors
from branchrank.errors import ArtifactError, MissingDependencyError
from branchrank.io.printable import encodable
from branchrank.records import Chunk, Record, Scored
from branchrank.stores.indexed_text import chunk_terms

DENSE = "dense"
SPARSE = "sparse"
TOKENS = "tokens"
KEY = "key"
BATCH = 256

#: Maps payload fields to accepted values. A point passes the filters if every listed field has an accepted
#: value.
Filters = Mapping[str, str | int | Sequence[str] | Sequence[int]]

_NAMESPACE = uuid.UUID("6f3c2a52-60b1-5d55-8f0e-7a1b2f9d4c11")


class SparseWeights(NamedTuple):
    """A sparse vector. ``indices`` are term ids, and ``values`` are the weights of these terms."""

    indices: list[int]
    values: list[float]


class Point(Record, frozen=True, kw_only=True):
    """One point of a Qdrant collection, with the text that BM25 indexes.

    ``vector`` has unit length and the shape ``(d,)``. If the collection has token vectors, ``tokens``
    contains the unit vectors of the text's tokens, with the shape ``(number of tokens, d)``.
    """

    key: str
    vector: Vectors
    text: str
    payload: dict[str, str | int]
    tokens: Vectors | None = None


def chunk_points(
    chunks: Sequence[Chunk], vectors: Vectors, tokens: Sequence[Vectors | None] | None = None
) -> list[Point]:
    """Return one point per chunk.

    ``vectors`` contains the unit vectors of the chunks, with the shape ``(len(chunks), d)``. If the
    collection has token vectors, ``tokens`` contains the token vectors of each chunk.
    """
    return [
        Point(
            key=chunk.id,
            vector=vector,
            text=chunk_terms(chunk),
            payload={
                "file_path": chunk.source,
                "node_id": chunk.node_id,
                "line_start": chunk.line_start,
                "line_end": chunk.line_end,
            },
            tokens=own,
        )
        for chunk, vector, own in zip(chunks, vectors, tokens or [None] * len(chunks), strict=True)
    ]


class QdrantCollection(Protocol):
    """A Qdrant collection that BranchRank created, either embedded or on a server.

    Every method raises :class:`ArtifactError` if Qdrant fails.
    """

    @property
    def dimension(self) -> int:
        """The dimension of the dense vectors."""

    @property
    def has_sparse(self) -> bool:
        """Whether the collection has sparse vectors."""

    @property
    def token_dimension(self) -> int:
        """The dimension of the token vectors, or 0 if the collection has no multivector."""

    def upsert(self, points: Sequence[Point]) -> None:
        """Add points, or replace points with the same key."""

    def delete(self, keys: Sequence[str]) -> None:
        """Delete the points whose keys are in ``keys``. Unknown keys are ignored."""

    def count(self) -> int:
        """Return the number of points."""

    def dense(self, vector: Vectors, n: int, filters: Filters | None = None) -> list[Scored]:
        """Return the ``n`` points with the largest cosines, among the points that pass the filters.

        Ties are sorted by key.
        """

    def sparse(self, query: SparseWeights, n: int, filters: Filters | None = None) -> list[Scored]:
        """Return the ``n`` points with the best BM25 scores, among the points that pass the filters.

        Ties are sorted by key. Points that contain no term of the query are not returned.
        """

    def maxsim(self, tokens: Vectors, keys: Sequence[str]) -> dict[str, float]:
        """Return the MaxSim between a query and each point in ``keys``, as a dict from keys to scores.

        ``tokens`` contains the query's token vectors, with the shape ``(number of tokens, d)``. Points
        without token vectors are omitted.
        """

    def close(self) -> None:
        """Close the collection's files or connections."""


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
        return _weights(self._model.embed_document(encodable(text)))

    def query(self, text: str) -> SparseWeights:
        """Return a sparse vector in which every distinct query term, except stop words, has weight 1."""
        return _weights(self._model.embed_query(encodable(text)))


def edge() -> Any:
    """Import and return ``qdrant_edge``.

    Raises :class:`MissingDependencyError` if ``qdrant-edge-py`` is not installed.
    """
    try:
        import qdrant_edge
    except ImportError as error:
        raise MissingDependencyError("qdrant-edge-py", extra="qdrant", purpose="Qdrant") from error
    return qdrant_edge


def accepted(value: str | int | Sequence[str] | Sequence[int]) -> list[str] | list[int]:
    """Return a filter's accepted value or values for a field, as a list."""
    if isinstance(value, str):
        return [value]
    return [value] if isinstance(value, int) else list(value)  # type: ignore[return-value]


def point_id(key: str) -> str:
    """Return the id of the point with the key ``key``."""
    return str(uuid.uuid5(_NAMESPACE, key))


def ranked_points(points: Sequence[Any]) -> list[Scored]:
    """Return Qdrant's scored points as a ranked list.

    Raises :class:`ArtifactError` if a point has no key in its payload.
    """
    try:
        found = [Scored(str(point.payload[KEY]), float(point.score)) for point in points]
    except (KeyError, TypeError) as error:
        raise ArtifactError(
            f"the Qdrant collection contains points without the field {KEY!r} in their payload",
            remedy="delete the collection and build it again, or use another collection",
        ) from error
    return sorted(found, key=lambda entry: (-entry.score, entry.key))


def mean_of_sums(points: Sequence[Scored], tokens: Vectors) -> dict[str, float]:
    """Return the mean MaxSim of each point by key, computed from Qdrant's sums over the query's tokens."""
    return {key: score / len(tokens) for key, score in points}


def _weights(vector: Any) -> SparseWeights:
    return SparseWeights(list(vector.indices), list(vector.values))
