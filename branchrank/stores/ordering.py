"""Select the best n of an array of scores, in an order that does not depend on the machine.

1. The order is by score descending, then by id ascending; ids are compared as strings.
2. Cosines are recomputed row by row in float64 for the few best candidates, because a matrix product may
   round equal rows differently depending on their position in the matrix.
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

#: Rows rescored at once; limits the memory if very many rows tie.
_BLOCK = 4096


def best(scores: FloatArray, ties: TieOrder, n: int, *, rows: IntArray | None = None) -> IntArray:
    """The indices of the ``n`` best ``scores``, best first; all of them if there are fewer than ``n``.

    Equal scores are ordered by ``ties``, which has an entry for each score, or for each row if the scores are
    those of some ``rows``.
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
    """The entries of a ranked list."""
    # ``Scored(...)`` takes three times as long.
    return list(map(_scored, zip(keys, scores, strict=True)))


def cosines(matrix: FloatArray, rows: IntArray, vector: FloatArray) -> NDArray[np.float64]:
    """Dot products of some rows with a vector in float64; equal rows give equal results."""
    exact = np.empty(len(rows), dtype=np.float64)
    query = vector.astype(np.float64)
    for start in range(0, len(rows), _BLOCK):
        block = matrix[rows[start : start + _BLOCK]].astype(np.float64)
        exact[start : start + len(block)] = (block * query).sum(axis=1)
    return exact
