"""MaxSim: late interaction between the token vectors of a query and those of its candidates.

``maxsim(q, d) = mean over query tokens i of the largest cosine(q_i, d_j) over document tokens j``
(Khattab & Zaharia, SIGIR 2020, where it is a sum; the mean has the range of a cosine for any query length).

1. Token vectors are kept as whole numbers in one byte, each row scaled by its own largest component, or as
   16-bit floats. Each row is stored with the factor that restores its unit length.
2. All candidates' tokens are multiplied with all query tokens in one matrix product; the largest product of
   each candidate and query token follows by segments.
3. The product is exact, so its bits depend on no order of summation, number of threads or other candidates.
   Bytes: a sum of d products of at most 127 * 127 is below 2**24 for d up to 1,040, in float32, and always
   in float64. 16-bit floats are multiples of 2**-24, their products of 2**-48, and sums below 16 fit float64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from branchrank.ranking.lists import RankedList, ranked
from branchrank.records import Scored

TokenPrecision = Literal["int8", "fp16"]

_LARGEST = 127
#: Up to this dimension a float32 product of bytes is exact.
_EXACT_IN_FLOAT32 = (1 << 24) // _LARGEST**2


class TokenVectors(NamedTuple):
    """The token vectors of one text: ``values``, int8 or float16 ``(tokens, d)``, times ``scales``.

    ``scales``, float32 ``(tokens,)``, are one over the length of each row.
    """

    values: NDArray[Any]
    scales: NDArray[np.float32]


def quantise(rows: NDArray[np.float32], precision: TokenPrecision) -> TokenVectors:
    """Unit rows ``(tokens, d)`` in the precision that is kept.

    >>> quantise(np.array([[0.6, 0.8]], dtype=np.float32), "int8").values.tolist()
    [[95, 127]]
    """
    if precision == "fp16":
        values = rows.astype(np.float16)
    else:
        largest = np.abs(rows).max(axis=1, keepdims=True, initial=np.finfo(np.float32).tiny)
        values = np.rint(rows / largest * np.float32(_LARGEST)).astype(np.int8)
    lengths = np.sqrt(np.square(values, dtype=np.float64).sum(axis=1))
    return TokenVectors(values, (1.0 / np.maximum(lengths, np.finfo(np.float32).tiny)).astype(np.float32))


def maxsim(query: TokenVectors, documents: Sequence[TokenVectors]) -> NDArray[np.float64]:
    """MaxSim of a query with each document, in -1..1, shape ``(len(documents),)``.

    All are of one precision and dimension. A query or a document without tokens scores 0.
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
    """Every document row times every query row, exactly: ``(document tokens, query tokens)``."""
    exact_in_float32 = documents.dtype == np.int8 and documents.shape[1] <= _EXACT_IN_FLOAT32
    number = np.float32 if exact_in_float32 else np.float64
    products: NDArray[Any] = np.matmul(documents.astype(number), query.astype(number).T)
    return products.astype(np.float64)


def add_scores(ranking: Sequence[Scored], scores: Mapping[str, float], weight: float) -> RankedList:
    """Add ``weight`` times a second score to a ranked list, and order it again.

    ``scores`` are those of its first entries. Every other entry gets the lowest of them, so that none of
    them passes one of the first.

    >>> add_scores([Scored("a", 1.0), Scored("b", 0.9), Scored("c", 0.8)], {"a": 0.1, "b": 0.4}, 1.0).ids
    ('b', 'a', 'c')
    """
    lowest = min(scores.values(), default=0.0)
    return ranked({entry.key: entry.score + weight * scores.get(entry.key, lowest) for entry in ranking})
