"""The interface of every embedder, and the identity that tells which vectors can be compared.

1. A document is embedded as ``document_prefix + text``, a query as ``query_prefix + text``.
2. A text longer than ``max_tokens`` tokens (of the model's own tokenizer) is truncated at the end.
3. Every vector is float32 and has unit length, so the dot product is the cosine similarity.
4. A model that runs in this process can also give a vector for each token of a text: the rows of its last
   layer before pooling. A document gives all of its tokens; a query gives only the tokens of its own words,
   without the tokenizer's special tokens and the prefix. The document's vector comes from the same forward
   pass and is identical, byte for byte, to the vector computed without token vectors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from branchrank.errors import ModelError
from branchrank.progress import Progress, no_progress
from branchrank.records import Record

Vectors = NDArray[np.float32]


class EmbedderIdentity(Record, frozen=True, kw_only=True):
    """Everything that a vector depends on besides its text; equal identities give equal vectors.

    ``name`` is the route (``minilm``, ``sentence-transformers``, ``openai``, ``ollama``, ``fake``), ``model``
    the requested model. ``revision`` and ``weights_digest`` are empty if the route can't determine them.
    """

    name: str
    model: str
    revision: str = ""
    dtype: str = "float32"
    dimension: int
    max_tokens: int
    query_prefix: str = ""
    document_prefix: str = ""
    weights_digest: str = ""


class Embedder(Protocol):
    """Turns texts into unit vectors. Raises :class:`~branchrank.errors.ModelError` if that fails."""

    @property
    def identity(self) -> EmbedderIdentity:
        """Everything that the vectors depend on besides the texts."""

    def embed_documents(self, texts: Sequence[str], progress: Progress = no_progress) -> Vectors:
        """One unit row per text, in the order of ``texts``: float32, shape ``(len(texts), dimension)``.

        ``progress("embed", done, total)`` counts texts.
        """

    def embed_query(self, text: str) -> Vectors:
        """The unit vector of a query: float32, shape ``(dimension,)``."""


class DocumentVectors(NamedTuple):
    """The unit rows of n texts: ``vectors``, float32 ``(n, dimension)``, and each text's ``tokens``.

    ``tokens`` are float32 ``(tokens, d)`` each, in the order of the texts.
    """

    vectors: Vectors
    tokens: list[Vectors]


class TokenEmbedder(Embedder, Protocol):
    """An embedder that also gives a unit vector for each token of a text, for late interaction."""

    def embed_documents_and_tokens(
        self, texts: Sequence[str], progress: Progress = no_progress
    ) -> DocumentVectors:
        """The unit row of each text, as from ``embed_documents``, and the unit rows of its tokens.

        ``progress("embed", done, total)`` counts texts.
        """

    def embed_query_tokens(self, text: str) -> Vectors:
        """The unit rows of a query's tokens: float32, shape ``(tokens, d)``; there can be 0 rows."""


def unit_rows(vectors: Vectors, *, origin: str) -> Vectors:
    """Divide each row of an ``(n, d)`` array by its length.

    Raises :class:`ModelError` that names ``origin`` if a row is zero or not finite.
    """
    lengths = np.sqrt(np.square(vectors, dtype=np.float64).sum(axis=1, keepdims=True))
    if not np.isfinite(lengths).all() or not lengths.all():
        row = int(np.flatnonzero(~np.isfinite(lengths[:, 0]) | (lengths[:, 0] == 0))[0])
        raise ModelError(
            f"{origin} returned a vector of length {lengths[row, 0]} for text {row + 1} of {len(vectors)}",
            remedy="check the model, or choose another with --embedder",
        )
    unit: Vectors = (vectors / lengths).astype(np.float32)
    return unit


def vector_checksum(key: str, vector: bytes) -> bytes:
    """A checksum of 16 bytes over a vector's key and its bytes."""
    return hashlib.blake2b(vector, key=key.encode("ascii", "replace")[:64], digest_size=16).digest()
