"""Send HTTP requests with httpx, with limits on time and size.

1. A request goes only to the given URL, because redirects are not followed.
2. A request has one deadline, which covers connecting, TLS, sending the request and receiving the
   whole response. The deadline does not cover name resolution by the operating system.
3. Reading stops with an error if a response is longer than the limit. The body of an error response is
   truncated to :data:`ERROR_BODY_BYTES` bytes.
4. Bodies are never decompressed, so a small compressed response can't exhaust the memory.
5. A proxy that is set in environment variables is used, except for loopback addresses, which a proxy can't
   reach.

Errors are those of httpx. The error messages contain neither URLs nor headers, because URLs and headers can
contain credentials. Callers add the name of the endpoint to the message.

This module imports httpx, which takes about 100 ms. To keep startup fast, import this module only inside
functions that make requests.
"""

from __future__ import annotations

import contextlib
import functools
import math
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from branchrank.io.environment import preserved_random_state
from branchrank.io.keys import is_loopback

with preserved_random_state():
    import httpcore
    import httpx

#: At most this many bytes of an error response's body are read.
ERROR_BODY_BYTES = 64 * 1024
HttpError = httpx.HTTPError
StatusError = httpx.HTTPStatusError
#: The errors of a connection that broke after it was opened. A retry can succeed.
LOST = (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)
_WRITTEN_AT_ONCE = 16 * 1024
#: Response headers that do not apply to a body that has been read and not decoded.
_BODY_HEADERS = ("content-encoding", "content-length", "transfer-encoding")
_UNSENDABLE = "the URL or a header contains characters that HTTP does not allow"


class OversizedError(httpx.TransportError):
    """Error for a response that is longer than the limit."""


def send(
    url: str,
    body: bytes | None = None,
    *,
    headers: Mapping[str, str],
    deadline_s: float,
    limit_bytes: int,
) -> bytes:
    """POST a JSON body, or GET the URL if ``body`` is ``None``. Return the body of a 2xx response.

    Raises ``httpx.HTTPError`` if there is no usable response, and ``httpx.HTTPStatusError`` for a response
    with a status other than 2xx.
    """
    sent = {"Accept": "application/json", **({"Content-Type": "application/json"} if body else {}), **headers}
    transport = BoundedTransport(url, limit_bytes=limit_bytes, deadline_s=deadline_s)
    with httpx.Client(transport=transport, trust_env=False) as client:
        try:
            response = client.request("GET" if body is None else "POST", url, content=body, headers=sent)
        except (httpx.InvalidURL, ValueError):
            # The original error is dropped, because its text could contain the value of a header.
            raise httpx.ConnectError(_UNSENDABLE) from None
    if not response.is_success:
        reason = "".join(letter if letter.isprintable() else " " for letter in response.reason_phrase)
        message = f"HTTP {response.status_code} {reason}".rstrip()
        raise httpx.HTTPStatusError(message, request=response.request, response=response)
    return response.content


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds in the Retry-After header, or ``None`` if there is no header, or one with a date."""
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


class BoundedTransport(httpx.HTTPTransport):
    """A transport for ``httpx.Client(transport=...)`` that limits the time and the size of each response.

    The deadline of a request is ``deadline_s`` or, if ``deadline_s`` is ``None``, the request's own timeout.
    """

    def __init__(self, url: str, *, limit_bytes: int, deadline_s: float | None = None) -> None:
        super().__init__(verify=_trusted(), trust_env=False, proxy=_proxy_for(url))
        self._limit_bytes = limit_bytes
        self._deadline_s = deadline_s
        # The public arguments of httpx have no way to set a deadline for a whole response.
        self._network = self._pool._network_backend = _Network()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and return the response, whose body has been read."""
        deadline_s = self._deadline_s or request.extensions["timeout"]["read"]
        request.headers["Accept-Encoding"] = "identity"
        self._network.begin(deadline_s)
        try:
            response = super().handle_request(request)
            with contextlib.closing(response):
                body = self._read(response)
        except httpx.TimeoutException:
            raise httpx.ReadTimeout(f"timed out: no complete answer within {deadline_s:g} s") from None
        except (httpx.LocalProtocolError, httpx.UnsupportedProtocol, ValueError):
            # The original error is dropped, because its text could contain the value of a header.
            raise httpx.ConnectError(_UNSENDABLE) from None
        except httpx.TransportError as error:
            raise type(error)(str(error) or "no connection") from None
        kept = [pair for pair in response.headers.multi_items() if pair[0].lower() not in _BODY_HEADERS]
        extensions = {"reason_phrase": response.extensions.get("reason_phrase", b"")}
        return httpx.Response(response.status_code, headers=kept, content=body, extensions=extensions)

    def interrupt(self) -> None:
        """Cut all open connections, so that requests in other threads fail at once."""
        self._network.interrupt()

    def _read(self, response: httpx.Response) -> bytes:
        limit = self._limit_bytes if response.is_success else ERROR_BODY_BYTES
        body = bytearray()
        # The start of an error's body is enough.
        suppressed = () if response.is_success else (httpx.TransportError,)
        with contextlib.suppress(*suppressed):
            for piece in response.iter_raw():
                body += piece
                if len(body) > limit and response.is_success:
                    raise OversizedError(f"the answer is larger than {limit} bytes")
                if len(body) > limit:
                    break
        return bytes(body[:limit])


