"""Select the n highest scores in an array, in an order that is the same on every machine.

1. The highest score comes first. Entries with the same score are sorted by their id as a string.
2. The cosines of the best candidates are computed again, one row at a time in float64, because a matrix
   product may round equal rows differently at different positions in the matrix.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from branchrank.records import Scored

FloatArray = NDArray[np.floating]
IntArray = NDArray[np.intp]
TieOrder = NDArray[np.int32]

_scored = partial(tuple.__new__, Scored)

#: The number of rows to score at once. If very many rows tie, this limit saves memory.
_BLOCK = 4096


def best(scores: FloatArray, ties: TieOrder, n: int, *, rows: IntArray | None = None) -> IntArray:
    """Return the indices of the ``n`` highest scores, highest first.

    If there are fewer than ``n`` scores, all indices are returned. Indices ``i`` with equal scores are sorted
    by ``ties[i]`` or, if ``rows`` is given, by ``ties[rows[i]]``.
    """
    count = min(n, len(scores))
    if count <= 0:
        return np.empty(0, dtype=np.intp)
    if count < len(scores):
        threshold = np.partition(scores, len(scores) - count)[len(scores) - count]
        pool = np.flatnonzero(scores >= threshold)
    else:
        pool = np.arange(len(scores))
    order = np.lexsort((ties[pool if rows is None else rows[pool]], -scores[pool]))
    return pool[order[:count]]


def scored(keys: Iterable[str], scores: Iterable[float]) -> list[Scored]:
    """Pair each key with its score, and return the pairs as a ranked list."""
    # Calling ``Scored(...)`` for each pair would take three times as long.
    return list(map(_scored, zip(keys, scores, strict=True)))


def cosines(matrix: FloatArray, rows: IntArray, vector: FloatArray) -> NDArray[np.float64]:
    """Return the dot products of ``vector`` with the rows ``rows`` of ``matrix``, in float64."""
    exact = np.empty(len(rows), dtype=np.float64)
    query = vector.astype(np.float64)
    for start in range(0, len(rows), _BLOCK):
        block = matrix[rows[start : start + _BLOCK]].astype(np.float64)
        exact[start : start + len(block)] = (block * query).sum(axis=1)
    return exact
