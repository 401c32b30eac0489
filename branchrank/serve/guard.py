"""The guard in front of every HTTP application: access rules, body size, slow bodies.

1. A foreign ``Host`` is answered 421, a foreign ``Origin`` 403, a missing or wrong token 401. A browser's
   CORS preflight request from an allowed Origin is answered here without checking the token, which browsers
   do not send in it.
2. A body longer than the limit is answered 413, whether its length is declared or it is sent in chunks; one
   that isn't complete before the deadline is answered 408.
3. The application gets the complete body. Each refusal closes the connection.
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
#: Limits in bytes and seconds on reading a refused body, so that the client can read the refusal.
DISCARD_LIMIT = 16 * BODY_LIMIT
DISCARD_DEADLINE_S = 1.0
#: After how many seconds a client may try again when the server is overloaded.
RETRY_AFTER_S = 1

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class ErrorDetail(Record, frozen=True, kw_only=True):
    """``code`` is for programs, ``message`` for people."""

    code: str
    message: str


class ErrorAnswer(Record, frozen=True, kw_only=True):
    """The body of every answer that is not a success."""

    error: ErrorDetail


class Refusal(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, code: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.body = msgspec.json.encode(ErrorAnswer(error=ErrorDetail(code=code, message=message)))


def busy(message: str) -> Refusal:
    """The refusal of a request that the server has no room for; the client may send it again."""
    return Refusal(503, "busy", message, retry_after=str(RETRY_AFTER_S))


class Guard:
    """An ASGI application around another one."""

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
            raise Refusal(421, "wrong_host", "this server does not answer to that Host")
        if not self.access.answers_origin(_headers(scope, b"origin")):
            raise Refusal(403, "wrong_origin", "pages of that Origin may not ask this server")

    def _check_token(self, scope: Scope) -> None:
        if not self.access.answers_token(_headers(scope, b"authorization")):
            raise Refusal(
                401, "no_token", "send the token as Authorization: Bearer", www_authenticate="Bearer"
            )

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """Read the body; ``None`` when the client has disconnected."""
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
            raise Refusal(408, "slow_body", "the body took too long to arrive") from None

    def _too_large(self) -> Refusal:
        return Refusal(413, "body_too_large", f"a body may have {self.body_limit} bytes")


def _is_preflight(scope: Scope) -> bool:
    asks = _headers(scope, b"origin") and _headers(scope, b"access-control-request-method")
    return scope["method"] == "OPTIONS" and bool(asks)


def _always(scope: Scope) -> list[tuple[bytes, bytes]]:
    """Headers of every answer; they let a page with an allowed Origin (checked before) read the answer."""
    headers = [(b"x-content-type-options", b"nosniff")]
    for origin in _headers(scope, b"origin"):
        headers += [(b"access-control-allow-origin", origin.encode("latin-1")), (b"vary", b"origin")]
    return headers


async def _permit(scope: Scope, send: Send) -> None:
    """Answer a preflight request: the page may send its request."""
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
    """Read the rest of a body, within limits."""
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
    """Answer a request with a refusal and close its connection."""
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
