"""Caches of vectors and token vectors, so that unchanged texts are not embedded again.

1. The key of a vector is a SHA-256 hash of the embedder's identity, the prefix and the exact text.
2. Texts that are not in the cache are embedded in batches, and repeated texts are embedded only once. The
   vectors of a batch are written to the cache when the batch is complete, so an interrupted build loses
   little work.
3. A cached vector with the wrong dimension is treated as a cache miss and is overwritten.
4. Another file caches token vectors, for candidates whose token vectors are not stored in the index. Token
   vectors are quantized to int8 (:func:`branchrank.index.maxsim.quantize`). A text of 256 tokens takes
   about 100 kB if the vectors have 384 dimensions. When the file reaches :data:`LIMIT_BYTES`, the oldest
   vectors are deleted to make room.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from branchrank.core.io.files import digest_of
from branchrank.core.io.key_values import CacheFile, RedisValues, Values, cache_layout
from branchrank.core.io.progress import Notify, Progress, no_progress
from branchrank.index.embedders.protocol import Embedder, EmbedderIdentity, TokenEmbedder, Vectors
from branchrank.index.maxsim import TokenVectors, quantize

#: The number of texts that are embedded between two writes to the cache.
BATCH = 64
#: The number of keys that are looked up at once.
_BLOCK = 4096


EmbedBatches = Callable[[Sequence[Sequence[str]]], Iterable[Vectors]]

_VECTORS = cache_layout("embeddings", 0x4252454D)
_TOKENS = cache_layout("token vectors", 0x42525456, aging=True)
#: The maximum size of the file with token vectors, enough for about 10,000 chunks of 256 tokens with 384
#: dimensions.
LIMIT_BYTES = 1 << 30


class EmbeddingCache:
    """Vectors by key, in a file or in Redis. A failed read is a cache miss, and a failed write is ignored."""

    def __init__(self, values: Values) -> None:
        self._values = values

    def get_many(self, keys: Sequence[str], dimension: int) -> dict[str, Vectors]:
        """Return the cached vectors by key. Each vector is a float32 array of shape ``(dimension,)``.

        Keys whose vectors are missing, damaged or of another dimension are omitted.
        """
        return {
            key: np.frombuffer(content, dtype="<f4")
            for key, content in self._values.get_many(keys).items()
            if len(content) == 4 * dimension
        }

    def put_many(self, vectors: Mapping[str, Vectors]) -> None:
        """Store vectors under their keys, and replace existing vectors."""
        self._values.put_many({key: vector.astype("<f4").tobytes() for key, vector in vectors.items()})

    def close(self) -> None:
        """Close the file or the connection."""
        self._values.close()


def open_cache(
    path: Path, *, root: Path | None = None, redis_url: str = "", notify: Notify | None = None
) -> EmbeddingCache:
    """Open the cache in Redis at ``redis_url`` or, if ``redis_url`` is empty, in the SQLite file ``path``.

    ``root`` is the folder of the workspace. Symbolic links in ``path`` below ``root`` are not followed.
    """
    if redis_url:
        what = "embedding cache"
        return EmbeddingCache(RedisValues(redis_url, "branchrank:embedding:", what=what, notify=notify))
    return EmbeddingCache(CacheFile(path, _VECTORS, root=root, notify=notify))


def cache_keys(identity: EmbedderIdentity, prefix: str, texts: Sequence[str]) -> list[str]:
    """Return the cache key of each text. A cache key is a string of 64 hexadecimal digits."""
    space = hashlib.sha256(digest_of(identity).encode("ascii"))
    keys = []
    for text in texts:
        digest = space.copy()
        digest.update(f"{prefix}{text}".encode("utf-8", "surrogatepass"))
        keys.append(digest.hexdigest())
    return keys


def cached_documents(
    embedder: Embedder,
    cache: EmbeddingCache,
    texts: Sequence[str],
    progress: Progress = no_progress,
    embed_batches: EmbedBatches | None = None,
) -> Vectors:
    """Return the unit vectors of documents as a float32 array of shape ``(len(texts), dimension)``.

    Only texts that are not in the cache are embedded. ``embed_batches`` is a function that takes batches of
    texts and returns the vectors of each batch, in order. If ``embed_batches`` is ``None``, ``embedder``
    embeds one batch after another. ``progress("embed", done, total)`` is called with the number of texts that
    have a vector, including cached texts, and the total number of texts.
    """
    identity = embedder.identity
    keys = np.empty(len(texts), dtype="S64")
    for start in range(0, len(texts), _BLOCK):
        block = texts[start : start + _BLOCK]
        keys[start : start + len(block)] = cache_keys(identity, identity.document_prefix, block)
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    #: For each text, the position of the first text with the same key.
    original = first[place]
    rows = np.sort(first)
    result = np.empty((len(texts), identity.dimension), dtype=np.float32)
    missing: list[int] = []
    for start in range(0, len(rows), _BLOCK):
        block_rows = rows[start : start + _BLOCK].tolist()
        names = keys[block_rows].astype("U64").tolist()
        known = cache.get_many(names, identity.dimension)
        for row, name in zip(block_rows, names, strict=True):
            if name in known:
                result[row] = known[name]
            else:
                missing.append(row)
    done = len(texts) - len(missing)
    progress("embed", done, len(texts))
    batches = [missing[start : start + BATCH] for start in range(0, len(missing), BATCH)]
    texts_of = [[texts[row] for row in rows_of] for rows_of in batches]
    embedded = embed_batches(texts_of) if embed_batches else map(embedder.embed_documents, texts_of)
    for batch, vectors in zip(batches, embedded, strict=True):
        cache.put_many(dict(zip(keys[batch].astype("U64").tolist(), vectors, strict=True)))
        result[batch] = vectors
        done += len(batch)
        progress("embed", done, len(texts))
    repeated = np.flatnonzero(original != np.arange(len(texts)))
    result[repeated] = result[original[repeated]]
    return result


def cached_query(embedder: Embedder, cache: EmbeddingCache | None, text: str) -> Vectors:
    """Return the unit vector of the query ``text`` as a float32 array of shape ``(dimension,)``.

    The query is embedded unless its vector is in ``cache``.
    """
    if cache is None:
        return embedder.embed_query(text)
    identity = embedder.identity
    # The NUL character makes a query's key differ from the key of a document with the same text and prefix.
    (key,) = cache_keys(identity, f"\0{identity.query_prefix}", [text])
    known = cache.get_many([key], identity.dimension)
    if key not in known:
        known[key] = embedder.embed_query(text)
        cache.put_many(known)
    return known[key]


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
        self._file = CacheFile(path, _TOKENS, root=root, limit_bytes=limit_bytes, notify=notify)

    def document_tokens(self, embedder: TokenEmbedder, texts: Sequence[str]) -> list[TokenVectors]:
        """Return the token vectors of each document. Documents that are not in the cache are embedded."""
        keys = cache_keys(embedder.identity, embedder.identity.document_prefix, texts)
        blobs = self._file.get_many(list(dict.fromkeys(keys)))
        known = {key: found for key, blob in blobs.items() if (found := _unpacked(blob)) is not None}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            rows = embedder.embed_documents_and_tokens(list(missing.values())).tokens
            fresh = {key: quantize(each, "int8") for key, each in zip(missing, rows, strict=True)}
            self._file.put_many({key: _packed(vectors) for key, vectors in fresh.items()})
            known |= fresh
        return [known[key] for key in keys]

    def close(self) -> None:
        """Close the file."""
        self._file.close()


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
