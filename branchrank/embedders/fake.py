"""A deterministic substitute for a model: texts are similar if they share words. It needs no download.

1. The text becomes lower-case words, each reduced to its stem.
2. Each stem has the weight ``1 + ln(frequency)``, each of its character trigrams a quarter of that.
3. A feature's hash picks a coordinate and a sign (Weinberger et al. 2009, "Feature hashing for large scale
   multitask learning"); the sum is scaled to unit length.
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

from branchrank.embedders.protocol import DocumentVectors, EmbedderIdentity, Vectors, unit_rows
from branchrank.errors import UsageError
from branchrank.progress import Progress, no_progress

DEFAULT_DIMENSION = 64
MAX_TOKENS = 512
TRIGRAM_WEIGHT = 0.25
WORD = re.compile(r"[^\W_]+")


class FakeEmbedder:
    """Hashed stems and trigrams as unit vectors of any ``dimension`` from 2; for tests and demonstrations.

    No text is truncated. Raises :class:`~branchrank.errors.UsageError` for a smaller dimension.
    """

    def __init__(self, dimension: int = DEFAULT_DIMENSION) -> None:
        if dimension < 2:
            raise UsageError(
                f"the fake embedder needs at least 2 dimensions, not {dimension}",
                remedy="use --embedder fake, or fake:64",
            )
        self.identity = EmbedderIdentity(
            name="fake", model="fake", revision="1", dimension=dimension, max_tokens=MAX_TOKENS
        )

    def embed_documents(self, texts: Sequence[str], progress: Progress = no_progress) -> Vectors:
        """One unit row per text."""
        rows = np.zeros((len(texts), self.identity.dimension), dtype=np.float32)
        for number, text in enumerate(texts):
            rows[number] = self._raw(text)
            progress("embed", number + 1, len(texts))
        return unit_rows(rows, origin="the fake embedder")

    def embed_query(self, text: str) -> Vectors:
        """The unit vector of a query; a document with the same text has the same vector."""
        row: Vectors = self.embed_documents([text])[0]
        return row

    def embed_documents_and_tokens(
        self, texts: Sequence[str], progress: Progress = no_progress
    ) -> DocumentVectors:
        """Unit vectors of each text and of its words; a text without words has one token, the first axis."""
        found = []
        for number, text in enumerate(texts):
            rows = self.embed_query_tokens(text)
            found.append(rows if len(rows) else np.eye(1, self.identity.dimension, dtype=np.float32))
            progress("embed", number + 1, len(texts))
        return DocumentVectors(self.embed_documents(texts), found)

    def embed_query_tokens(self, text: str) -> Vectors:
        """The unit vector of each word of a query."""
        return self.embed_documents(WORD.findall(text.lower()))

    def _raw(self, text: str) -> Vectors:
        """The sum of the hashed features; for a text without features, the first axis."""
        row = np.zeros(self.identity.dimension, dtype=np.float64)
        for stem, frequency in Counter(_stems(text)).items():
            weight = 1.0 + math.log(frequency)
            _add(row, stem, weight)
            for start in range(len(stem) - 2):
                _add(row, f"#{stem[start : start + 3]}", weight * TRIGRAM_WEIGHT)
        if not row.any():
            row[0] = 1.0
        return row.astype(np.float32)


def _stems(text: str) -> list[str]:
    """The stem of each word, in order."""
    stems: list[str] = Stemmer.Stemmer("english").stemWords(WORD.findall(text.lower()))
    return stems


@lru_cache(maxsize=65536)
def _hashed(feature: str) -> int:
    """A 64-bit hash that is the same in every process."""
    return int.from_bytes(
        hashlib.blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big"
    )


def _add(row: np.ndarray[tuple[int, ...], np.dtype[np.float64]], feature: str, weight: float) -> None:
    """Add a feature's signed weight to its coordinate."""
    hashed = _hashed(feature)
    row[(hashed >> 1) % len(row)] += weight if hashed & 1 else -weight
