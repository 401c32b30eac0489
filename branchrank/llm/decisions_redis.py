"""LLM decisions kept in Redis, for machines that share them.

A value is the same row, checksum included, that a cassette holds, as a JSON list. A value of another shape,
key or checksum is a miss and is written anew. A Redis that is away costs the memory, not the run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from branchrank.llm.cassette import Recorded, call_key, intact, row_of
from branchrank.llm.request import LLMRequest
from branchrank.progress import Notify
from branchrank.redis_connection import EXPIRY, RedisConnection


class RedisDecisions:
    """Calls under ``branchrank:decision:<key>`` in the Redis at ``url``.

    Raises what :class:`RedisConnection` raises; later failures are misses. ``notify`` hears of the first.
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
        """The remembered call, or ``None`` when there is none, or none that is intact."""
        key = call_key(request, model, endpoint)
        value: Any = self._redis.attempt(lambda: self._redis.client.get(_name(key)))
        if not isinstance(value, bytes):
            return None
        try:
            row = msgspec.json.decode(value, type=tuple[str, str, str, str, str, str])
        except (msgspec.DecodeError, RecursionError):
            return None
        return intact(row) if row[0] == key else None

    def put(self, request: LLMRequest, model: str, recorded: Recorded, endpoint: str) -> None:
        """Keep one call until it expires."""
        row = row_of(request, model, recorded, self._redact, endpoint)
        value = msgspec.json.encode(row)
        self._redis.attempt(lambda: self._redis.client.set(_name(row[0]), value, ex=self._expiry))


def _name(key: str) -> str:
    return f"branchrank:decision:{key}"
