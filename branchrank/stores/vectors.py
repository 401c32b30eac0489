"""The protocol of vector stores. There are two kinds: exact search in NumPy, and Chroma.

1. Every vector has unit length, so the score is the cosine similarity, in -1..1, and the squared L2
   distance is ``2 - 2 * score``.
2. Every store returns exactly the same scores for the same ids: an approximate store only selects
   candidates, whose scores are computed from the vectors themselves.
3. Ties break by id ascending. If ``n`` is larger than the store, everything is returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from branchrank.embedders.protocol import Vectors
from branchrank.errors import ArtifactError
from branchrank.records import Scored

#: Up to this many vectors, ``auto`` uses exact search. It is faster than Chroma with a recall of .999 up to
#: at least 60,000 vectors of 384 dimensions (``benchmarks/vector_crossover.py``), and needs no import.
EXACT_UP_TO = 50_000
LARGEST_DISTANCE = 4.0


class VectorStore(Protocol):
    """Finds the nearest vectors in a fixed set of unit vectors."""

    @property
    def ids(self) -> Sequence[str]:
        """The ids, in the order of the corpus."""

    def search(self, vector: Vectors, n: int) -> list[Scored]:
        """The ``n`` vectors nearest to a unit vector of shape ``(d,)``, best first.

        Raises :class:`ArtifactError` if the vector's dimension differs from the index's, or if the store
        returns unknown ids.
        """

    def scores(self, vector: Vectors, keys: Sequence[str]) -> NDArray[np.float64]:
        """The scores of some ids, the same as from ``search``, shape ``(len(keys),)``.

        Raises ``KeyError`` for an unknown id.
        """

    def vector(self, key: str) -> Vectors:
        """The stored vector of an id: float32, shape ``(d,)``. Raises ``KeyError`` for an unknown id."""

    def close(self) -> None:
        """Close files and connections. The store can't be used afterwards."""


def squared_distance(similarity: float) -> float:
    """Squared L2 distance, in 0..4, of unit vectors with this cosine similarity."""
    return max(0.0, 2.0 - 2.0 * similarity)


def check_query(vector: Vectors, dimension: int) -> None:
    """Raise :class:`ArtifactError` unless ``vector`` has shape ``(dimension,)``."""
    if vector.shape != (dimension,):
        raise ArtifactError(
            f"the query has shape {vector.shape}, but the index has vectors of dimension {dimension}",
            remedy="use the embedder of the index (--embedder), or rebuild it: branchrank index",
        )


def recall_against_exact(store: VectorStore, exact: VectorStore, queries: Iterable[Vectors], n: int) -> float:
    """The mean share of the exact top ``n`` that ``store`` finds, in 0..1; 1 if there is nothing to find."""
    shares = []
    for query in queries:
        expected = {entry.key for entry in exact.search(query, n)}
        found = {entry.key for entry in store.search(query, n)}
        shares.append(len(expected & found) / len(expected) if expected else 1.0)
    return sum(shares) / len(shares) if shares else 1.0
