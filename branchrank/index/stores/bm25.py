"""Search a fixed set of texts with BM25. The package bm25s has the formulas of the weights.

1. Each text is split into tokens (:mod:`branchrank.index.stores.analyzer`), which are counted. The parts of a
   corpus can be counted separately, and :func:`merged` joins the counts. The merged counts do not depend on
   how the corpus is divided into parts.
2. The weights form a sparse matrix with one column per token. bm25s itself would create a Python object for
   every token in the corpus. To save time and memory, this module applies the formulas of bm25s to whole
   arrays of token counts, and gets bit-for-bit the same weights.
3. The documents' scores for a query are the sum of the columns for the query's tokens. A token's column is
   added once for each occurrence of the token in the query.
4. The ``n`` documents with the highest scores are returned. Documents with the same score are sorted by id.
   Documents with a score of 0 are not returned.
5. An index on disk is one file of memory-mapped arrays. A query reads only the columns of its tokens.

The supported variants of BM25 (Kamphuis et al., ECIR 2020) are ``lucene`` (without the constant factor k1 +
1), ``robertson`` (a negative IDF is replaced by 0), ``atire``, ``bm25+`` (delta 1) and ``bm25l`` (delta 0.5).
In ``bm25+`` and ``bm25l``, a token that is not in a document adds nothing to the document's score (Lv & Zhai,
CIKM 2011).
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from branchrank.core.errors import ArtifactError
from branchrank.core.ranked_lists import RankedList
from branchrank.core.settings import Bm25Settings
from branchrank.index.stores.analyzer import Analyze, analyzer
from branchrank.index.stores.arrays import REBUILD, Strings, map_arrays, write_arrays
from branchrank.index.stores.vectors import best, ranked_rows

_DELTA = {"bm25+": 1.0, "bm25l": 0.5}
#: The number of weights to compute at once, which limits the memory for intermediate float64 results.
_BLOCK = 1 << 22


class Columns(NamedTuple):
    """The BM25 weights of all tokens, as a sparse matrix with one column per token.

    Token ``t`` adds ``weights[i]`` to the score of the text ``documents[i]``, for every ``i`` from
    ``offsets[t]`` to ``offsets[t + 1] - 1``.
    """

    weights: NDArray[np.float32]
    documents: NDArray[np.int32]
    offsets: NDArray[np.int64]


class Bm25Index:
    """A BM25 index of texts that have ids."""

    def __init__(self, ids: Strings, vocabulary: Strings, columns: Columns, settings: Bm25Settings) -> None:
        self.ids = ids
        self.settings = settings
        self._vocabulary = vocabulary
        self._columns = columns
        # Indexing a memoryview returns Python integers, which are faster than NumPy's integers.
        self._offsets = columns.offsets.data
        self._analyze = analyzer(settings)

    @classmethod
    def build(cls, ids: Iterable[str], texts: Iterable[str], settings: Bm25Settings) -> Bm25Index:
        """Build an index of ``texts``. ``ids`` contains a distinct id for each text."""
        return cls.weighed(ids, count_tokens(texts, analyzer(settings)), settings)

    @classmethod
    def weighed(cls, ids: Iterable[str], counted: TokenCounts, settings: Bm25Settings) -> Bm25Index:
        """Build an index from token counts. The tokens must come from the analyzer for ``settings``."""
        return cls(Strings.of(ids), Strings.of(counted.vocabulary), bm25_weights(counted, settings), settings)

    def scores(self, query: str) -> NDArray[np.float32]:
        """Return the score of every document, in the order of ``ids``.

        A document that contains no token of the query has the score 0.
        """
        scores = np.zeros(len(self.ids), dtype=np.float32)
        weights, documents, _ = self._columns
        numbers = map(self._vocabulary.find, self._analyze(query))
        counts = Counter(number for number in numbers if number is not None)
        # Tokens are added in a fixed order, so that rounding does not depend on the word order of the query.
        for token, count in sorted(counts.items()):
            column = slice(self._offsets[token], self._offsets[token + 1])
            added = weights[column] if count == 1 else np.float32(count) * weights[column]
            scores[documents[column].astype(np.intp)] += added
        return scores

    def search(self, query: str, n: int) -> RankedList:
        """Return the ``n`` documents with the highest scores above 0, best first, with ties sorted by id."""
        scores = self.scores(query)
        (scoring,) = (scores > 0).nonzero()
        found = scoring[best(scores[scoring], self.ids.ties, n, rows=scoring)]
        return ranked_rows(self.ids, found, scores[found])

    def save(self, path: Path) -> None:
        """Write the index to a file. Raises :class:`~branchrank.core.errors.StorageError` if that fails."""
        write_arrays(
            path,
            [
                *self._columns._asdict().items(),
                *self.ids.to_write("ids"),
                *self._vocabulary.to_write("tokens"),
            ],
        )

    @classmethod
    def load(cls, path: Path, settings: Bm25Settings) -> Bm25Index:
        """Open the index that was built with ``settings``. Raises :class:`ArtifactError` if it is damaged."""
        arrays = map_arrays(path)
        try:
            ids, tokens = Strings.named(arrays, "ids"), Strings.named(arrays, "tokens")
            weights, documents, offsets = columns = Columns(*(arrays[name] for name in Columns._fields))
            kinds = [each.dtype for each in columns]
            if kinds != [np.float32, np.int32, np.int64]:
                raise ValueError(f"the columns have the wrong types: {kinds}")
            if len(offsets) != len(tokens) + 1 or not len(weights) == len(documents) == offsets[-1]:
                raise ValueError(f"the number of weights, {len(weights)}, does not match the tokens")
        except (KeyError, ValueError) as error:
            raise ArtifactError(f"cannot read the BM25 index {path}: {error}", remedy=REBUILD) from error
        return cls(ids, tokens, columns, settings)


@dataclass(frozen=True)
class TokenCounts:
    """The number of occurrences of each token in each text, as a sparse matrix with one row per text.

    Text ``i`` contains the token with the ID ``tokens[j]`` exactly ``counts[j]`` times, for every ``j`` from
    ``starts[i]`` to ``starts[i + 1] - 1``. ``vocabulary`` maps each token ID to its token. Token IDs are
    assigned from 0, in the order in which the tokens first occur.
    """

    vocabulary: list[str]
    starts: NDArray[np.int64]
    tokens: NDArray[np.int32]
    counts: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.starts) - 1


def count_tokens(texts: Iterable[str], analyze: Analyze) -> TokenCounts:
    """Count the tokens in each text."""
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    starts, tokens, counts = array("q", [0]), array("i"), array("i")
    for text in texts:
        found = Counter(analyze(text))
        tokens.extend(map(numbers.__getitem__, found))
        counts.extend(found.values())
        starts.append(len(tokens))
    return TokenCounts(
        list(numbers),
        np.array(starts, dtype=np.int64),
        np.array(tokens, dtype=np.int32),
        np.array(counts, dtype=np.int32),
    )


def merged(parts: Iterable[TokenCounts]) -> TokenCounts:
    """Join the token counts of several parts of a corpus, in the order of the parts."""
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    starts, tokens, counts = [np.zeros(1, dtype=np.int64)], [], []
    for part in parts:
        renumbered = np.fromiter(map(numbers.__getitem__, part.vocabulary), np.int32, len(part.vocabulary))
        tokens.append(renumbered[part.tokens])
        counts.append(part.counts)
        starts.append(part.starts[1:] + starts[-1][-1])
    none = np.empty(0, dtype=np.int32)
    return TokenCounts(
        list(numbers),
        np.concatenate(starts),
        np.concatenate([none, *tokens]),
        np.concatenate([none, *counts]),
    )


def bm25_weights(counted: TokenCounts, settings: Bm25Settings) -> Columns:
    """Return the BM25 weight of every token in every text, computed in blocks of limited size."""
    if not counted.vocabulary:
        return Columns(np.empty(0, np.float32), np.empty(0, np.int32), np.zeros(1, np.int64))
    from bm25s.scoring import _select_idf_scorer, _select_tfc_scorer
    from scipy.sparse import csr_matrix

    idf_of, tf_of = _select_idf_scorer(settings.idf), _select_tfc_scorer(settings.idf)
    # bm25s divides by k1 for tokens that are not in a text.
    parameters = {"k1": max(settings.k1, 1e-9), "b": settings.b, "delta": _DELTA.get(settings.idf, 0.5)}
    relative = settings.idf in _DELTA
    by_text = csr_matrix(
        (counted.counts, counted.tokens, counted.starts), shape=(len(counted), len(counted.vocabulary))
    )
    lengths = np.asarray(by_text.sum(axis=1), dtype=np.int64).ravel()
    by_token = by_text.tocsc()
    offsets, documents = by_token.indptr.astype(np.int64), by_token.indices.astype(np.int32, copy=False)
    weights = np.empty(len(documents), dtype=np.float32)
    frequencies, average = np.diff(offsets), lengths.mean()
    distinct, places = np.unique(frequencies, return_inverse=True)
    idf = np.array([idf_of(frequency, N=len(counted)) for frequency in distinct.tolist()])[places]
    absent = tf_of(tf_array=0, l_d=average, l_avg=average, **parameters) if relative else 0.0
    missing = (idf * absent).astype(np.float32)
    idf = idf.astype(np.float32)
    first = 0
    while first < len(frequencies):
        last = max(first + 1, int(np.searchsorted(offsets, offsets[first] + _BLOCK, side="right")) - 1)
        block = slice(offsets[first], offsets[last])
        tf = by_token.data[block].astype(np.float32)
        adds = tf_of(tf_array=tf, l_d=lengths[documents[block]], l_avg=average, **parameters)
        repeats = frequencies[first:last]
        found = np.repeat(idf[first:last], repeats) * adds
        if relative:
            # In ``bm25+`` and ``bm25l``, a token also has a base weight in texts without the token. bm25s
            # stores weights minus the base weight, and adds the base weight to every score. Adding the base
            # weight to the stored weights means that a token adds 0 to the score of a text without the token.
            without = np.repeat(missing[first:last], repeats)
            weights[block] = (found - without).astype(np.float32) + without
        else:
            weights[block] = found
        first = last
    return Columns(weights, documents, offsets)
