"""BM25 over a fixed set of texts. The package bm25s computes the weights; this module searches them.

1. Each text is split into tokens (:mod:`branchrank.stores.analyzer`). bm25s computes once how much each token
   adds to each document's score: a sparse matrix with one column per token.
2. The scores for a query are the sum of its tokens' columns; a repeated token is added repeatedly.
3. The best ``n`` documents are returned; ties break by id. A document with a score of 0 is not returned.
4. On disk an index consists of six files. ``bm25.json`` contains the digests of the others, so files of
   different builds are never mixed.

Variants (Kamphuis et al., ECIR 2020): ``lucene`` (without the constant factor k1 + 1), ``robertson`` (a
negative IDF is replaced by 0), ``atire``, ``bm25+`` (delta 1) and ``bm25l`` (delta 0.5). The last two follow
the definition of Lv & Zhai (CIKM 2011): a token that is not in a document adds nothing to its score.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from branchrank.artifacts import NOT_JSON, digest_bytes, storage_errors
from branchrank.environment import preserved_start_method
from branchrank.errors import ArtifactError
from branchrank.records import Record, Scored
from branchrank.safe_open import read_beneath, write_beneath
from branchrank.settings import Bm25Settings
from branchrank.stores.analyzer import analyzer
from branchrank.stores.npy_file import read_npy
from branchrank.stores.ordering import IntArray, best, tie_order

_SCHEMA = 1
_HEADER = "bm25.json"
_ARRAYS = ("weights", "documents", "offsets")
_LISTS = ("ids", "vocabulary")
_FILES = tuple(f"{name}.npy" for name in _ARRAYS) + tuple(f"{name}.json" for name in _LISTS)
_REBUILD = "rebuild the index: branchrank index"
_DELTA = {"bm25+": 1.0, "bm25l": 0.5}


class _Header(Record, frozen=True, kw_only=True):
    """The content of ``bm25.json``, which describes the other files."""

    schema_version: int
    settings: Bm25Settings
    digests: dict[str, str]


class Bm25Index:
    """A BM25 index over ids and texts. ``settings`` are those it was built with."""

    def __init__(
        self,
        ids: Sequence[str],
        vocabulary: Sequence[str],
        weights: NDArray[np.float32],
        documents: NDArray[np.int32],
        offsets: NDArray[np.int64],
        settings: Bm25Settings,
    ) -> None:
        """Token ``t`` adds ``weights[i]`` to the score of the document ``documents[i]``.

        ``i`` runs from ``offsets[t]`` up to, but not including, ``offsets[t + 1]``.
        """
        self.ids = tuple(ids)
        self.settings = settings
        self._vocabulary = vocabulary
        self._weights = weights
        self._documents = documents
        self._offsets = offsets
        self._analyze = analyzer(settings)

    @classmethod
    def build(cls, ids: Sequence[str], texts: Sequence[str], settings: Bm25Settings) -> Bm25Index:
        """Index ``texts``; ``ids`` are distinct, one per text."""
        analyze = analyzer(settings)
        numbers: dict[str, int] = {}
        tokens = [[numbers.setdefault(token, len(numbers)) for token in analyze(text)] for text in texts]
        weights, documents, offsets = _columns(tokens, len(numbers), settings)
        return cls(ids, list(numbers), weights, documents, offsets, settings)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {token: number for number, token in enumerate(self._vocabulary)}

    @cached_property
    def _ties(self) -> IntArray:
        return tie_order(self.ids)

    def scores(self, query: str) -> NDArray[np.float32]:
        """The score of every document, in the order of ``ids``; 0 if it contains no token of the query."""
        scores = np.zeros(len(self.ids), dtype=np.float32)
        counts = Counter(self._numbers[token] for token in self._analyze(query) if token in self._numbers)
        # Use a fixed order, so that the order of the query's words can't change the rounding.
        for token in sorted(counts):
            column = slice(self._offsets[token], self._offsets[token + 1])
            scores[self._documents[column]] += np.float32(counts[token]) * self._weights[column]
        return scores

    def search(self, query: str, n: int) -> list[Scored]:
        """The ``n`` best documents with a score above 0, best first; ties by id."""
        scores = self.scores(query)
        scoring = np.flatnonzero(scores > 0)
        return [
            Scored(self.ids[scoring[index]], float(scores[scoring[index]]))
            for index in best(scores[scoring], self._ties[scoring], n)
        ]

    def save(self, directory: Path, *, root: Path | None = None) -> None:
        """Write the index's files to ``directory``, the header last. No link is followed below ``root``.

        Raises :class:`~branchrank.errors.StorageError`.
        """
        root = root or directory
        way = directory.relative_to(root)
        contents = {
            f"{name}.json": msgspec.json.encode(values)
            for name, values in zip(_LISTS, (self.ids, self._vocabulary), strict=True)
        }
        arrays: tuple[NDArray[Any], ...] = (self._weights, self._documents, self._offsets)
        contents |= {f"{name}.npy": _npy(array) for name, array in zip(_ARRAYS, arrays, strict=True)}
        digests = {name: digest_bytes(content) for name, content in contents.items()}
        header = _Header(schema_version=_SCHEMA, settings=self.settings, digests=digests)
        contents[_HEADER] = msgspec.json.encode(header, order="sorted")
        with storage_errors(directory):
            root.mkdir(parents=True, exist_ok=True)
            for name, content in contents.items():
                write_beneath(root, (way / name).as_posix(), content)

    @classmethod
    def load(cls, directory: Path, *, root: Path | None = None) -> Bm25Index:
        """Read an index. No link is followed below ``root``, which contains ``directory`` or is it (default).

        Raises :class:`ArtifactError` if a file is missing, is damaged, is a link, or is from another build.
        """
        unreadable = f"cannot read the BM25 index {directory}"
        root = root or directory
        way = directory.relative_to(root)
        try:
            header = msgspec.json.decode(read_beneath(root, (way / _HEADER).as_posix()), type=_Header)
            contents = {name: read_beneath(root, (way / name).as_posix()) for name in _FILES}
        except (OSError, *NOT_JSON) as error:
            raise ArtifactError(f"{unreadable}: {error}", remedy=_REBUILD) from error
        if header.schema_version != _SCHEMA:
            raise ArtifactError(
                f"the BM25 index {directory} has schema {header.schema_version}, not {_SCHEMA}",
                remedy=_REBUILD,
            )
        wrong = [name for name in _FILES if digest_bytes(contents[name]) != header.digests.get(name)]
        if wrong:
            raise ArtifactError(
                f"{directory / wrong[0]} is damaged or belongs to another build of the index", remedy=_REBUILD
            )
        try:
            weights, documents, offsets = (read_npy(BytesIO(contents[f"{name}.npy"])) for name in _ARRAYS)
            ids, vocabulary = (
                msgspec.json.decode(contents[f"{name}.json"], type=list[str]) for name in _LISTS
            )
        except (ValueError, *NOT_JSON) as error:
            raise ArtifactError(f"{unreadable}: {error}", remedy=_REBUILD) from error
        return cls(ids, vocabulary, weights, documents, offsets, header.settings)


def _npy(array: NDArray[Any]) -> bytes:
    """An array as the bytes of an ``.npy`` file."""
    stream = BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


@contextlib.contextmanager
def _unseen_by_tqdm() -> Iterator[None]:
    """Disable tqdm while bm25s runs: its bars start a thread and set multiprocessing's start method."""
    bars: Any = sys.modules.get("tqdm")  # bm25s works without it
    interval = bars and bars.tqdm.monitor_interval
    if bars:
        bars.tqdm.monitor_interval = 0
    try:
        with preserved_start_method():
            yield
    finally:
        if bars:
            bars.tqdm.monitor_interval = interval


def _columns(
    tokens: list[list[int]], vocabulary: int, settings: Bm25Settings
) -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.int64]]:
    """The weights from bm25s: how much each token adds to each document that contains it, by token."""
    if not vocabulary:
        return np.empty(0, np.float32), np.empty(0, np.int32), np.zeros(1, np.int64)
    import bm25s

    delta = _DELTA.get(settings.idf, 0.5)
    k1 = max(settings.k1, 1e-9)  # bm25s divides by k1 for absent terms
    model = bm25s.BM25(k1=k1, b=settings.b, delta=delta, method=settings.idf, backend="numpy")
    numbers = {number: number for number in range(vocabulary)}
    with _unseen_by_tqdm():
        model.index((tokens, numbers), create_empty_token=False, show_progress=False)
    weights = np.asarray(model.scores["data"], dtype=np.float32)
    documents = np.asarray(model.scores["indices"], dtype=np.int32)
    offsets = np.asarray(model.scores["indptr"], dtype=np.int64)
    absent = model.nonoccurrence_array
    if absent is not None:
        # bm25s gives these weights relative to those of a document without the token.
        weights = weights + np.repeat(np.asarray(absent, dtype=np.float32), np.diff(offsets))
    return weights, documents, offsets
