"""Search a fixed set of texts with BM25. The package bm25s computes the weights of the tokens.

1. Each text is split into tokens (:mod:`branchrank.stores.analyzer`). bm25s computes how much each token adds
   to the score of each document (:mod:`branchrank.stores.bm25_weights`). The weights form a sparse matrix
   with one column per token.
2. The documents' scores for a query are the sum of the columns for the query's tokens. A token's column is
   added once for each occurrence of the token in the query.
3. The ``n`` documents with the highest scores are returned. Documents with the same score are sorted by id.
   Documents with a score of 0 are not returned.
4. An index on disk consists of ``bm25.npy``, which contains memory-mapped arrays, and ``bm25.json``. A query
   reads only the columns of its tokens. ``bm25.json`` contains the digest of ``bm25.npy``, so files from
   different builds are never mixed.

The supported variants of BM25 (Kamphuis et al., ECIR 2020) are ``lucene`` (without the constant factor k1 +
1), ``robertson`` (a negative IDF is replaced by 0), ``atire``, ``bm25+`` (delta 1) and ``bm25l`` (delta 0.5).
In ``bm25+`` and ``bm25l``, a token that is not in a document adds nothing to the document's score (Lv & Zhai,
CIKM 2011).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from branchrank.errors import ArtifactError
from branchrank.io.files import (
    NOT_JSON,
    digest_stream,
    open_beneath,
    read_beneath,
    storage_errors,
    write_beneath,
    writer_beneath,
)
from branchrank.records import Record, Scored
from branchrank.settings import Bm25Settings
from branchrank.stores.analyzer import analyzer
from branchrank.stores.arrays import mapped_arrays, write_arrays
from branchrank.stores.bm25_weights import Columns, TokenCounts, bm25_weights, count_tokens
from branchrank.stores.ordering import best, scored
from branchrank.stores.strings import StringArrays, Strings

_SCHEMA = 2
_HEADER = "bm25.json"
_ARRAYS = "bm25.npy"
_REBUILD = "rebuild the index: branchrank index"

#: ``check(folder, file name, digest)`` raises :class:`ArtifactError` if the file's digest differs.
CheckFile = Callable[[Path, str, str], None]


class _Header(Record, frozen=True, kw_only=True):
    """The content of ``bm25.json``, which describes ``bm25.npy``."""

    schema_version: int
    settings: Bm25Settings
    digest: str
    built_from: str = ""


class Bm25Index:
    """A BM25 index of texts that have ids.

    ``built_from`` is the digest of the file with the indexed texts, or empty if the digest is unknown.
    """

    def __init__(
        self,
        ids: Strings,
        vocabulary: Strings,
        columns: Columns,
        settings: Bm25Settings,
        built_from: str = "",
    ) -> None:
        self.ids = ids
        self.settings = settings
        self.built_from = built_from
        self._vocabulary = vocabulary
        self._columns = columns
        self._analyze = analyzer(settings)

    @classmethod
    def build(
        cls, ids: Iterable[str], texts: Iterable[str], settings: Bm25Settings, built_from: str = ""
    ) -> Bm25Index:
        """Build an index of ``texts``. ``ids`` contains a distinct id for each text."""
        return cls.weighed(Strings.of(ids), count_tokens(texts, analyzer(settings)), settings, built_from)

    @classmethod
    def weighed(
        cls, ids: Strings, counted: TokenCounts, settings: Bm25Settings, built_from: str = ""
    ) -> Bm25Index:
        """Build an index from token counts. The tokens must come from the analyzer for ``settings``."""
        columns = bm25_weights(counted, settings)
        return cls(ids, Strings.of(counted.vocabulary), columns, settings, built_from)

    def scores(self, query: str) -> NDArray[np.float32]:
        """Return the score of every document, in the order of ``ids``.

        A document that contains no token of the query has the score 0.
        """
        scores = np.zeros(len(self.ids), dtype=np.float32)
        weights, documents, offsets = self._columns
        numbers = ((self._vocabulary.find(token), n) for token, n in Counter(self._analyze(query)).items())
        # Tokens are added in a fixed order, so that rounding does not depend on the word order of the query.
        for token, count in sorted((token, n) for token, n in numbers if token is not None):
            column = slice(offsets[token], offsets[token + 1])
            scores[documents[column]] += np.float32(count) * weights[column]
        return scores

    def search(self, query: str, n: int) -> list[Scored]:
        """Return the ``n`` documents with the highest scores above 0, best first, with ties sorted by id."""
        scores = self.scores(query)
        scoring = np.flatnonzero(scores > 0)
        found = scoring[best(scores[scoring], self.ids.ties, n, rows=scoring)]
        return scored(self.ids.take(found.tolist()), scores[found].tolist())

    def save(self, directory: Path, *, root: Path | None = None) -> None:
        """Write the files of the index to ``directory``.

        Symbolic links in the path below ``root`` are not followed. Raises
        :class:`~branchrank.errors.StorageError` if a file can't be written.
        """
        root = root or directory
        way = directory.relative_to(root)
        with storage_errors(directory):
            root.mkdir(parents=True, exist_ok=True)
            with writer_beneath(root, (way / _ARRAYS).as_posix()) as stream:
                write_arrays(stream, self._arrays())
            with open_beneath(root, (way / _ARRAYS).as_posix()) as stream:
                digest = digest_stream(stream)
            header = _Header(
                schema_version=_SCHEMA, settings=self.settings, digest=digest, built_from=self.built_from
            )
            write_beneath(root, (way / _HEADER).as_posix(), msgspec.json.encode(header, order="sorted"))

    def _arrays(self) -> list[NDArray[Any]]:
        """Return the arrays of the index in the order in which they are written to ``bm25.npy``."""
        weights, documents, offsets = self._columns
        ids, words = self.ids.arrays, self._vocabulary.arrays
        return [
            *(offsets, ids.starts, words.starts),
            *(weights, documents, ids.order, ids.ties, words.order, words.ties),
            *(ids.text, words.text),
        ]

    @classmethod
    def load(cls, directory: Path, *, root: Path | None = None, check: CheckFile | None = None) -> Bm25Index:
        """Open the BM25 index in ``directory``.

        ``root`` is ``directory`` (the default) or one of its parent folders. Symbolic links in the path below
        ``root`` are not followed. ``check(root, name, digest)`` compares a file with its digest. By default,
        ``check`` reads the whole file. Raises :class:`ArtifactError` if a file is missing, damaged, a
        symbolic link, or from another build.
        """
        unreadable = f"cannot read the BM25 index {directory}"
        root = root or directory
        way = directory.relative_to(root)
        try:
            header = msgspec.json.decode(read_beneath(root, (way / _HEADER).as_posix()), type=_Header)
        except (OSError, *NOT_JSON) as error:
            raise ArtifactError(f"{unreadable}: {error}", remedy=_REBUILD) from error
        if header.schema_version != _SCHEMA:
            raise ArtifactError(
                f"the BM25 index {directory} has schema version {header.schema_version}, not {_SCHEMA}",
                remedy=_REBUILD,
            )
        name = (way / _ARRAYS).as_posix()
        (check or _check_digest)(root, name, header.digest)
        try:
            offsets, ids_starts, words_starts, weights, documents, *rest = mapped_arrays(
                partial(open_beneath, root), name, 11
            )
            ids_order, ids_ties, words_order, words_ties, ids_text, words_text = rest
            ids = Strings(StringArrays(ids_starts, ids_order, ids_ties, ids_text))
            words = Strings(StringArrays(words_starts, words_order, words_ties, words_text))
            _check_columns(weights, documents, offsets, len(words))
        except (OSError, ValueError) as error:
            raise ArtifactError(f"{unreadable}: {error}", remedy=_REBUILD) from error
        columns = Columns(weights, documents, offsets)
        return cls(ids, words, columns, header.settings, header.built_from)


def _check_columns(
    weights: NDArray[Any], documents: NDArray[Any], offsets: NDArray[Any], tokens: int
) -> None:
    """Raise ``ValueError`` if the arrays have the wrong types or inconsistent sizes."""
    kinds = [array.dtype for array in (weights, documents, offsets)]
    if kinds != [np.float32, np.int32, np.int64]:
        raise ValueError(f"the columns have the wrong types: {kinds}")
    if len(offsets) != tokens + 1 or not len(weights) == len(documents) == offsets[-1]:
        raise ValueError(f"the number of weights, {len(weights)}, does not match the {tokens} tokens")


def _check_digest(root: Path, name: str, digest: str) -> None:
    """Raise :class:`ArtifactError` unless the file ``name`` in ``root`` has the digest ``digest``."""
    try:
        with open_beneath(root, name) as stream:
            found = digest_stream(stream)
    except OSError as error:
        raise ArtifactError(f"cannot read the BM25 index {root / name}: {error}", remedy=_REBUILD) from error
    if found != digest:
        raise ArtifactError(
            f"{root / name} is damaged or belongs to another build of the index", remedy=_REBUILD
        )
