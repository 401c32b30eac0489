"""A Redis that may be away: every wait is bounded, and a failure costs the cache, never the work.

The URL may set few options, for one could lift those bounds or change what is read. No error shows the URL's
text, in which a password that is not percent-encoded can stand anywhere.

After a failure Redis is left alone for half a minute, so that a server that is down or slow costs one timeout
and not one per call; that is said once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import parse_qsl, urlsplit

from branchrank.errors import MissingDependencyError, UsageError
from branchrank.progress import Notify

if TYPE_CHECKING:
    from redis import Redis

T = TypeVar("T")

#: Seconds that Redis has to accept a connection, and then for each answer.
TIMEOUT = 0.5
#: Seconds without a call to Redis after a failure.
PAUSE = 30.0
#: Seconds until an entry that nobody renewed expires.
EXPIRY = 30 * 24 * 3600
_SCHEMES = ("redis", "rediss", "unix")
_OPTIONS = ("db",)
_TLS_OPTIONS = ("ssl_cert_reqs", "ssl_ca_certs")


class RedisConnection:
    """The Redis at ``url``; safe to share between threads.

    Raises :class:`MissingDependencyError` without the package ``redis`` and :class:`UsageError` when ``url``
    is none of Redis or sets an option other than ``db`` and, of ``rediss``, ``ssl_cert_reqs`` and
    ``ssl_ca_certs``. ``purpose`` names what is kept there; ``notify`` hears of the first failure.
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
        """The result of ``call``, or ``None`` while Redis is left alone or when it fails."""
        from redis.exceptions import RedisError

        if time.monotonic() < self._resume_at:
            return None
        try:
            return call()
        except (RedisError, OSError, UnicodeError) as error:  # a host that can't be a name: UnicodeError
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
    """Raise :class:`UsageError` for a URL that is split elsewhere than was meant, or for an option."""
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
                f"the URL of the Redis cache sets {name!r}, which is not possible",
                remedy=f"leave the option out; {parts.scheme}:// takes {', '.join(allowed)}",
            )


def _no_url() -> UsageError:
    return UsageError(
        "not the URL of a Redis server",
        remedy="give redis://HOST:6379/0 (or rediss://, unix://); percent-encode / ? # and @ of a password",
    )
