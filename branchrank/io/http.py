"""Make HTTP requests with limits on time and size, for the embedders and the ``api`` predictor.

1. A request goes only to the given URL, because redirects are not followed.
2. A single deadline covers connecting, TLS, sending the request and receiving the whole response. The
   deadline does not cover name resolution by the operating system.
3. Reading stops with an error if a response is longer than ``limit_bytes``.
4. A proxy that is set in environment variables is used, except for loopback addresses, which a proxy can't
   reach.
5. :func:`post_json` and :func:`get` open a connection for each request and close it afterwards.
   :class:`Transport` reuses connections, and is for libraries that use an httpx client.
6. Bodies are never decompressed, so a small compressed response can't exhaust the memory.

The error messages contain neither URLs nor headers, because URLs and headers can contain credentials. Callers
add the name of the endpoint to the message::

    HttpError
    +-- StatusError            the server responded with a status other than 2xx
    +-- UnreachableError       no connection (refused, unknown host, failed TLS, bad proxy or URL)
    +-- LostConnectionError    the connection broke, or the response is not HTTP; worth a retry
    +-- DeadlineError          no complete response within the deadline
    +-- OversizedError         the response is longer than the limit

This module imports httpcore, which takes about 50 ms. To keep startup fast, import this module only inside
functions that make requests.
"""

from __future__ import annotations

import functools
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self
from urllib.parse import unquote, urlsplit

import httpcore

from branchrank.io.keys import is_loopback

#: At most this many bytes of an error response's body are read.
ERROR_BODY_BYTES = 64 * 1024
_WRITTEN_AT_ONCE = 16 * 1024
_KEPT = 10
#: Response headers that do not apply to a body that has been read and decoded.
_BODY_HEADERS = (b"content-encoding", b"content-length", b"transfer-encoding")
_UNSENDABLE = "the URL or a header contains characters that HTTP does not allow"


class HttpError(Exception):
    """Error for a request that received no usable response.

    The message gives the reason, without the URL or any credentials.
    """


class StatusError(HttpError):
    """Error for a response with a status other than 2xx."""

    def __init__(self, status: int, reason: str, body: bytes, retry_after: str | None) -> None:
        super().__init__(f"HTTP {status} {reason}".rstrip())
        self.status = status
        self.reason = reason
        #: The first bytes of the response's body, at most :data:`ERROR_BODY_BYTES`.
        self.body = body
        #: The value of the header ``Retry-After``, or ``None``.
        self.retry_after = retry_after


class UnreachableError(HttpError):
    """Error for a connection that could not be opened."""


class LostConnectionError(HttpError):
    """Error for a connection that broke during the response, or for a response that is not HTTP."""


class DeadlineError(HttpError):
    """Error for a response that was not complete before the deadline."""


class OversizedError(HttpError):
    """Error for a response that is longer than the limit."""


def post_json(
    url: str, body: bytes, *, headers: Mapping[str, str], deadline_s: float, limit_bytes: int
) -> bytes:
    """POST a JSON body. Return the body of a 2xx response, and raise :class:`HttpError` otherwise."""
    sent = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    return _exchange("POST", url, body, sent, deadline_s, limit_bytes)


def get(url: str, *, headers: Mapping[str, str], deadline_s: float, limit_bytes: int) -> bytes:
    """GET a URL. Return the body of a 2xx response, and raise :class:`HttpError` otherwise."""
    return _exchange("GET", url, None, headers, deadline_s, limit_bytes)


class Answer(NamedTuple):
    """The status, headers and body of an HTTP response.

    The body of an error response is truncated to :data:`ERROR_BODY_BYTES` bytes.
    """

    status: int
    reason: str
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Connections:
    """Connections to the server that a URL refers to. Several threads can share one instance."""

    def __init__(self, url: str, *, keep: bool) -> None:
        self._network = _Network()
        self._pool = _pool(url, self._network, keep)

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()

    def exchange(
        self,
        method: str,
        url: str,
        body: bytes | None,
        headers: Mapping[str, str],
        *,
        deadline_s: float,
        limit_bytes: int,
    ) -> Answer:
        """Send one request and return the response, even if its status is an error.

        Raises :class:`HttpError` if no complete response arrives.
        """
        if not (url.isascii() and all(value.isascii() for value in headers.values())):
            raise UnreachableError(_UNSENDABLE)
        sent = {
            "Host": urlsplit(url).netloc.rpartition("@")[2],
            "User-Agent": "branchrank",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            **headers,
        }
        self._network.begin(deadline_s)
        try:
            with self._pool.stream(method, url, headers=list(sent.items()), content=body) as response:
                return _answer(response, limit_bytes)
        except httpcore.TimeoutException:
            raise DeadlineError(f"timed out: no complete answer within {deadline_s:g} s") from None
        except (httpcore.ConnectError, httpcore.ProxyError) as error:
            raise UnreachableError(str(error) or "no connection") from None
        except (httpcore.NetworkError, httpcore.RemoteProtocolError) as error:
            raise LostConnectionError(str(error) or "the connection was lost") from None
        except (httpcore.LocalProtocolError, httpcore.UnsupportedProtocol, ValueError):
            # The original error is dropped, because its text could contain the value of a header.
            raise UnreachableError(_UNSENDABLE) from None


