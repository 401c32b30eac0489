"""Vector search: exact search, and the order of results.

1. The two vector stores search exactly with NumPy or approximately with Chroma. Every vector has unit length.
   The score of a vector is its cosine similarity to the query, from -1 to 1. The squared L2 distance is
   ``2 - 2 * score``.
2. The two stores return exactly the same scores for the same ids. Chroma only selects candidates, and
   BranchRank computes the scores of the candidates from the vectors of the index.
3. The highest score comes first. Results with the same score are sorted by id. If a search requests more
   results than there are vectors, all vectors are returned.
4. Exact search computes the dot products of the query with all rows on the calling thread, because a
   matrix-vector product on two BLAS threads took up to fifty times longer on a busy machine. All rows whose
   score is at least the n-th best score minus the rounding error are scored again in float64, one row at a
   time, because a matrix product may round equal rows differently at different positions in the matrix. The
   results are bit-for-bit the same for any number of BLAS threads.
5. The token vectors of an index's chunks are in one memory-mapped file, with the vectors of chunk ``i`` in
   the rows ``offsets[i]`` to ``offsets[i + 1] - 1`` of ``values`` (int8 or float16), one float32 factor per
   row in ``scales`` (:class:`branchrank.index.maxsim.TokenVectors`), and one cache key of 64 hexadecimal
   digits per chunk in ``keys``. A later build uses the keys to find vectors that it can reuse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from branchrank.core.errors import ArtifactError, Remedy
from branchrank.core.ranked_lists import RankedList
from branchrank.index.embedders.protocol import Vectors
from branchrank.index.maxsim import TokenPrecision, TokenVectors
from branchrank.index.stores.arrays import REBUILD, Strings, map_arrays, write_arrays

FloatArray = NDArray[np.floating]
IntArray = NDArray[np.intp]
TieOrder = NDArray[np.int32]

#: The relative rounding error of a float32 number.
_ROUNDING = float(np.finfo(np.float32).eps)
#: The number of rows to score at once. If very many rows tie, this limit saves memory.
_BLOCK = 4096
#: The maximum number of vectors for which ``--vector-store auto`` uses exact search. In
#: ``benchmarks/scale.py``, exact search of 100,000 vectors was still faster than Chroma.
EXACT_UP_TO = 100_000
LARGEST_DISTANCE = 4.0
_TOKEN_NUMBERS: dict[TokenPrecision, type[np.int8] | type[np.float16]] = {"int8": np.int8, "fp16": np.float16}


def save_vectors(path: Path, matrix: Vectors) -> None:
    """Write ``matrix`` to the file ``path`` atomically, as a float32 array of shape ``(n, d)``.

    Raises :class:`~branchrank.core.errors.StorageError` if the file can't be written.
    """
    write_arrays(path, [("vectors", np.asarray(matrix, dtype=np.float32))])


def load_vectors(path: Path, rows: int, dimension: int) -> Vectors:
    """Memory-map the vectors in the file ``path``.

    Raises :class:`ArtifactError` if the file does not contain a float32 array of shape ``(rows, dimension)``.
    """
    matrix: Vectors | None = map_arrays(path).get("vectors")
    if matrix is None or matrix.dtype != np.float32 or matrix.shape != (rows, dimension):
        found = "no vectors" if matrix is None else f"{matrix.dtype} {matrix.shape}"
        raise ArtifactError(
            f"{path} contains {found}, but the index needs float32 {(rows, dimension)}", remedy=REBUILD
        )
    return matrix


class ExactVectors:
    """The vector store with exact search, which compares the query with every vector."""

    def __init__(self, ids: Sequence[str], matrix: Vectors) -> None:
        """``matrix`` is a float32 array ``(len(ids), d)`` with rows of unit length. Ids must be distinct."""
        if len(ids) != len(matrix):
            raise ArtifactError(
                f"the index has {len(ids)} ids, but {len(matrix)} vectors",
                remedy=REBUILD,
            )
        #: The ids of the vectors, in the order of the rows.
        self.ids = Strings.of(ids)
        self.matrix = np.asarray(matrix)

    @property
    def dimension(self) -> int:
        """The dimension of the vectors."""
        return int(self.matrix.shape[1])

    def search(self, vector: Vectors, n: int) -> RankedList:
        """Return the ``n`` vectors nearest to a unit vector of shape ``(d,)``, best first.

        Raises :class:`ArtifactError` if ``vector`` does not have the dimension of the index, or if Chroma
        returns unknown ids.
        """
        check_query(vector, self.dimension)
        count = min(n, len(self.ids))
        if count <= 0:
            return RankedList((), ())
        rough = np.vecdot(self.matrix, vector.astype(np.float32, copy=False))
        threshold = np.partition(rough, len(rough) - count)[len(rough) - count]
        # The rounding error of a score is at most ``d * eps / 2`` times the product of the vectors' norms.
        # The tolerance is twice that error, because both the threshold and the compared score are rounded.
        length = max(1.0, math.sqrt(np.vdot(vector, vector)))
        (rows,) = (rough >= threshold - np.float32(self.dimension * _ROUNDING * length)).nonzero()
        return self.rank(rows, vector, count)

    def rank(self, rows: IntArray, vector: Vectors, n: int) -> RankedList:
        """Return the ``n`` vectors in ``rows`` with the highest scores, highest first."""
        scores = cosines(self.matrix, rows, vector)
        order = best(scores, self.ids.ties, n, rows=rows)
        return ranked_rows(self.ids, rows[order], scores[order])

    def scores(self, vector: Vectors, keys: Sequence[str]) -> NDArray[np.float64]:
        """Return the scores of the vectors with the ids ``keys``, which are those of :meth:`search`.

        Raises ``KeyError`` for an unknown id.
        """
        return cosines(self.matrix, np.array([self.ids.row(key) for key in keys], dtype=np.intp), vector)

    def vector(self, key: str) -> Vectors:
        """Return the vector for the id ``key``, as an array of shape ``(d,)``."""
        return np.array(self.matrix[self.ids.row(key)])

    def close(self) -> None:
        """Close files and connections. Exact search has none to close."""


def save_token_vectors(path: Path, keys: Sequence[str], vectors: Iterable[TokenVectors]) -> None:
    """Write the token vectors of each chunk to the file ``path``, without keeping all vectors in memory.

    Raises :class:`~branchrank.core.errors.StorageError` if the file can't be written.
    """
    scales = []

    def values() -> Iterator[NDArray[Any]]:
        for each in vectors:
            scales.append(each.scales)
            yield each.values

    def arrays() -> Iterator[tuple[str, NDArray[Any] | Iterator[NDArray[Any]]]]:
        yield "values", values()
        yield "scales", np.concatenate(scales or [np.zeros(0, np.float32)])
        yield "offsets", np.cumsum([0, *map(len, scales)], dtype=np.int64)
        yield "keys", np.array(keys, dtype="S64")

    write_arrays(path, arrays())


class TokenFile:
    """The token vectors of a list of chunks, read from a memory-mapped file."""

    def __init__(self, path: Path, ids: Sequence[str], precision: TokenPrecision) -> None:
        """Raise :class:`ArtifactError` if the file is damaged, or does not contain one entry per id."""
        self.precision = precision
        self._ids = Strings.of(ids)
        arrays = map_arrays(path)
        shapes = {name: (array.dtype, array.ndim) for name, array in arrays.items()}
        expected = {"values": (np.dtype(_TOKEN_NUMBERS[precision]), 2), "scales": (np.dtype(np.float32), 1)}
        expected |= {"offsets": (np.dtype(np.int64), 1), "keys": (np.dtype("S64"), 1)}
        if shapes != expected:
            raise _damaged(path, f"the arrays have the wrong types: {shapes}")
        self._values, self._scales = arrays["values"], arrays["scales"]
        self._offsets, self._keys = offsets, keys = arrays["offsets"], arrays["keys"]
        if len(offsets) != len(ids) + 1 or len(keys) != len(ids):
            raise _damaged(path, f"the file contains {len(keys)} chunks, not {len(ids)}")
        rows = len(self._values)
        if offsets[0] != 0 or not offsets[-1] == rows == len(self._scales) or (np.diff(offsets) < 0).any():
            raise _damaged(path, "the offsets do not match the number of rows")

    @property
    def keys(self) -> list[str]:
        """The cache keys of the chunks, in the order of the ids."""
        return [key.decode("ascii", "replace") for key in self._keys.tolist()]

    @property
    def dimension(self) -> int:
        """The dimension of the token vectors."""
        return int(self._values.shape[1])

    def vectors(self, key: str) -> TokenVectors:
        """Return the token vectors of a chunk. Raises ``KeyError`` for an unknown id."""
        row = self._ids.row(key)
        first, last = self._offsets[row : row + 2]
        return TokenVectors(self._values[first:last], self._scales[first:last])


def _damaged(path: Path, reason: str) -> ArtifactError:
    return ArtifactError(f"cannot read the token vectors {path}: {reason}", remedy=REBUILD)


def best(scores: FloatArray, ties: TieOrder, n: int, *, rows: IntArray | None = None) -> IntArray:
    """Return the indices of the ``n`` highest scores, highest first.

    If there are fewer than ``n`` scores, all indices are returned. Indices ``i`` with equal scores are sorted
    by ``ties[i]`` or, if ``rows`` is given, by ``ties[rows[i]]``.
    """
    if n <= 0:
        return np.empty(0, dtype=np.intp)
    if n < len(scores):
        least = np.partition(scores, len(scores) - n)[len(scores) - n]
        pool: IntArray = (scores >= least).nonzero()[0]
    else:
        pool = np.arange(len(scores))
    return pool[np.lexsort((ties[pool if rows is None else rows[pool]], -scores[pool]))[:n]]


def ranked_rows(ids: Strings, rows: IntArray, scores: FloatArray) -> RankedList:
    """Return the ids in ``rows``, which are already sorted, as a ranked list with the scores ``scores``."""
    return RankedList(tuple(ids.take(rows.tolist())), tuple(scores.tolist()))


def cosines(matrix: FloatArray, rows: IntArray, vector: FloatArray) -> NDArray[np.float64]:
    """Return the dot products of ``vector`` with the rows ``rows`` of ``matrix``, in float64."""
    if len(rows) > _BLOCK:
        starts = range(0, len(rows), _BLOCK)
        return np.concatenate([cosines(matrix, rows[start : start + _BLOCK], vector) for start in starts])
    products = matrix.take(rows, axis=0) * vector.astype(np.float64)
    return np.asarray(products.sum(axis=1))


def squared_distance(similarity: float) -> float:
    """Return the squared L2 distance (0 to 4) between two unit vectors with the cosine ``similarity``."""
    return max(0.0, 2.0 - 2.0 * similarity)


def check_query(vector: Vectors, dimension: int) -> None:
    """Raise :class:`ArtifactError` if ``vector`` does not have the shape ``(dimension,)``."""
    if vector.shape != (dimension,):
        raise ArtifactError(
            f"the query vector has the shape {vector.shape}, but the index has the dimension {dimension}",
            remedy=(
                Remedy("use the embedder of the index ({})", "--embedder"),
                "rebuild the index: branchrank index",
            ),
        )


def recall_against_exact(
    store: ExactVectors, exact: ExactVectors, queries: Iterable[Vectors], n: int
) -> float:
    """Return the mean recall (0 to 1) of the top ``n`` results from ``store``, compared with exact search.

    The recall for a query is the share of the exact top ``n`` results that ``store`` also returns. If there
    are no queries or no vectors, the mean recall is 1.
    """
    shares = []
    for query in queries:
        expected, found = set(exact.search(query, n).ids), set(store.search(query, n).ids)
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
