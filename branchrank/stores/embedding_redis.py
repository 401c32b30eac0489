"""Embeddings kept in Redis, for machines that share them.

1. A value is 16 bytes of checksum and the vector's float32 bytes. A value of another type, length or checksum
   is a miss and is written anew. Nothing is pickled.
2. Every wait is bounded. After a failure Redis is left alone for half a minute, so that a server that is down
   or slow costs one timeout and not one per text; the work goes on without it, and that is said once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import numpy as np

from branchrank.errors import MissingDependencyError, UsageError
from branchrank.stores.embedders.protocol import Notify, Vectors, vector_checksum

if TYPE_CHECKING:
    from redis import Redis

T = TypeVar("T")

#: Seconds that Redis has to accept a connection, and then for each answer.
TIMEOUT = 0.5
#: Seconds without a call to Redis after a failure.
PAUSE = 30.0
#: Seconds until an entry that nobody renewed expires.
EXPIRY = 30 * 24 * 3600
_KEYS_PER_CALL = 500
_CHECKSUM_BYTES = 16


class RedisEmbeddingCache:
    """Vectors under ``branchrank:embedding:<key>`` in the Redis at ``url``.

    Raises :class:`MissingDependencyError` without the package ``redis`` and :class:`UsageError` when ``url``
    is none of Redis; later failures are misses. ``notify`` hears of the first.
    """

    def __init__(self, url: str, *, expiry: int = EXPIRY, notify: Notify | None = None) -> None:
        self._client = _client(url)
        self._shown = urlsplit(url).netloc.rpartition("@")[2] or urlsplit(url).path
        self._expiry = expiry
        self._notify = notify or (lambda line: None)
        self._lock = threading.Lock()
        self._resume_at = 0.0
        self._told = False

    def get_many(self, keys: Sequence[str], dimension: int) -> dict[str, Vectors]:
        """The vectors that are there and intact, each float32 of shape ``(dimension,)``."""
        found: dict[str, Vectors] = {}
        for start in range(0, len(keys), _KEYS_PER_CALL):
            part = keys[start : start + _KEYS_PER_CALL]
            values: Any = self._guarded(partial(self._client.mget, [_name(key) for key in part]))
            for key, value in zip(part, values or (), strict=False):
                if (vector := _vector(key, value, dimension)) is not None:
                    found[key] = vector
        return found

    def put_many(self, vectors: Mapping[str, Vectors]) -> None:
        """Keep vectors under their keys until they expire."""

        def store() -> None:
            pipeline = self._client.pipeline(transaction=False)
            for key, vector in vectors.items():
                content = vector.astype("<f4").tobytes()
                pipeline.set(_name(key), vector_checksum(key, content) + content, ex=self._expiry)
            for answer in pipeline.execute(raise_on_error=False):
                if isinstance(answer, Exception):  # raised by the pipeline, it would hold the value
                    raise answer

        self._guarded(store)

    def close(self) -> None:
        """Release the connections."""
        self._client.close()

    def _guarded(self, call: Callable[[], T]) -> T | None:
        """The result of ``call``, or ``None`` while Redis is left alone or when it fails."""
        from redis.exceptions import RedisError

        if time.monotonic() < self._resume_at:
            return None
        try:
            return call()
        except (RedisError, OSError) as error:
            with self._lock:
                self._resume_at = time.monotonic() + PAUSE
                tell, self._told = not self._told, True
            if tell:
                self._notify(f"the embedding cache at {self._shown} fails, going on without it: {error}")
            return None


def _client(url: str) -> Redis:
    try:
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError:
        raise MissingDependencyError("redis", extra="redis", purpose="the Redis cache") from None
    try:
        client: Redis = Redis.from_url(
            url,
            socket_timeout=TIMEOUT,
            socket_connect_timeout=TIMEOUT,
            retry=Retry(NoBackoff(), 0),
        )
    except ValueError as error:
        raise UsageError(
            f"not the URL of a Redis server: {error}", remedy="give redis://HOST:6379/0"
        ) from None
    return client


def _name(key: str) -> str:
    return f"branchrank:embedding:{key}"


def _vector(key: str, value: Any, dimension: int) -> Vectors | None:
    """The vector of an intact value, else ``None``."""
    if not isinstance(value, bytes) or len(value) != _CHECKSUM_BYTES + 4 * dimension:
        return None
    checksum, content = value[:_CHECKSUM_BYTES], value[_CHECKSUM_BYTES:]
    return np.frombuffer(content, dtype="<f4") if checksum == vector_checksum(key, content) else None
