"""The decision cache in Redis, which several machines can share.

Each value in Redis is a cassette row, including its checksum, encoded as a JSON list. A value with an invalid
format, key or checksum counts as a cache miss and is overwritten. If Redis is unavailable, the run continues
without the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from branchrank.io.files import NOT_JSON
from branchrank.io.key_values import EXPIRY, RedisConnection
from branchrank.io.progress import Notify
from branchrank.llm.cassette import Recorded, call_key, intact, row_of
from branchrank.llm.request import LLMRequest


class RedisDecisions:
    """A decision cache that stores each LLM call in Redis under ``branchrank:decision:<key>``.

    ``url`` is the URL of the Redis server. A failed request to Redis counts as a cache miss. ``notify`` is
    called after the first failed request. Raises the same errors as :class:`RedisConnection`.
    """

    def __init__(
        self,
        url: str,
        *,
        expiry: int = EXPIRY,
        redact: Callable[[str], str] = lambda text: text,
        notify: Notify | None = None,
    ) -> None:
        self._redis = RedisConnection(url, purpose="decision cache", notify=notify)
        self._expiry = expiry
        self._redact = redact

    def __enter__(self) -> RedisDecisions:
        return self

    def __exit__(self, *exception: object) -> None:
        self._redis.close()

    def get(self, request: LLMRequest, model: str, endpoint: str) -> Recorded | None:
        """Return a call's cached outcome, or ``None`` if the value in Redis is missing or damaged."""
        key = call_key(request, model, endpoint)
        value: Any = self._redis.attempt(lambda: self._redis.client.get(_name(key)))
        if not isinstance(value, bytes):
            return None
        try:
            row = msgspec.json.decode(value, type=tuple[str, str, str, str, str, str])
        except NOT_JSON:
            return None
        return intact(row) if row[0] == key else None

    def put(self, request: LLMRequest, model: str, recorded: Recorded, endpoint: str) -> None:
        """Cache one call for ``expiry`` seconds."""
        row = row_of(request, model, recorded, self._redact, endpoint)
        value = msgspec.json.encode(row)
        self._redis.attempt(lambda: self._redis.client.set(_name(row[0]), value, ex=self._expiry))


def _name(key: str) -> str:
    return f"branchrank:decision:{key}"
