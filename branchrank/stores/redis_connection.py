"""A Redis that may be away: every wait is bounded, and a failure costs the cache, never the work.

After a failure Redis is left alone for half a minute, so that a server that is down or slow costs one timeout
and not one per call; that is said once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from branchrank.errors import MissingDependencyError, UsageError
from branchrank.stores.embedders.protocol import Notify

if TYPE_CHECKING:
    from redis import Redis

T = TypeVar("T")

#: Seconds that Redis has to accept a connection, and then for each answer.
TIMEOUT = 0.5
#: Seconds without a call to Redis after a failure.
PAUSE = 30.0
#: Seconds until an entry that nobody renewed expires.
EXPIRY = 30 * 24 * 3600


class RedisConnection:
    """The Redis at ``url``; safe to share between threads.

    Raises :class:`MissingDependencyError` without the package ``redis`` and :class:`UsageError` when ``url``
    is none of Redis. ``purpose`` names what is kept there; ``notify`` hears of the first failure.
    """

    def __init__(self, url: str, *, purpose: str, notify: Notify | None = None) -> None:
        self.client = _client(url)
        self._purpose = purpose
        self._shown = urlsplit(url).netloc.rpartition("@")[2] or urlsplit(url).path
        self._notify = notify or (lambda line: None)
        self._lock = threading.Lock()
        self._resume_at = 0.0
        self._told = False

    def attempt(self, call: Callable[[], T]) -> T | None:
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
                self._notify(f"the {self._purpose} at {self._shown} fails, going on without it: {error}")
            return None

    def close(self) -> None:
        """Release the connections."""
        self.client.close()


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
