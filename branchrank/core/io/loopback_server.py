"""Check each HTTP request against the access rules, and serve an ASGI application until a signal stops it.

1. The server listens before its URL is printed, so that clients can connect as soon as they see the URL.
2. The guard responds with status 421 to a forbidden ``Host``, with 403 to a forbidden ``Origin``, and with
   401 to a missing or invalid token. CORS preflight requests need no token, because browsers never send a
   token with these requests.
3. The guard responds with 413 if the body exceeds the size limit. The application gets a request's body in
   one piece. After refusing a request, the guard closes the connection.
4. A connection that sends no complete request within 10 seconds is closed. If more than 512 connections are
   open, the one that has waited longest for a complete request is closed.
5. After SIGINT or SIGTERM, the server accepts no new connections and gives running requests 30 seconds to
   finish.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Container

import h11
import msgspec
import uvicorn
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from branchrank.core.errors import UsageError
from branchrank.core.io.keys import Access, bracketed
from branchrank.core.records import Record

BODY_LIMIT = 1024 * 1024
#: The body of a refused request is read up to these limits, so that the client can read the error response.
DISCARD_LIMIT = 16 * BODY_LIMIT
DISCARD_DEADLINE_S = 1.0
#: The number of seconds that a client should wait before it repeats a request to an overloaded server.
RETRY_AFTER_S = 1
#: The number of seconds in which a connection must send its next request.
REQUEST_S = 10
GRACE_S = 30
CONNECTIONS = 512


class ErrorDetail(Record, frozen=True, kw_only=True):
    """An API error, with a ``code`` for programs and a ``message`` for people."""

    code: str
    message: str


class ErrorAnswer(Record, frozen=True, kw_only=True):
    """The body of every error response."""

    error: ErrorDetail


class Refusal(Exception):
    """An error response to a request, with status, headers and JSON body."""

    def __init__(self, status: int, code: str, message: str, **headers: str) -> None:
        super().__init__(message)
        body = msgspec.json.encode(ErrorAnswer(error=ErrorDetail(code=code, message=message)))
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.response = Response(body, status, named, media_type="application/json")

    def closing(self) -> Response:
        """Return the response, with the headers of a connection that the server closes."""
        self.response.headers.update({"x-content-type-options": "nosniff", "connection": "close"})
        return self.response


def busy(message: str) -> Refusal:
    """Return an error response with status 503 (server overloaded) and a ``Retry-After`` header."""
    return Refusal(503, "busy", message, retry_after=str(RETRY_AFTER_S))


class Guard:
    """An ASGI application that checks each request before it calls another application."""

    def __init__(
        self, application: ASGIApp, access: Access, *, flags: bool = True, public: Container[str] = ()
    ) -> None:
        """Wrap ``application``. With ``flags``, the command has flags that allow more hosts and origins.

        The paths in ``public`` can be read without the token, and with any ``Origin``, because browsers send
        that of the page with the request for a module.
        """
        self.application = CORSMiddleware(
            application,
            allow_origins=access.origins,
            allow_methods=("GET", "POST", "DELETE"),
            allow_headers=("*",),
        )
        self.access = access
        self._public = public
        self._fixes = ("; allow it with --allowed-host", "; allow it with --allowed-origin")
        if not flags:
            self._fixes = ("", "")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it to the application."""
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        headers = Headers(scope=scope)
        # The same condition as that of CORSMiddleware, which answers these requests itself.
        is_preflight = scope["method"] == "OPTIONS" and {"origin", "access-control-request-method"} <= {
            *headers
        }

        async def safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = MutableHeaders(raw=message.setdefault("headers", []))
                added["x-content-type-options"] = "nosniff"
            await send(message)

        is_public = scope["path"] in self._public and scope["method"] in ("GET", "HEAD")
        try:
            self._check_host(headers)
            if not is_public:
                self._check_origin(headers)
            if not is_public and not is_preflight:
                self._check_token(headers)
            body = await self._body(headers, receive)
        except Refusal as refusal:
            if "expect" not in headers:
                await _discard(receive)
            await refusal.closing()(scope, receive, send)
            return
        if body is None:
            return
        pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def whole() -> Message:
            return pending.pop() if pending else await receive()

        await self.application(scope, whole, safely)

    def _check_host(self, headers: Headers) -> None:
        if not self.access.answers_host(headers.getlist("host")):
            message = "the Host header is not an allowed name of this server"
            raise Refusal(421, "wrong_host", message + self._fixes[0])

    def _check_origin(self, headers: Headers) -> None:
        if not self.access.answers_origin(headers.getlist("origin")):
            message = "pages from this Origin may not send requests"
            raise Refusal(403, "wrong_origin", message + self._fixes[1])

    def _check_token(self, headers: Headers) -> None:
        if not self.access.answers_token(headers.getlist("authorization")):
            message = "the token is missing or wrong; send it in the header Authorization: Bearer TOKEN"
            raise Refusal(401, "no_token", message, www_authenticate="Bearer")

    async def _body(self, headers: Headers, receive: Receive) -> bytes | None:
        """Read and return the body, or return ``None`` if the client has disconnected."""
        too_large = Refusal(413, "body_too_large", f"the body is larger than {BODY_LIMIT} bytes")
        if int(headers.get("content-length", "0")) > BODY_LIMIT:
            raise too_large
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return None
            body += message.get("body", b"")
            if len(body) > BODY_LIMIT:
                raise too_large
            if not message.get("more_body", False):
                return bytes(body)


