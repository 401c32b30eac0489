"""A cache of token vectors, for candidates whose token vectors are not stored in the index.

1. Each key is a hash of the embedder's identity, the prefix and the exact text, as in the embedding cache.
2. The token vectors are quantized to int8 (:func:`branchrank.ranking.maxsim.quantize`). A text of 256 tokens
   takes about 100 kB if the vectors have 384 dimensions.
3. When the file reaches :data:`LIMIT_BYTES`, the oldest vectors are deleted to make room.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from branchrank.embedders.cache import cache_keys
from branchrank.embedders.protocol import TokenEmbedder, Vectors
from branchrank.embedders.sqlite_blobs import BlobLayout, SqliteBlobs
from branchrank.io.progress import Notify
from branchrank.ranking.maxsim import TokenVectors, quantize

#: The maximum size of the file, enough for about 10,000 chunks of 256 tokens with 384 dimensions.
LIMIT_BYTES = 1 << 30


def layout(limit_bytes: int = LIMIT_BYTES) -> BlobLayout:
    """Return the layout of the cache file. If ``limit_bytes`` is 0, the size is not limited."""
    return BlobLayout(
        what="token vectors",
        schema="CREATE TABLE embeddings (key TEXT PRIMARY KEY, vector BLOB NOT NULL, checksum BLOB NOT NULL)",
        application_id=0x42525456,
        limit_bytes=limit_bytes,
    )


class TokenCache:
    """A cache of int8 token vectors in one SQLite file. If reading fails, all texts are cache misses."""

    def __init__(
        self,
        path: Path,
        *,
        root: Path | None = None,
        limit_bytes: int = LIMIT_BYTES,
        notify: Notify | None = None,
    ) -> None:
        self._blobs = SqliteBlobs(path, layout(limit_bytes), root=root, notify=notify)

    def document_tokens(self, embedder: TokenEmbedder, texts: Sequence[str]) -> list[TokenVectors]:
        """Return the token vectors of each document. Documents that are not in the cache are embedded."""
        return self._cached(
            cache_keys(embedder.identity, embedder.identity.document_prefix, texts),
            texts,
            lambda missing: embedder.embed_documents_and_tokens(missing).tokens,
        )

    def close(self) -> None:
        """Close the file."""
        self._blobs.close()

    def _cached(
        self, keys: Sequence[str], texts: Sequence[str], embed: Callable[[Sequence[str]], Sequence[Vectors]]
    ) -> list[TokenVectors]:
        blobs = self._blobs.get_many(list(dict.fromkeys(keys)))
        known = {key: found for key, blob in blobs.items() if (found := _unpacked(blob)) is not None}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            rows = embed(list(missing.values()))
            fresh = {key: quantize(each, "int8") for key, each in zip(missing, rows, strict=True)}
            self._blobs.put_many({key: _packed(vectors) for key, vectors in fresh.items()})
            known |= fresh
        return [known[key] for key in keys]


def _packed(vectors: TokenVectors) -> bytes:
    """Return the token count, dimension, scales and token vectors of one text as little-endian bytes."""
    shape = np.array(vectors.values.shape, dtype="<u4").tobytes()
    return shape + vectors.scales.astype("<f4").tobytes() + vectors.values.tobytes()


def _unpacked(blob: bytes) -> TokenVectors | None:
    """Return the token vectors in the bytes ``blob``, or ``None`` if ``blob`` has the wrong length."""
    if len(blob) < 8:
        return None
    tokens, dimension = np.frombuffer(blob, dtype="<u4", count=2).tolist()
    if len(blob) != 8 + 4 * tokens + tokens * dimension:
        return None
    scales = np.frombuffer(blob, dtype="<f4", count=tokens, offset=8)
    values = np.frombuffer(blob, dtype=np.int8, offset=8 + 4 * tokens).reshape(tokens, dimension)
    return TokenVectors(values, scales)
