"""What a Qdrant collection holds, embedded or on a server: points, sparse weights, filters.

1. A point's id is the UUID5 of its key, so that the same chunk is the same point everywhere.
2. It has a named vector ``dense`` (cosine) and, in a hybrid collection, a named sparse vector ``sparse``
   with Qdrant's BM25 term weights; the IDF is Qdrant's own, over the collection.
3. Its payload holds the key under ``key`` and the metadata that filters can name.
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
KEY = "key"
BATCH = 256

#: A field's value, or several of which any counts. All fields of a filter must match.
Filters = Mapping[str, str | int | Sequence[str] | Sequence[int]]

_NAMESPACE = uuid.UUID("6f3c2a52-60b1-5d55-8f0e-7a1b2f9d4c11")


class SparseWeights(NamedTuple):
    """A sparse vector: term numbers and their weights, as many of each."""

    indices: list[int]
    values: list[float]


class Point(Record, frozen=True, kw_only=True):
    """One entry of a collection. ``vector`` has unit length, shape ``(d,)``; ``text`` is for BM25."""

    key: str
    vector: Vectors
    text: str
    payload: dict[str, str | int]


def chunk_points(chunks: Sequence[Chunk], vectors: Vectors) -> list[Point]:
    """A point per chunk; ``vectors`` are their unit rows, ``(len(chunks), d)``."""
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
        )
        for chunk, vector in zip(chunks, vectors, strict=True)
    ]


class QdrantCollection(Protocol):
    """A collection, wherever it is. Every method raises :class:`ArtifactError` when Qdrant fails."""

    @property
    def dimension(self) -> int:
        """Number of components of a dense vector."""

    @property
    def has_sparse(self) -> bool:
        """Whether the collection was made with sparse vectors."""

    def upsert(self, points: Sequence[Point]) -> None:
        """Add points, or replace those of the same key."""

    def delete(self, keys: Sequence[str]) -> None:
        """Remove points; unknown keys are ignored."""

    def count(self) -> int:
        """Number of points."""

    def dense(self, vector: Vectors, n: int, filters: Filters | None = None) -> list[Scored]:
        """The ``n`` nearest points that pass the filters, by cosine; ties by key."""

    def sparse(self, query: SparseWeights, n: int, filters: Filters | None = None) -> list[Scored]:
        """The ``n`` best points that pass the filters and share a term, by BM25; ties by key."""

    def close(self) -> None:
        """Release files or connections."""


class Bm25Encoder:
    """Qdrant's BM25 term weights (k 1.2, b 0.75, average length 256 tokens), computed in process.

    The collection's ``idf`` modifier supplies the rest of BM25 at query time.
    """

    @cached_property
    def _model(self) -> Any:
        return edge().Bm25()

    def document(self, text: str) -> SparseWeights:
        """Term weights of a text to be searched."""
        return _weights(self._model.embed_document(encodable(text)))

    def query(self, text: str) -> SparseWeights:
        """Term weights of a query: 1 for each distinct term; empty when all are stop words."""
        return _weights(self._model.embed_query(encodable(text)))


def edge() -> Any:
    """The module ``qdrant_edge``. Raises :class:`MissingDependencyError`."""
    try:
        import qdrant_edge
    except ImportError as error:
        raise MissingDependencyError("qdrant-edge-py", extra="qdrant", purpose="Qdrant") from error
    return qdrant_edge


def accepted(value: str | int | Sequence[str] | Sequence[int]) -> list[str] | list[int]:
    """The values that a filter's field may have, all strings or all numbers."""
    if isinstance(value, str):
        return [value]
    return [value] if isinstance(value, int) else list(value)  # type: ignore[return-value]


def point_id(key: str) -> str:
    """The id of a key's point."""
    return str(uuid.uuid5(_NAMESPACE, key))


def ranked_points(points: Sequence[Any]) -> list[Scored]:
    """Qdrant's scored points as a ranked list. Raises :class:`ArtifactError` for points that aren't ours."""
    try:
        found = [Scored(str(point.payload[KEY]), float(point.score)) for point in points]
    except (KeyError, TypeError) as error:
        raise ArtifactError(
            f"the Qdrant collection holds points without the payload {KEY!r}",
            remedy="name another collection, or delete this one",
        ) from error
    return sorted(found, key=lambda entry: (-entry.score, entry.key))


def _weights(vector: Any) -> SparseWeights:
    return SparseWeights(list(vector.indices), list(vector.values))
