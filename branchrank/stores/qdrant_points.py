"""The contents of a Qdrant collection, embedded or on a server: points, sparse weights, filters.

1. A point's id is the UUID5 of its key, so a chunk has the same point id in every collection.
2. A point has a named vector ``dense`` (cosine) and, in a hybrid collection, a named sparse vector ``sparse``
   with Qdrant's BM25 term weights. Qdrant computes the IDF over the collection.
3. If the index keeps token vectors, a point has the multivector ``tokens``, compared by Qdrant's MaxSim: the
   sum over the query's tokens of the best cosine. BranchRank's is the mean, so it is divided by their number.
4. A point's payload contains its key under ``key`` and the metadata that filters can use.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from branchrank.embedders.protocol import Vectors
from branchrank.errors import ArtifactError, MissingDependencyError
from branchrank.printable import encodable
from branchrank.records import Chunk, Record, Scored
from branchrank.stores.indexed_text import chunk_terms

DENSE = "dense"
SPARSE = "sparse"
TOKENS = "tokens"
KEY = "key"
BATCH = 256

#: Maps a field to its value, or to several values of which one must match. All fields must match.
Filters = Mapping[str, str | int | Sequence[str] | Sequence[int]]

_NAMESPACE = uuid.UUID("6f3c2a52-60b1-5d55-8f0e-7a1b2f9d4c11")


class SparseWeights(NamedTuple):
    """A sparse vector: term numbers, and one weight per term."""

    indices: list[int]
    values: list[float]


class Point(Record, frozen=True, kw_only=True):
    """One entry of a collection. ``vector`` has unit length, shape ``(d,)``; ``text`` is for BM25.

    ``tokens`` are the unit rows of the text's tokens, ``(tokens, d)``, if the collection has them.
    """

    key: str
    vector: Vectors
    text: str
    payload: dict[str, str | int]
    tokens: Vectors | None = None


def chunk_points(
    chunks: Sequence[Chunk], vectors: Vectors, tokens: Sequence[Vectors | None] | None = None
) -> list[Point]:
    """A point per chunk; ``vectors`` are their unit rows, ``(len(chunks), d)``, ``tokens`` their tokens'."""
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
    """A collection, embedded or on a server. Every method raises :class:`ArtifactError` if Qdrant fails."""

    @property
    def dimension(self) -> int:
        """Number of components of a dense vector."""

    @property
    def has_sparse(self) -> bool:
        """Whether the collection has sparse vectors."""

    @property
    def token_dimension(self) -> int:
        """Number of components of a token's vector; 0 if the collection has no multivector."""

    def upsert(self, points: Sequence[Point]) -> None:
        """Add points, or replace points with the same key."""

    def delete(self, keys: Sequence[str]) -> None:
        """Remove points; unknown keys are ignored."""

    def count(self) -> int:
        """Number of points."""

    def dense(self, vector: Vectors, n: int, filters: Filters | None = None) -> list[Scored]:
        """The ``n`` nearest points that pass the filters, by cosine; ties by key."""

    def sparse(self, query: SparseWeights, n: int, filters: Filters | None = None) -> list[Scored]:
        """The ``n`` best points that pass the filters and share a term, by BM25; ties by key."""

    def maxsim(self, tokens: Vectors, keys: Sequence[str]) -> dict[str, float]:
        """MaxSim of a query's token vectors ``(tokens, d)`` with points that have tokens, by key."""

    def close(self) -> None:
        """Close files or connections."""


class Bm25Encoder:
    """Qdrant's BM25 term weights (k 1.2, b 0.75, average length 256 tokens), computed in this process.

    At query time, the collection's ``idf`` modifier adds the IDF.
    """

    @cached_property
    def _model(self) -> Any:
        return edge().Bm25()

    def document(self, text: str) -> SparseWeights:
        """Term weights of a text to index."""
        return _weights(self._model.embed_document(encodable(text)))

    def query(self, text: str) -> SparseWeights:
        """Term weights of a query: 1 for each distinct term; empty if all terms are stop words."""
        return _weights(self._model.embed_query(encodable(text)))


def edge() -> Any:
    """Import ``qdrant_edge``. Raises :class:`MissingDependencyError` if it is not installed."""
    try:
        import qdrant_edge
    except ImportError as error:
        raise MissingDependencyError("qdrant-edge-py", extra="qdrant", purpose="Qdrant") from error
    return qdrant_edge


def accepted(value: str | int | Sequence[str] | Sequence[int]) -> list[str] | list[int]:
    """The values that match a filter's field, all strings or all numbers."""
    if isinstance(value, str):
        return [value]
    return [value] if isinstance(value, int) else list(value)  # type: ignore[return-value]


def point_id(key: str) -> str:
    """The id of the point with this key."""
    return str(uuid.uuid5(_NAMESPACE, key))


def ranked_points(points: Sequence[Any]) -> list[Scored]:
    """Convert Qdrant's scored points to a ranked list; :class:`ArtifactError` if a point has no key."""
    try:
        found = [Scored(str(point.payload[KEY]), float(point.score)) for point in points]
    except (KeyError, TypeError) as error:
        raise ArtifactError(
            f"the Qdrant collection holds points without the payload {KEY!r}",
            remedy="name another collection, or delete this one",
        ) from error
    return sorted(found, key=lambda entry: (-entry.score, entry.key))


def mean_of_sums(points: Sequence[Scored], tokens: Vectors) -> dict[str, float]:
    """Qdrant's sums over the query's tokens as means."""
    return {key: score / len(tokens) for key, score in points}


def _weights(vector: Any) -> SparseWeights:
    return SparseWeights(list(vector.indices), list(vector.values))
