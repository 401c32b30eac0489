"""The best n of an array of scores, in an order that never depends on the machine.

1. Ties break by score descending, then by id ascending; ids compare as strings.
2. Cosines are recomputed row by row in float64 for the few candidates that matter, because a matrix
   product may round equal rows differently, by where they stand in the matrix.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating]
IntArray = NDArray[np.intp]

#: Rows rescored at once; bounds the memory when very many rows tie.
_BLOCK = 4096


def tie_order(ids: Sequence[str]) -> IntArray:
    """Position of each id in the sorted order of the ids: shape ``(len(ids),)``."""
    order = np.empty(len(ids), dtype=np.intp)
    order[sorted(range(len(ids)), key=ids.__getitem__)] = np.arange(len(ids))
    return order


def best(scores: FloatArray, ties: IntArray, n: int) -> IntArray:
    """Indices of the ``n`` best of ``scores`` (all of them when ``n`` is past the end), best first."""
    count = min(n, len(scores))
    if count <= 0:
        return np.empty(0, dtype=np.intp)
    if count < len(scores):
        threshold = np.partition(scores, len(scores) - count)[len(scores) - count]
        pool = np.flatnonzero(scores >= threshold)
    else:
        pool = np.arange(len(scores))
    order = np.lexsort((ties[pool], -scores[pool]))
    return pool[order[:count]]


def cosines(matrix: FloatArray, rows: IntArray, vector: FloatArray) -> NDArray[np.float64]:
    """Dot products of some rows with a vector in float64; equal rows give equal results."""
    exact = np.empty(len(rows), dtype=np.float64)
    query = vector.astype(np.float64)
    for start in range(0, len(rows), _BLOCK):
        block = matrix[rows[start : start + _BLOCK]].astype(np.float64)
        exact[start : start + len(block)] = (block * query).sum(axis=1)
    return exact