def _proxy_for(url: str) -> str | None:
    """Return the proxy for a URL from the environment variables, or ``None`` if there is none."""
    parts = urlsplit(url)
    if is_loopback(parts.hostname or ""):
        return None
    from urllib.request import getproxies, proxy_bypass

    if proxy_bypass(parts.hostname or ""):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all", "")
    if not proxy:
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if urlsplit(proxy).scheme not in ("http", "https") or not urlsplit(proxy).hostname:
        raise httpx.ConnectError(
            "the proxy in HTTP_PROXY, HTTPS_PROXY or ALL_PROXY is not an http:// or https:// URL"
        )
    return proxy


@functools.cache
def _trusted() -> ssl.SSLContext:
    """Return a TLS context with the certificates that the system trusts.

    The context is cached, because reading the certificates takes a few milliseconds.
    """
    return ssl.create_default_context()


class _Network(httpcore.SyncBackend):
    """A network backend whose sockets time out at the current thread's deadline."""

    def __init__(self) -> None:
        self._request = threading.local()
        self._streams: weakref.WeakSet[_Stream] = weakref.WeakSet()

    def begin(self, deadline_s: float) -> None:
        """Set the deadline for this thread's request."""
        self._request.deadline = time.monotonic() + deadline_s

    def left(self) -> float:
        """Return the seconds until the deadline. Raises ``httpcore.ReadTimeout`` after the deadline."""
        left = float(self._request.deadline) - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout("timed out")
        return left

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        return self.watched(super().connect_tcp(host, port, self.left(), local_address, socket_options))

    def watched(self, stream: httpcore.NetworkStream) -> _Stream:
        """Return a stream that times out at the deadline and that :meth:`interrupt` closes."""
        watched = _Stream(stream, self)
        self._streams.add(watched)
        return watched

    def interrupt(self) -> None:
        for stream in list(self._streams):
            with contextlib.suppress(OSError):
                stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)


class _Stream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream, network: _Network) -> None:
        self._inner = inner
        self._network = network
        self.close = inner.close  # type: ignore[method-assign]
        self.get_extra_info = inner.get_extra_info  # type: ignore[method-assign]

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._network.left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # httpcore restarts the timeout at each write to the socket, so the buffer is sent in small parts.
        for start in range(0, len(buffer), _WRITTEN_AT_ONCE):
            self._inner.write(buffer[start : start + _WRITTEN_AT_ONCE], self._network.left())

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: Any = None
    ) -> httpcore.NetworkStream:
        return self._network.watched(
            self._inner.start_tls(ssl_context, server_hostname, self._network.left())
        )
