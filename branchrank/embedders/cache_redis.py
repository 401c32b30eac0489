"""An embedding cache in Redis, so that several machines can share the cache.

Each value in Redis consists of a 16-byte checksum, followed by the vector's numbers as float32. A value with
a wrong type, length or checksum is treated as a cache miss and is overwritten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from branchrank.embedders.protocol import Vectors, vector_checksum
from branchrank.io.key_values import EXPIRY, RedisConnection
from branchrank.io.progress import Notify

_KEYS_PER_CALL = 500
_CHECKSUM_BYTES = 16


class RedisEmbeddingCache:
    """An embedding cache on the Redis server at ``url``. Keys start with ``branchrank:embedding:``.

    The constructor raises the same errors as :class:`RedisConnection`. While Redis is not available, every
    lookup is a cache miss. ``notify`` is called only for the first failure.
    """

    def __init__(self, url: str, *, expiry: int = EXPIRY, notify: Notify | None = None) -> None:
        self._redis = RedisConnection(url, purpose="embedding cache", notify=notify)
        self._expiry = expiry

    def get_many(self, keys: Sequence[str], dimension: int) -> dict[str, Vectors]:
        """Return the cached vectors by key, omitting keys whose vectors are missing or damaged."""
        found: dict[str, Vectors] = {}
        for start in range(0, len(keys), _KEYS_PER_CALL):
            part = keys[start : start + _KEYS_PER_CALL]
            asked = partial(self._redis.client.mget, [_name(key) for key in part])
            values: Any = self._redis.attempt(asked)
            for key, value in zip(part, values or (), strict=False):
                if (vector := _vector(key, value, dimension)) is not None:
                    found[key] = vector
        return found

    def put_many(self, vectors: Mapping[str, Vectors]) -> None:
        """Store vectors under their keys until they expire."""

        def store() -> None:
            pipeline = self._redis.client.pipeline(transaction=False)
            for key, vector in vectors.items():
                content = vector.astype("<f4").tobytes()
                pipeline.set(_name(key), vector_checksum(key, content) + content, ex=self._expiry)
            for answer in pipeline.execute(raise_on_error=False):
                # With ``raise_on_error=True``, the error message would contain the bytes of the vector.
                if isinstance(answer, Exception):
                    raise answer

        self._redis.attempt(store)

    def close(self) -> None:
        """Close the connections."""
        self._redis.close()


def _name(key: str) -> str:
    return f"branchrank:embedding:{key}"


def _vector(key: str, value: Any, dimension: int) -> Vectors | None:
    """Return the vector that ``value`` contains, or ``None`` if ``value`` is missing or damaged."""
    if not isinstance(value, bytes) or len(value) != _CHECKSUM_BYTES + 4 * dimension:
        return None
    checksum, content = value[:_CHECKSUM_BYTES], value[_CHECKSUM_BYTES:]
    return np.frombuffer(content, dtype="<f4") if checksum == vector_checksum(key, content) else None
