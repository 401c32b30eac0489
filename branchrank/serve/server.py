"""One process that serves an ASGI application over HTTP/1.1 until it is told to stop.

1. It listens before it is announced, so that a client that connects at once is answered.
2. A client that doesn't send a whole head, or doesn't read its answer, within the deadline is dropped.
3. SIGINT or SIGTERM: no new connections; what is under way is finished, within a grace period.
"""

from __future__ import annotations

import asyncio
import socket

from branchrank.errors import MissingDependencyError, UsageError
from branchrank.serve.access import bracketed
from branchrank.serve.guard import Application

try:
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError:
    raise MissingDependencyError("uvicorn", extra="serve", purpose="serving over HTTP") from None

IDLE_S = 30
GRACE_S = 30
CONNECTIONS = 256


class ImpatientProtocol(H11Protocol):
    """uvicorn's HTTP/1.1, with deadlines for clients that are slow to send a head or to read an answer."""

    head_deadline_s = 10.0
    unread_deadline_s = 20.0

    _head: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is there; its request is expected."""
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """A part of a request."""
        super().data_received(data)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        for timer in (self._head, self._unread):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Much is written and not yet read."""
        super().pause_writing()
        self._expect_reading()

    def resume_writing(self) -> None:
        """The client reads."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def on_response_complete(self) -> None:
        """All is written; some of it may not have been read."""
        super().on_response_complete()
        if self.transport.get_write_buffer_size():
            self._expect_reading()

    def _expect_head(self) -> None:
        """Start the timer between requests; stop it while one is under way."""
        if self.cycle is not None and not self.cycle.response_complete:
            if self._head is not None:
                self._head.cancel()
                self._head = None
        elif self._head is None:
            self._head = self.loop.call_later(self.head_deadline_s, self.transport.abort)

    def _expect_reading(self) -> None:
        if self._unread is None:
            self._unread = self.loop.call_later(self.unread_deadline_s, self._drop_unread)

    def _drop_unread(self) -> None:
        self._unread = None
        if self.transport.get_write_buffer_size():
            self.transport.abort()


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises :class:`UsageError` when it can't be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=CONNECTIONS)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {host} port {port}: {error.strerror or error}",
            remedy="choose another address with --host and --port",
        ) from None


def url_of(host: str, listening: socket.socket) -> str:
    """Where a socket bound to ``host`` is reached."""
    return f"http://{bracketed(host)}:{listening.getsockname()[1]}"


def http_server(
    application: Application, *, protocol: type[ImpatientProtocol] = ImpatientProtocol
) -> uvicorn.Server:
    """A server to ``run(sockets=[...])``: it serves until SIGINT or SIGTERM.

    The signal is raised again when everything under way has finished.
    """
    config = uvicorn.Config(
        application,
        http=protocol,
        loop="asyncio",
        ws="none",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=GRACE_S,
    )
    return uvicorn.Server(config)