class Transport:
    """A transport for ``httpx.Client(transport=...)`` that limits the time and the size of each response."""

    #: Request headers that are dropped, because :class:`Connections` sets its own.
    _OWN = frozenset(["host", "user-agent", "accept-encoding", "connection", "transfer-encoding"])

    def __init__(self, url: str, *, deadline_s: float, limit_bytes: int) -> None:
        self._connections = Connections(url, keep=True)
        self._deadline_s = deadline_s
        self._limit_bytes = limit_bytes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._connections.close()

    def handle_request(self, request: Any) -> Any:
        """Send an ``httpx.Request`` and return an ``httpx.Response`` whose body has been read."""
        import httpx

        try:
            answer = self._connections.exchange(
                request.method,
                str(request.url),
                request.read(),
                {name: value for name, value in request.headers.items() if name not in self._OWN},
                deadline_s=self._deadline_s,
                limit_bytes=self._limit_bytes,
            )
        except HttpError as error:
            raise httpx.TransportError(str(error), request=request) from None
        kept = [(name, value) for name, value in answer.headers if name.lower() not in _BODY_HEADERS]
        return httpx.Response(answer.status, headers=kept, content=answer.body, request=request)


def _exchange(
    method: str,
    url: str,
    body: bytes | None,
    headers: Mapping[str, str],
    deadline_s: float,
    limit_bytes: int,
) -> bytes:
    connections = Connections(url, keep=False)
    try:
        sent = {"Connection": "close", **headers}
        answer = connections.exchange(method, url, body, sent, deadline_s=deadline_s, limit_bytes=limit_bytes)
    finally:
        connections.close()
    if 200 <= answer.status < 300:
        return answer.body
    found = {name.lower(): value.decode("latin-1") for name, value in answer.headers}
    raise StatusError(answer.status, answer.reason, answer.body, found.get(b"retry-after"))


def _answer(response: httpcore.Response, limit_bytes: int) -> Answer:
    """Read a response, but at most :data:`ERROR_BODY_BYTES` bytes of the body of an error response."""
    phrase = response.extensions.get("reason_phrase", b"").decode("latin-1")
    reason = "".join(letter if letter.isprintable() else " " for letter in phrase)
    if 200 <= response.status < 300:
        body = _read(response.iter_stream(), limit_bytes)
        return Answer(response.status, reason, response.headers, body)
    read = bytearray()
    try:
        for piece in response.iter_stream():
            read += piece[: ERROR_BODY_BYTES - len(read)]
            if len(read) == ERROR_BODY_BYTES:
                break
    except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError):
        pass
    return Answer(response.status, reason, response.headers, bytes(read))


def _read(pieces: Iterable[bytes], limit_bytes: int) -> bytes:
    body = bytearray()
    for piece in pieces:
        body += piece
        if len(body) > limit_bytes:
            raise OversizedError(f"the answer is larger than {limit_bytes} bytes")
    return bytes(body)


def _pool(url: str, network: _Network, keep: bool) -> httpcore.ConnectionPool:
    """Return a connection pool for one server. The pool uses the environment's proxy, if one is set."""
    proxy = _proxy_for(url)
    if not proxy:
        return httpcore.ConnectionPool(
            ssl_context=_trusted(), max_keepalive_connections=_KEPT if keep else 0, network_backend=network
        )
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UnreachableError(
            "the proxy in HTTP_PROXY, HTTPS_PROXY or ALL_PROXY is not an http:// or https:// URL"
        )
    auth = (unquote(parts.username or ""), unquote(parts.password or "")) if parts.username else None
    return httpcore.HTTPProxy(
        f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}",
        proxy_auth=auth,
        ssl_context=_trusted(),
        max_keepalive_connections=_KEPT if keep else 0,
        network_backend=network,
    )


def _proxy_for(url: str) -> str:
    """Return the proxy for a URL from the environment variables, or an empty string if there is none."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host):
        return ""
    from urllib.request import getproxies, proxy_bypass

    if proxy_bypass(host):
        return ""
    proxies = getproxies()
    return proxies.get(parts.scheme) or proxies.get("all", "")


@functools.cache
def _trusted() -> ssl.SSLContext:
    """Return a TLS context with the certificates that the system trusts.

    The context is cached, because reading the certificates takes a few milliseconds.
    """
    return ssl.create_default_context()


class _Network(httpcore.NetworkBackend):
    """A network backend whose sockets time out at the current thread's deadline."""

    def __init__(self) -> None:
        self._request = threading.local()
        self._sockets = httpcore.SyncBackend()

    def begin(self, deadline_s: float) -> None:
        """Set the deadline for this thread's request."""
        self._request.deadline = time.monotonic() + deadline_s

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first address of ``host`` that accepts a connection."""
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from None
        for last, address in ((address is found[-1], str(address[4][0])) for address in found):
            try:
                stream = self._sockets.connect_tcp(address, port, self.left(), local_address, socket_options)
            except httpcore.ConnectError:
                if last:
                    raise
            else:
                return _Stream(stream, self)
        raise httpcore.ConnectError("the host has no address")

    def left(self) -> float:
        """Return the seconds until the deadline. Raises ``httpcore.ReadTimeout`` after the deadline."""
        left = float(self._request.deadline) - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout("timed out")
        return left


class _Stream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream, network: _Network) -> None:
        self._inner = inner
        self._network = network

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._network.left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # httpcore restarts the timeout at each write to the socket, so the buffer is sent in small parts.
        for start in range(0, len(buffer), _WRITTEN_AT_ONCE):
            self._inner.write(buffer[start : start + _WRITTEN_AT_ONCE], self._network.left())

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        stream = self._inner.start_tls(ssl_context, server_hostname, self._network.left())
        return _Stream(stream, self._network)

    def get_extra_info(self, info: str) -> object:
        return self._inner.get_extra_info(info)
