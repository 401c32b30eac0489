"""The interface of the two vector stores, which search exactly with NumPy or approximately with Chroma.

1. Every vector has unit length. The score of a vector is its cosine similarity to the query, from -1 to 1.
   The squared L2 distance is ``2 - 2 * score``.
2. The two stores return exactly the same scores for the same ids. Chroma only selects candidates, and
   BranchRank computes the scores of the candidates from the vectors of the index.
3. Results with the same score are sorted by id. If a search requests more results than there are vectors, all
   vectors are returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from branchrank.embedders.protocol import Vectors
from branchrank.errors import ArtifactError
from branchrank.records import Scored

#: The maximum number of vectors for which ``--vector-store auto`` uses exact search. In
#: ``benchmarks/scale.py``, exact search of 100,000 vectors was still faster than Chroma.
EXACT_UP_TO = 100_000
LARGEST_DISTANCE = 4.0


class VectorStore(Protocol):
    """Finds the nearest vectors in a fixed set of unit vectors."""

    @property
    def ids(self) -> Sequence[str]:
        """The ids of all vectors, in the order of the corpus."""

    def search(self, vector: Vectors, n: int) -> list[Scored]:
        """Return the ``n`` vectors nearest to a unit vector of shape ``(d,)``, best first.

        Raises :class:`ArtifactError` if ``vector`` does not have the dimension of the index, or if Chroma
        returns unknown ids.
        """

    def scores(self, vector: Vectors, keys: Sequence[str]) -> NDArray[np.float64]:
        """Return the scores of the vectors with the ids ``keys``, in an array of shape ``(len(keys),)``.

        The scores are the same as the scores that :meth:`search` returns.

        Raises ``KeyError`` for an unknown id.
        """

    def vector(self, key: str) -> Vectors:
        """Return the vector with the id ``key``, as a float32 array of shape ``(d,)``.

        Raises ``KeyError`` for an unknown id.
        """

    def close(self) -> None:
        """Close files and connections. The store can't be used afterwards."""


def squared_distance(similarity: float) -> float:
    """Return the squared L2 distance (0 to 4) between two unit vectors with the cosine ``similarity``."""
    return max(0.0, 2.0 - 2.0 * similarity)


def check_query(vector: Vectors, dimension: int) -> None:
    """Raise :class:`ArtifactError` if ``vector`` does not have the shape ``(dimension,)``."""
    if vector.shape != (dimension,):
        raise ArtifactError(
            f"the query vector has the shape {vector.shape}, but the index has the dimension {dimension}",
            remedy="use the embedder of the index (--embedder), or rebuild the index: branchrank index",
        )


def recall_against_exact(store: VectorStore, exact: VectorStore, queries: Iterable[Vectors], n: int) -> float:
    """Return the mean recall (0 to 1) of the top ``n`` results from ``store``, compared with exact search.

    The recall for a query is the share of the exact top ``n`` results that ``store`` also returns. If there
    are no queries or no vectors, the mean recall is 1.
    """
    shares = []
    for query in queries:
        expected = {entry.key for entry in exact.search(query, n)}
        found = {entry.key for entry in store.search(query, n)}
        shares.append(len(expected & found) / len(expected) if expected else 1.0)
    return sum(shares) / len(shares) if shares else 1.0


def upload_batches(send: Callable[[range], None], count: int, batch: int, uploads: int) -> None:
    """Call ``send`` with the rows of each batch of ``count`` rows, in ``uploads`` threads.

    If a call fails, its error is raised, and batches that have not started are not sent.
    """
    with ThreadPoolExecutor(uploads) as pool:
        sent = [
            pool.submit(send, range(start, min(start + batch, count))) for start in range(0, count, batch)
        ]
        try:
            for each in sent:
                each.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
