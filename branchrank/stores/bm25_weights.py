"""Compute how much each token adds to the BM25 score of each text, with the package bm25s.

1. :func:`count_tokens` counts the tokens in each text, and stores the counts in arrays. The parts of a corpus
   can be counted separately, and :func:`merged` joins the counts. The merged counts do not depend on how the
   corpus is divided into parts.
2. :func:`bm25_weights` passes the token counts to bm25s, which computes one column of weights per token.

By default, bm25s creates a Python object for every token in the corpus, and computes the weights one text at
a time. To save time and memory, this module overrides the method ``build_index_from_ids`` of bm25s. This
module's version of the method applies the formulas of bm25s to whole arrays of token counts, and returns
bit-for-bit the same weights as bm25s.
"""

from __future__ import annotations

import contextlib
import sys
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from branchrank.io.environment import preserved_start_method
from branchrank.settings import Bm25Settings
from branchrank.stores.analyzer import Analyze

_DELTA = {"bm25+": 1.0, "bm25l": 0.5}
#: The number of weights to compute at once, which limits the memory for intermediate float64 results.
_BLOCK = 1 << 22


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


def reordered(counted: TokenCounts, sizes: NDArray[np.intp], order: Sequence[int]) -> TokenCounts:
    """Return a copy of ``counted`` in which groups of texts are in a different order.

    A group consists of consecutive texts. The order of the texts in a group stays the same. ``sizes``
    contains the number of texts in each group of ``counted``. Group ``order[i]`` of ``counted`` becomes group
    ``i`` of the result.
    """
    ends = np.cumsum(sizes)
    chosen = np.array(order, dtype=np.intp)
    texts = _ranges((ends - sizes)[chosen], sizes[chosen])
    lengths = np.diff(counted.starts)[texts]
    entries = _ranges(counted.starts[:-1][texts], lengths)
    tokens = counted.tokens[entries]
    # Assign positions in reverse, so that each token keeps the position of its first occurrence.
    first = np.empty(len(counted.vocabulary), dtype=np.int64)
    first[tokens[::-1]] = np.arange(len(tokens) - 1, -1, -1)
    by_occurrence = np.argsort(first)
    numbers = np.empty(len(first), dtype=np.int32)
    numbers[by_occurrence] = np.arange(len(first), dtype=np.int32)
    return TokenCounts(
        [counted.vocabulary[token] for token in by_occurrence.tolist()],
        np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]),
        numbers[tokens],
        counted.counts[entries],
    )


def _ranges(starts: NDArray[Any], sizes: NDArray[Any]) -> NDArray[np.int64]:
    """Concatenate integer ranges. Range ``i`` contains ``sizes[i]`` integers, starting at ``starts[i]``."""
    before = np.cumsum(sizes) - sizes
    ranges: NDArray[np.int64] = np.arange(int(sizes.sum())) + np.repeat(starts - before, sizes)
    return ranges


class _Corpus(NamedTuple):
    """Token counts in a form that bm25s accepts. ``vocab`` maps every token ID to itself."""

    ids: TokenCounts
    vocab: dict[int, int]


class Columns(NamedTuple):
    """The BM25 weights of all tokens, as a sparse matrix with one column per token.

    Token ``t`` adds ``weights[i]`` to the score of the text ``documents[i]``, for every ``i`` from
    ``offsets[t]`` to ``offsets[t + 1] - 1``.
    """

    weights: NDArray[np.float32]
    documents: NDArray[np.int32]
    offsets: NDArray[np.int64]


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
    """Return the BM25 weight of every token in every text."""
    if not counted.vocabulary:
        return Columns(np.empty(0, np.float32), np.empty(0, np.int32), np.zeros(1, np.int64))
    k1 = max(settings.k1, 1e-9)  # bm25s divides by k1 for tokens that are not in a text.
    delta = _DELTA.get(settings.idf, 0.5)
    model = _model()(k1=k1, b=settings.b, delta=delta, method=settings.idf, backend="numpy")
    numbers = {number: number for number in range(len(counted.vocabulary))}
    with _unseen_by_tqdm():
        model.index(_Corpus(counted, numbers), create_empty_token=False, show_progress=False)
    return Columns(*(model.scores[name] for name in ("data", "indices", "indptr")))


@cache
def _model() -> Any:
    """Return a subclass of ``bm25s.BM25`` that indexes :class:`TokenCounts`."""
    import bm25s
    from bm25s.scoring import _select_idf_scorer, _select_tfc_scorer

    class ArrayBm25(bm25s.BM25):  # type: ignore[misc]
        def build_index_from_ids(
            self, unique_token_ids: Sequence[int], corpus_token_ids: TokenCounts, **shown: bool
        ) -> dict[str, Any]:
            return _columns(
                corpus_token_ids,
                _select_idf_scorer(self.idf_method),
                _select_tfc_scorer(self.method),
                {"k1": self.k1, "b": self.b, "delta": self.delta},
                relative=self.method in self.methods_requiring_nonoccurrence,
            )

    return ArrayBm25


def _columns(
    counted: TokenCounts, idf_of: Any, tf_of: Any, parameters: dict[str, float], *, relative: bool
) -> dict[str, Any]:
    """Compute the columns of weights in blocks of limited size, and return the arrays that bm25s expects."""
    from scipy.sparse import csr_matrix

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
    return {"data": weights, "indices": documents, "indptr": offsets, "num_docs": len(counted)}


@contextlib.contextmanager
def _unseen_by_tqdm() -> Iterator[None]:
    """Disable tqdm's monitor, which starts a thread and sets the start method of multiprocessing."""
    bars: Any = sys.modules.get("tqdm")  # bm25s also works without tqdm.
    interval = bars and bars.tqdm.monitor_interval
    if bars:
        bars.tqdm.monitor_interval = 0
    try:
        with preserved_start_method():
            yield
    finally:
        if bars:
            bars.tqdm.monitor_interval = interval
