"""Embeddings kept by what they depend on, so that an unchanged text costs nothing.

1. A vector's key is the SHA-256 of the embedder's identity and of the exact text, prefix included.
2. Texts that the cache lacks are embedded once each, in batches; a batch is kept as soon as it is done.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from branchrank.artifacts import digest_of
from branchrank.stores.embedders.protocol import Embedder, EmbedderIdentity, Progress, Vectors

#: Texts embedded between two commits: what a killed build can lose.
BATCH = 64


class EmbeddingCache(Protocol):
    """Keeps vectors by key. It never fails: what it can't read is a miss, what it can't write is skipped."""

    def get_many(self, keys: Sequence[str], dimension: int) -> dict[str, Vectors]:
        """The vectors that are there, each float32 of shape ``(dimension,)``."""

    def put_many(self, vectors: Mapping[str, Vectors]) -> None:
        """Keep vectors under their keys, replacing what is there."""

    def close(self) -> None:
        """Release the connection."""


def cache_keys(identity: EmbedderIdentity, prefix: str, texts: Sequence[str]) -> list[str]:
    """The key of each text as ``identity`` embeds it after ``prefix``: 64 hexadecimal digits."""
    space = hashlib.sha256(digest_of(identity).encode("ascii"))
    keys = []
    for text in texts:
        digest = space.copy()
        digest.update(f"{prefix}{text}".encode("utf-8", "surrogatepass"))
        keys.append(digest.hexdigest())
    return keys


def cached_documents(
    embedder: Embedder,
    cache: EmbeddingCache | None,
    texts: Sequence[str],
    progress: Progress | None = None,
) -> Vectors:
    """The documents' unit rows, float32 ``(len(texts), dimension)``; only what ``cache`` lacks is embedded.

    ``progress`` counts texts, those from the cache at once.
    """
    if cache is None:
        return embedder.embed_documents(texts, progress)
    identity = embedder.identity
    keys = cache_keys(identity, identity.document_prefix, texts)
    known = cache.get_many(list(dict.fromkeys(keys)), identity.dimension)
    missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
    done = len(texts) - len(missing)
    if progress is not None:
        progress(done, len(texts))
    pending = list(missing)
    for start in range(0, len(pending), BATCH):
        batch = pending[start : start + BATCH]
        rows = embedder.embed_documents([missing[key] for key in batch])
        fresh = dict(zip(batch, rows, strict=True))
        cache.put_many(fresh)
        known |= fresh
        done += len(batch)
        if progress is not None:
            progress(done, len(texts))
    result = np.empty((len(texts), identity.dimension), dtype=np.float32)
    for row, key in enumerate(keys):
        result[row] = known[key]
    return result


def cached_query(embedder: Embedder, cache: EmbeddingCache | None, text: str) -> Vectors:
    """A query's unit vector, float32 ``(dimension,)``; pass no cache to time the embedding itself."""
    if cache is None:
        return embedder.embed_query(text)
    identity = embedder.identity
    # The leading NUL keeps queries apart from documents of the same text and prefix.
    (key,) = cache_keys(identity, f"\0{identity.query_prefix}", [text])
    known = cache.get_many([key], identity.dimension)
    if key not in known:
        known[key] = embedder.embed_query(text)
        cache.put_many(known)
    return known[key]
