"""Check each request against the access rules, and pass it with its whole body to an HTTP application.

1. The guard responds with status 421 to a forbidden ``Host``, with 403 to a forbidden ``Origin``, and with
   401 to a missing or invalid token. CORS preflight requests need no token, because browsers never send a
   token with these requests.
2. The guard responds with 413 if the body exceeds the size limit, and with 408 if the body is incomplete at
   the deadline.
3. The application gets a request's body in one piece. After refusing a request, the guard closes the
   connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from branchrank.records import Record
from branchrank.serve.access import Access

BODY_LIMIT = 1024 * 1024
BODY_DEADLINE_S = 10.0
#: The body of a refused request is read up to these limits, so that the client can read the error response.
DISCARD_LIMIT = 16 * BODY_LIMIT
DISCARD_DEADLINE_S = 1.0
#: The number of seconds that a client should wait before it repeats a request to an overloaded server.
RETRY_AFTER_S = 1

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


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
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.body = msgspec.json.encode(ErrorAnswer(error=ErrorDetail(code=code, message=message)))


def busy(message: str) -> Refusal:
    """Return an error response with status 503 (server overloaded) and a ``Retry-After`` header."""
    return Refusal(503, "busy", message, retry_after=str(RETRY_AFTER_S))


class Guard:
    """An ASGI application that checks each request before it calls another application."""

    def __init__(
        self,
        application: Application,
        access: Access,
        *,
        body_limit: int = BODY_LIMIT,
        body_deadline_s: float = BODY_DEADLINE_S,
    ) -> None:
        self.application = application
        self.access = access
        self.body_limit = body_limit
        self.body_deadline_s = body_deadline_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it to the application."""
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        try:
            self._check_place(scope)
            if _is_preflight(scope):
                await _permit(scope, send)
                return
            self._check_token(scope)
            body = await self._body(scope, receive)
        except Refusal as refusal:
            if not _headers(scope, b"expect"):
                await _discard(receive)
            await answer(send, refusal)
            return
        if body is None:
            return
        pending = [{"type": "http.request", "body": body, "more_body": False}]

        async def whole() -> Message:
            return pending.pop() if pending else await receive()

        async def safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_always(scope)]
            await send(message)

        await self.application(scope, whole, safely)

    def _check_place(self, scope: Scope) -> None:
        if not self.access.answers_host(_headers(scope, b"host")):
            raise Refusal(
                421,
                "wrong_host",
                "the Host header is not an allowed name of this server; allow it with --allowed-host",
            )
        if not self.access.answers_origin(_headers(scope, b"origin")):
            raise Refusal(
                403,
                "wrong_origin",
                "pages from this Origin may not send requests; allow it with --allowed-origin",
            )

    def _check_token(self, scope: Scope) -> None:
        if not self.access.answers_token(_headers(scope, b"authorization")):
            raise Refusal(
                401,
                "no_token",
                "the token is missing or wrong; send it in the header Authorization: Bearer TOKEN",
                www_authenticate="Bearer",
            )

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """Read and return the body, or return ``None`` if the client has disconnected."""
        declared = _headers(scope, b"content-length")
        if declared and int(declared[0]) > self.body_limit:
            raise self._too_large()
        body = bytearray()
        try:
            async with asyncio.timeout(self.body_deadline_s):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        return None
                    body += message.get("body", b"")
                    if len(body) > self.body_limit:
                        raise self._too_large()
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            raise Refusal(
                408, "slow_body", f"the body was not complete after {self.body_deadline_s:g} seconds"
            ) from None

    def _too_large(self) -> Refusal:
        return Refusal(413, "body_too_large", f"the body is larger than {self.body_limit} bytes")


def _is_preflight(scope: Scope) -> bool:
    asks = _headers(scope, b"origin") and _headers(scope, b"access-control-request-method")
    return scope["method"] == "OPTIONS" and bool(asks)


def _always(scope: Scope) -> list[tuple[bytes, bytes]]:
    """Return the headers to add to every response, including the CORS headers for an allowed origin."""
    headers = [(b"x-content-type-options", b"nosniff")]
    for origin in _headers(scope, b"origin"):
        headers += [(b"access-control-allow-origin", origin.encode("latin-1")), (b"vary", b"origin")]
    return headers


async def _permit(scope: Scope, send: Send) -> None:
    """Answer a CORS preflight request, so that the browser sends the actual request."""
    wanted = ", ".join(_headers(scope, b"access-control-request-headers"))
    headers = [
        *_always(scope),
        (b"access-control-allow-methods", b"GET, POST, DELETE"),
        (b"access-control-allow-headers", wanted.encode("latin-1")),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body"})


def _headers(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


async def _discard(receive: Receive) -> None:
    """Read and discard the rest of a body, up to the limits for discarded bodies."""
    taken = 0
    try:
        async with asyncio.timeout(DISCARD_DEADLINE_S):
            while taken <= DISCARD_LIMIT:
                message = await receive()
                taken += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return
    except TimeoutError:
        return


async def answer(send: Send, refusal: Refusal) -> None:
    """Respond to a request with an error, and close the connection."""
    headers = {
        "content-type": "application/json",
        "content-length": str(len(refusal.body)),
        "x-content-type-options": "nosniff",
        "connection": "close",
        **refusal.headers,
    }
    encoded = [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": encoded})
    await send({"type": "http.response.body", "body": refusal.body})
