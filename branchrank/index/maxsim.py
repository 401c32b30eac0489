"""MaxSim, a score computed from a query's token vectors and a document's token vectors (late interaction).

``maxsim(q, d)`` is the mean, over the query tokens ``i``, of the largest ``cosine(q_i, d_j)`` over the
document tokens ``j``. Khattab & Zaharia (SIGIR 2020) use the sum instead of the mean. The mean is in -1..1
for queries of any length.

1. Token vectors are stored as int8 or float16. For int8, each row is scaled so that its largest absolute
   value becomes 127. Each row is stored together with the factor that scales the row to unit length.
2. One matrix product computes the dot products between the token vectors of all candidates and those of the
   query. For each query token and each candidate, MaxSim uses only the largest dot product.
3. The matrix product is exact, so the order of summation and the number of threads do not change the result.
   For int8 vectors with d dimensions, each entry of the product is a sum of d terms of at most 127 * 127. If
   d is at most 1,040, the sum is below 2**24 and therefore exact in float32. In float64, the sum is exact for
   any realistic d, because integers up to 2**53 are exact. Products of float16 values are multiples of
   2**-48, so sums below 16 are exact in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

TokenPrecision = Literal["int8", "fp16"]

_LARGEST = 127
#: The largest number of dimensions for which a float32 product of int8 rows is exact.
_EXACT_IN_FLOAT32 = (1 << 24) // _LARGEST**2


class TokenVectors(NamedTuple):
    """The token vectors of one text. A row of ``values`` times its entry in ``scales`` is a unit vector.

    ``values`` is int8 or float16 with the shape ``(tokens, d)``. ``scales`` is float32 with the shape
    ``(tokens,)`` and contains the reciprocal of each row's Euclidean norm.
    """

    values: NDArray[Any]
    scales: NDArray[np.float32]


def quantize(rows: NDArray[np.float32], precision: TokenPrecision) -> TokenVectors:
    """Convert rows of unit length, with the shape ``(tokens, d)``, to int8 or float16 for storage.

    >>> quantize(np.array([[0.6, 0.8]], dtype=np.float32), "int8").values.tolist()
    [[95, 127]]
    """
    if precision == "fp16":
        values = rows.astype(np.float16)
    else:
        largest = np.abs(rows).max(axis=1, keepdims=True, initial=np.finfo(np.float32).tiny)
        values = np.rint(rows / largest * np.float32(_LARGEST)).astype(np.int8)
    lengths = np.sqrt(np.square(values, dtype=np.float64).sum(axis=1))
    return TokenVectors(values, (1.0 / np.maximum(lengths, np.finfo(np.float32).tiny)).astype(np.float32))


def unit_tokens(vectors: TokenVectors) -> NDArray[np.float32]:
    """Return the unit vectors of stored tokens as a float32 array of shape ``(tokens, d)``.

    >>> rows = unit_tokens(quantize(np.array([[0.6, 0.8]], dtype=np.float32), "int8"))
    >>> rows.astype(float).round(3).tolist()
    [[0.599, 0.801]]
    """
    rows: NDArray[np.float32] = vectors.values.astype(np.float32) * vectors.scales[:, np.newaxis]
    return rows


def maxsim(query: TokenVectors, documents: Sequence[TokenVectors]) -> NDArray[np.float64]:
    """Return the MaxSim between a query and each document, in -1..1.

    The result has the shape ``(len(documents),)``. All vectors must have the same precision and dimension.
    MaxSim is 0 for a document or a query without tokens.
    """
    scores = np.zeros(len(documents))
    held = [number for number, document in enumerate(documents) if len(document.scales)]
    if not held or not len(query.scales):
        return scores
    starts = np.cumsum([0, *(len(documents[number].scales) for number in held[:-1])])
    scales = np.concatenate([documents[number].scales for number in held])
    products = _products(np.concatenate([documents[number].values for number in held]), query.values)
    best = np.maximum.reduceat(products * scales[:, np.newaxis], starts, axis=0)
    scores[held] = (best * query.scales).sum(axis=1) / len(query.scales)
    return scores


def _products(documents: NDArray[Any], query: NDArray[Any]) -> NDArray[np.float64]:
    """Return the exact dot products as an array of shape ``(document tokens, query tokens)``."""
    exact_in_float32 = documents.dtype == np.int8 and documents.shape[1] <= _EXACT_IN_FLOAT32
    number = np.float32 if exact_in_float32 else np.float64
    products: NDArray[Any] = np.matmul(documents.astype(number), query.astype(number).T)
    return products.astype(np.float64)