async def _discard(receive: Receive) -> None:
    """Read and discard the rest of a body, up to the limits for discarded bodies."""
    taken, more = 0, True
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_DEADLINE_S):
            while more and taken <= DISCARD_LIMIT:
                message = await receive()
                taken += len(message.get("body", b""))
                more = message.get("more_body", False)


def listen(
    host: str, port: int, remedy: str = "choose another address with --host and --port"
) -> socket.socket:
    """Open a listening socket. If ``port`` is 0, any free port is used.

    Raises :class:`UsageError`, with the remedy, if the address or port can't be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=CONNECTIONS)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {host} port {port}: {error.strerror or error}",
            remedy=remedy,
        ) from None


def url_of(host: str, listening: socket.socket) -> str:
    """Return the URL of a listening socket that is bound to ``host``."""
    return f"http://{bracketed(host)}:{listening.getsockname()[1]}"


class _Protocol(H11Protocol):
    """Uvicorn's protocol, with limits for connections that wait, and no traceback for an invalid request.

    Uvicorn has a deadline only for a connection that sends nothing after a response. Its error response does
    not fit a ``HEAD`` request or a response that has begun, and the application must not respond after it.
    """

    #: When the connection began to wait for a complete request, or 0 while a request is being answered.
    since: float = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Limit the number of connections."""
        super().connection_made(transport)
        self._wait()
        if len(self.connections) > CONNECTIONS:
            waiting = [each for each in self.connections if isinstance(each, _Protocol) and each.since]
            min(waiting, key=lambda each: each.since).transport.abort()

    def handle_events(self) -> None:
        """Note whether a request is complete."""
        super().handle_events()
        if self.cycle and not (self.cycle.more_body or self.cycle.response_complete):
            self.since = 0.0

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._wait()
        super().on_response_complete()

    def _wait(self) -> None:
        self.since = self.loop.time()
        self.loop.call_later(REQUEST_S, self._close_late, self.since)

    def _close_late(self, since: float) -> None:
        if self.since == since:
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Respond with status 400 if that is still possible, and close the connection."""
        if self.cycle is not None:
            self.cycle.disconnected = True
        with contextlib.suppress(h11.LocalProtocolError):
            super().send_400_response(msg)
        self.transport.close()


def http_server(application: ASGIApp) -> uvicorn.Server:
    """Return a server for ``application`` that limits the number of connections.

    The server's method ``run(sockets=[...])`` serves requests until the process receives SIGINT or SIGTERM.
    Once the running requests have finished, ``run`` re-raises the signal that stopped the server.
    """
    # Uvicorn's own connection limit is not used, since it also counts connections that only wait.
    config = uvicorn.Config(
        application,
        http=_Protocol,
        loop="asyncio",
        ws="none",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=REQUEST_S,
        timeout_graceful_shutdown=GRACE_S,
    )
    return uvicorn.Server(config)
