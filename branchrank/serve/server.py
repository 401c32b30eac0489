"""Serve an ASGI application over HTTP/1.1 in one process until a signal stops it.

1. The server listens before its URL is printed, so that clients can connect as soon as they see the URL.
2. A client is disconnected if it does not send complete headers within 10 seconds, or does not read the
   response within 20 seconds.
3. While more than 256 clients are connected, every request gets status 503 and its connection is closed.
4. After SIGINT or SIGTERM, the server accepts no new connections and gives running requests 30 seconds to
   finish.
"""

from __future__ import annotations

import asyncio
import socket

from branchrank.errors import MissingDependencyError, UsageError
from branchrank.serve.access import bracketed
from branchrank.serve.guard import Application, Receive, Scope, Send, answer, busy

try:
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError:
    raise MissingDependencyError("uvicorn", extra="serve", purpose="serving over HTTP") from None

IDLE_S = 30
GRACE_S = 30
CONNECTIONS = 256


class ImpatientProtocol(H11Protocol):
    """A subclass of uvicorn's HTTP/1.1 protocol that also disconnects slow clients.

    Clients must send complete headers within ``head_deadline_s`` seconds, and read a response within
    ``unread_deadline_s`` seconds.
    """

    head_deadline_s = 10.0
    unread_deadline_s = 20.0

    _head: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer for receiving the headers when a client connects."""
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Start the header timer when a request begins, and stop it when the headers are complete."""
        super().data_received(data)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers for headers and for unread responses when the client disconnects."""
        for timer in (self._head, self._unread):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Start the timer that disconnects a client that reads a response too slowly."""
        super().pause_writing()
        self._expect_reading()

    def resume_writing(self) -> None:
        """Stop the timer for unread responses, because the client has started to read again."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def on_response_complete(self) -> None:
        """Start the timer for unread responses if the client has not read the whole response."""
        super().on_response_complete()
        if self.transport.get_write_buffer_size():
            self._expect_reading()

    def _expect_head(self) -> None:
        """Run the header timer only while headers are incomplete."""
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
    """Open a listening socket. If ``port`` is 0, any free port is used.

    Raises :class:`UsageError` if the address or port can't be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=CONNECTIONS)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {host} port {port}: {error.strerror or error}",
            remedy="choose another address with --host and --port",
        ) from None


def url_of(host: str, listening: socket.socket) -> str:
    """Return the URL of a listening socket that is bound to ``host``."""
    return f"http://{bracketed(host)}:{listening.getsockname()[1]}"


def http_server(
    application: Application, *, protocol: type[ImpatientProtocol] = ImpatientProtocol
) -> uvicorn.Server:
    """Return a server for ``application`` that also limits the number of open connections.

    The server's method ``run(sockets=[...])`` serves requests until the process receives SIGINT or SIGTERM.
    Once the running requests have finished, ``run`` re-raises the signal that stopped the server.
    """

    # Uvicorn's own connection limit is not used, since it answers in plain text and without Retry-After.
    async def limited(scope: Scope, receive: Receive, send: Send) -> None:
        if len(server.server_state.connections) > CONNECTIONS:
            await answer(send, busy("too many clients are connected"))
        else:
            await application(scope, receive, send)

    config = uvicorn.Config(
        limited,
        http=protocol,
        loop="asyncio",
        ws="none",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=GRACE_S,
    )
    server = uvicorn.Server(config)
    return server
