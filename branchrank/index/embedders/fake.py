"""Embedders that need no model: ``fake`` and ``none``.

The fake embedder is a deterministic substitute for an embedding model. Texts that share words get similar
vectors.

1. Text is split into lowercase words, and each word is reduced to its stem.
2. The weight of a stem is 1 plus the natural logarithm of the number of its occurrences in the text. Each
   character trigram of a stem has a quarter of the stem's weight.
3. The weight of each stem or trigram is added to one coordinate of the text's vector (feature hashing,
   Weinberger et al., ICML 2009). The hash of the stem or trigram determines the coordinate and the sign of
   the weight.
4. The text's vector is scaled to unit length.

``none`` is for an index that supports only keyword search. Every chunk gets the same one-dimensional vector,
so that all indexes have the same layout. Systems that search vectors are rejected before the first query
(:func:`branchrank.search.systems.system_checks.check_embedder`).
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import Stemmer

from branchrank.core.errors import Remedy, UsageError
from branchrank.index.embedders.protocol import (
    MOST_DIMENSIONS,
    NONE,
    DocumentVectors,
    EmbedderIdentity,
    QueryVectors,
    Vectors,
    no_vectors,
    unit_rows,
)

DEFAULT_DIMENSION = 64
MAX_TOKENS = 512
TRIGRAM_WEIGHT = 0.25
WORD = re.compile(r"[^\W_]+")


class FakeEmbedder:
    """An embedder that hashes stems and trigrams, for tests and demonstrations.

    Long texts are not truncated. Raises :class:`~branchrank.core.errors.UsageError` if ``dimension`` is
    below 2.
    """

    def __init__(self, dimension: int = DEFAULT_DIMENSION) -> None:
        if not 2 <= dimension <= MOST_DIMENSIONS:
            raise UsageError(
                f"the fake embedder needs 2 to {MOST_DIMENSIONS} dimensions, not {dimension}",
                remedy=Remedy("use {}, or fake:64", "--embedder", "fake"),
            )
        self.identity = EmbedderIdentity(
            name="fake", model="fake", revision="1", dimension=dimension, max_tokens=MAX_TOKENS
        )

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return the unit vectors of texts, one row per text."""
        rows = np.array([*map(self._raw, texts)], dtype=np.float32).reshape(-1, self.identity.dimension)
        return unit_rows(rows, origin="the fake embedder")

    def embed_query(self, text: str) -> Vectors:
        """Return the vector of a query, which equals the vector of a document with the same text."""
        row: Vectors = self.embed_documents([text])[0]
        return row

    def embed_documents_and_tokens(self, texts: Sequence[str]) -> DocumentVectors:
        """Return a unit vector for each text and for each of its words.

        A text without words gets one token vector, ``[1, 0, 0, ...]``.
        """
        none = np.eye(1, self.identity.dimension, dtype=np.float32)
        found = [rows if len(rows) else none for rows in map(self._words, texts)]
        return DocumentVectors(self.embed_documents(texts), found)

    def embed_query_and_tokens(self, text: str) -> QueryVectors:
        """Return a unit vector for a query and for each of its words."""
        return QueryVectors(self.embed_query(text), self._words(text))

    def _words(self, text: str) -> Vectors:
        return self.embed_documents(WORD.findall(text.lower()))

    def _raw(self, text: str) -> Vectors:
        """Return the vector of a text before scaling, or ``[1, 0, 0, ...]`` if all coordinates are zero."""
        row = np.zeros(self.identity.dimension, dtype=np.float64)
        stems = Stemmer.Stemmer("english").stemWords(WORD.findall(text.lower()))
        for stem, frequency in Counter(stems).items():
            weight = 1.0 + math.log(frequency)
            _add(row, stem, weight)
            for start in range(len(stem) - 2):
                _add(row, f"#{stem[start : start + 3]}", weight * TRIGRAM_WEIGHT)
        if not row.any():
            row[0] = 1.0
        return row.astype(np.float32)


@lru_cache(maxsize=65536)
def _hashed(feature: str) -> int:
    """Return a 64-bit hash of a stem or trigram, which is the same in every process."""
    return int.from_bytes(
        hashlib.blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big"
    )


def _add(row: np.ndarray[tuple[int, ...], np.dtype[np.float64]], feature: str, weight: float) -> None:
    """Add the signed weight of a stem or trigram to its coordinate."""
    hashed = _hashed(feature)
    row[(hashed >> 1) % len(row)] += weight if hashed & 1 else -weight


class NoEmbedder:
    """An embedder that returns the same one-dimensional vector for every text."""

    identity = EmbedderIdentity(name=NONE, model=NONE, dimension=1, max_tokens=MAX_TOKENS)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return one row ``[1]`` for each text."""
        return np.ones((len(texts), 1), dtype=np.float32)

    def embed_query(self, text: str) -> Vectors:
        """Raise :class:`UsageError`, because there is no model to embed a query."""
        raise no_vectors("the index")
