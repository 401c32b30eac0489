"""Exact vector search, which compares the query with every row of a memory-mapped file.

1. ``vectors.npy`` contains a float32 array ``(n, d)``, with one row per id. The file is read without pickle.
2. The dot products of the query with all rows are computed on the calling thread, because a matrix-vector
   product on two BLAS threads took up to fifty times longer on a busy machine.
3. All rows whose score is at least the n-th best score minus the rounding error are scored again in float64.
   The n rows with the best float64 scores are returned (see :mod:`branchrank.stores.ordering`). The results
   are bit-for-bit the same for any number of BLAS threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from branchrank.embedders.protocol import Vectors
from branchrank.errors import ArtifactError
from branchrank.io.files import atomic_writer, open_beneath
from branchrank.records import Scored
from branchrank.stores.npy_file import map_npy
from branchrank.stores.ordering import IntArray, best, cosines, scored
from branchrank.stores.strings import Strings
from branchrank.stores.vectors import check_query


def save_vectors(path: Path, matrix: Vectors) -> None:
    """Write ``matrix`` to the file ``path`` atomically, as a float32 array of shape ``(n, d)``.

    Raises :class:`~branchrank.errors.StorageError` if the file can't be written.
    """
    with atomic_writer(path) as stream:
        np.save(stream, np.ascontiguousarray(matrix, dtype=np.float32), allow_pickle=False)


def load_vectors(path: Path, rows: int, dimension: int) -> Vectors:
    """Memory-map the vectors in the file ``path``.

    Raises :class:`ArtifactError` if the file does not contain a float32 array of shape ``(rows, dimension)``.
    """
    remedy = "rebuild the index: branchrank index"
    matrix: Vectors
    try:
        with open_beneath(path.parent, path.name) as stream:
            matrix = map_npy(stream)
    except (OSError, ValueError) as error:
        raise ArtifactError(f"cannot read the vectors {path}: {error}", remedy=remedy) from error
    if matrix.dtype != np.float32 or matrix.shape != (rows, dimension):
        raise ArtifactError(
            f"{path} contains {matrix.dtype} {matrix.shape}, but the index needs float32 {(rows, dimension)}",
            remedy=remedy,
        )
    return matrix


class ExactVectors:
    """The vector store with exact search, which compares the query with every vector."""

    def __init__(self, ids: Sequence[str], matrix: Vectors) -> None:
        """``matrix`` is a float32 array ``(len(ids), d)`` with rows of unit length. Ids must be distinct."""
        if len(ids) != len(matrix):
            raise ArtifactError(
                f"the index has {len(ids)} ids, but {len(matrix)} vectors",
                remedy="rebuild the index: branchrank index",
            )
        self._ids = Strings.of(ids)
        self.matrix = np.asarray(matrix)

    @property
    def dimension(self) -> int:
        """The dimension of the vectors."""
        return int(self.matrix.shape[1])

    @property
    def ids(self) -> Strings:
        """The ids of the vectors, in the order of the rows."""
        return self._ids

    def search(self, vector: Vectors, n: int) -> list[Scored]:
        """Return the ``n`` nearest vectors; see :class:`~branchrank.stores.vectors.VectorStore`."""
        check_query(vector, self.dimension)
        count = min(n, len(self._ids))
        if count <= 0:
            return []
        rough = np.vecdot(self.matrix, vector.astype(np.float32))
        threshold = np.partition(rough, len(rough) - count)[len(rough) - count]
        # The rounding error of a score is at most ``d * eps / 2`` times the product of the vectors' norms.
        # The tolerance is twice that error, because both the threshold and the compared score are rounded.
        length = max(1.0, float(np.linalg.norm(vector)))
        error = np.float32(self.dimension * float(np.finfo(np.float32).eps) * length)
        pool = np.flatnonzero(rough >= threshold - error)
        return self.rank(pool, vector, count)

    def rank(self, rows: IntArray, vector: Vectors, n: int) -> list[Scored]:
        """Return the ``n`` vectors in ``rows`` with the highest scores, highest first."""
        scores = self.score(rows, vector)
        order = best(scores, self._ids.ties, n, rows=rows)
        return scored(self._ids.take(rows[order].tolist()), scores[order].tolist())

    def score(self, rows: IntArray, vector: Vectors) -> NDArray[np.float64]:
        """Return the cosines of ``rows`` with ``vector``, in an array of shape ``(len(rows),)``."""
        return cosines(self.matrix, rows, vector)

    def scores(self, vector: Vectors, keys: Sequence[str]) -> NDArray[np.float64]:
        """Return the scores for the ids ``keys``; see :class:`~branchrank.stores.vectors.VectorStore`."""
        return self.score(np.array([self._ids.row(key) for key in keys], dtype=np.intp), vector)

    def row(self, key: str) -> int:
        """Return the row number of the id ``key``. Raises ``KeyError`` for an unknown id."""
        return self._ids.row(key)

    def vector(self, key: str) -> Vectors:
        """Return the vector for the id ``key``, as an array of shape ``(d,)``."""
        return np.array(self.matrix[self._ids.row(key)])

    def close(self) -> None:
        """Do nothing, because the file is closed when the object is deleted."""
