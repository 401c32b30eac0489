"""A connection to Redis with timeouts. If Redis is unavailable, commands continue without the cache.

The URL may set only a few options, because other options could remove the timeouts or change how data is
read. Error messages do not show the URL, because a password that is not percent-encoded can appear in any
part of the URL.

After a failure, Redis is not called for 30 seconds, so that a stopped server does not delay every call. Only
the first failure is reported to the user.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import parse_qsl, urlsplit

from branchrank.errors import MissingDependencyError, UsageError
from branchrank.io.progress import Notify

if TYPE_CHECKING:
    from redis import Redis

T = TypeVar("T")

#: Timeout in seconds for connecting to Redis and for each answer from Redis.
TIMEOUT = 0.5
#: Number of seconds during which Redis is not called after a failure.
PAUSE = 30.0
#: A cache entry expires this many seconds after it was last written.
EXPIRY = 30 * 24 * 3600
_SCHEMES = ("redis", "rediss", "unix")
_OPTIONS = ("db",)
_TLS_OPTIONS = ("ssl_cert_reqs", "ssl_ca_certs")


class RedisConnection:
    """A connection to the Redis server at ``url``. Threads can share the connection.

    ``purpose`` describes the data that is stored in Redis, for use in messages. ``notify`` is called at the
    first failure. The URL may set the ``db`` option. A ``rediss`` URL may also set ``ssl_cert_reqs`` and
    ``ssl_ca_certs``. Raises :class:`MissingDependencyError` if the package ``redis`` is not installed, and
    :class:`UsageError` if ``url`` is not a Redis URL or sets an option that is not allowed.
    """

    def __init__(self, url: str, *, purpose: str, notify: Notify | None = None) -> None:
        self.client = _client(url)
        self._purpose = purpose
        parts = urlsplit(url)
        self._shown = parts.netloc.rpartition("@")[2] or parts.path
        self._notify = notify or (lambda line: None)
        self._lock = threading.Lock()
        self._resume_at = 0.0
        self._told = False

    def attempt(self, call: Callable[[], T]) -> T | None:
        """Return the result of ``call``, or ``None`` if ``call`` fails.

        During the pause after a failure, ``call`` is not executed, and the result is ``None``.
        """
        from redis.exceptions import RedisError

        if time.monotonic() < self._resume_at:
            return None
        try:
            return call()
        except (RedisError, OSError, UnicodeError) as error:  # an invalid host name raises UnicodeError
            with self._lock:
                self._resume_at = time.monotonic() + PAUSE
                tell, self._told = not self._told, True
            if tell:
                self._notify(
                    f"the {self._purpose} at {self._shown} is not available; continuing without it: {error}"
                )
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
    _check(url)
    try:
        client: Redis = Redis.from_url(
            url,
            socket_timeout=TIMEOUT,
            socket_connect_timeout=TIMEOUT,
            retry=Retry(NoBackoff(), 0),
        )
    except ValueError:
        raise _no_url() from None
    return client


def _check(url: str) -> None:
    """Raise :class:`UsageError` if the URL is not a Redis URL or sets an option that is not allowed."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _no_url() from None
    if parts.scheme not in _SCHEMES or "@" in parts.path + parts.query + parts.fragment:
        raise _no_url()
    allowed = (*_OPTIONS, *_TLS_OPTIONS) if parts.scheme == "rediss" else _OPTIONS
    for name, _ in parse_qsl(parts.query, keep_blank_values=True):
        if name not in allowed:
            raise UsageError(
                f"the URL of the Redis cache sets the option {name!r}, which is not allowed",
                remedy=f"remove the option; {parts.scheme}:// accepts only {', '.join(allowed)}",
            )


def _no_url() -> UsageError:
    return UsageError(
        "the URL of the Redis cache is not a Redis URL",
        remedy="use redis://HOST:6379/0 (or rediss://, unix://), and percent-encode / ? # and @ in a "
        "password",
    )
