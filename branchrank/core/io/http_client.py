"""Send HTTP requests with httpx2, with limits on time and size.

1. A request goes only to the given URL, because redirects are not followed.
2. A request has one deadline, which covers connecting, TLS, sending the request and receiving the
   whole response. The deadline does not cover name resolution by the operating system.
3. Reading stops with an error if a response is longer than the limit. The body of an error response is
   truncated to :data:`ERROR_BODY_BYTES` bytes.
4. Bodies are never decompressed, so a small compressed response can't exhaust the memory.
5. A proxy that is set in environment variables is used, except for loopback addresses, which a proxy can't
   reach.

Errors are those of httpx2. The error messages contain neither URLs nor headers, because URLs and headers can
contain credentials. Callers add the name of the endpoint to the message.

To keep startup fast, import this module only inside functions that make requests. It imports httpx2, and
:func:`open_sdk` imports openai, which takes seven times as long.
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
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpcore2
import httpx2
import msgspec

from branchrank.core.errors import UsageError
from branchrank.core.io import temporary_environment
from branchrank.core.io.keys import Endpoint, is_loopback

if TYPE_CHECKING:
    from openai import OpenAI

#: At most this many bytes of an error response's body are read.
ERROR_BODY_BYTES = 64 * 1024
#: The errors of a connection that broke after it was opened. A retry can succeed.
LOST = (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError)
_WRITTEN_AT_ONCE = 16 * 1024
#: Response headers that do not apply to a body that has been read and not decoded.
_BODY_HEADERS = ("content-encoding", "content-length", "transfer-encoding")
_UNSENDABLE = "the URL or a header contains characters that HTTP does not allow"
#: The headers from the ``openai`` package that are sent. Others describe the machine or the account.
_SDK_HEADERS = {"host", "connection", "accept", "user-agent", "content-type", "content-length"}


class OversizedError(httpx2.TransportError):
    """Error for a response that is longer than the limit."""


def send(
    url: str,
    body: object = None,
    *,
    headers: Mapping[str, str],
    deadline_s: float,
    limit_bytes: int,
) -> bytes:
    """POST ``body`` as JSON, or GET the URL if ``body`` is ``None``. Return the body of a 2xx response.

    Raises ``httpx2.HTTPError`` if there is no usable response, and ``httpx2.HTTPStatusError`` for a response
    with a status other than 2xx.
    """
    content = None if body is None else msgspec.json.encode(body)
    sent = {"Accept": "application/json", "Content-Type": "application/json", **headers}
    transport = BoundedTransport(url, limit_bytes=limit_bytes, deadline_s=deadline_s)
    with httpx2.Client(transport=transport, trust_env=False) as client:
        try:
            response = client.request("GET" if body is None else "POST", url, content=content, headers=sent)
        except (httpx2.InvalidURL, ValueError):
            # The original error is dropped, because its text could contain the value of a header.
            raise httpx2.ConnectError(_UNSENDABLE) from None
    if not response.is_success:
        message = f"HTTP {response.status_code} {response.reason_phrase}".rstrip()
        raise httpx2.HTTPStatusError(message, request=response.request, response=response)
    return response.content


def open_sdk(endpoint: Endpoint, transport: BoundedTransport) -> OpenAI:
    """Return a client of the ``openai`` package whose requests go through ``transport``. Close it after use.

    The client sends the endpoint's credentials and query parameters, makes no retries, and reads no
    environment variables. Raises :class:`UsageError` if the endpoint's URL is invalid.
    """

    def set_headers(request: httpx2.Request) -> None:
        for name in request.headers.keys() - _SDK_HEADERS:
            del request.headers[name]
        if endpoint.authorization:
            request.headers["Authorization"] = endpoint.authorization

    hooks = {"request": [set_headers]}
    http = httpx2.Client(params=endpoint.query, transport=transport, trust_env=False, event_hooks=hooks)
    # The package reads each of these from an environment variable if it is not given. None of them is sent.
    given = ("api_key", "admin_api_key", "organization", "project", "webhook_secret")
    unsent: dict[str, Any] = dict.fromkeys(given, "unsent")
    with temporary_environment(OPENAI_LOG="", OPENAI_CUSTOM_HEADERS=""):
        import openai

        try:
            return openai.OpenAI(base_url=endpoint.url, http_client=http, max_retries=0, **unsent)
        except httpx2.InvalidURL as error:
            raise UsageError(
                f"{endpoint.url!r} is not a URL: {error}", remedy="use one such as http://127.0.0.1:8080/v1"
            ) from None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait by the Retry-After header, or ``None`` without a valid header.

    A date has no fraction of a second, so the wait lasts until the end of its second.
    """
    text = headers.get("retry-after", "")
    try:
        seconds = float(text)
    except ValueError:
        try:
            date = parsedate_to_datetime(text)
        except (ValueError, TypeError, OverflowError):
            return None
        seconds = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() + 1 - time.time()
    return max(0.0, seconds) if math.isfinite(seconds) else None


class BoundedTransport(httpx2.HTTPTransport):
    """A transport for ``httpx2.Client(transport=...)`` that limits the time and the size of each response.

    The deadline of a request is ``deadline_s`` or, if ``deadline_s`` is ``None``, the request's own timeout.
    """

    def __init__(self, url: str, *, limit_bytes: int, deadline_s: float | None = None) -> None:
        super().__init__(verify=_trusted(), trust_env=False, proxy=_proxy_for(url))
        self._limit_bytes = limit_bytes
        self._deadline_s = deadline_s
        # The public arguments of httpx2 have no way to set a deadline for a whole response.
        self._network = self._pool._network_backend = _Network()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request and return the response, whose body has been read."""
        deadline_s = self._deadline_s or request.extensions["timeout"]["read"]
        request.headers["Accept-Encoding"] = "identity"
        self._network.begin(deadline_s)
        try:
            response = super().handle_request(request)
            with contextlib.closing(response):
                body = self._read(response)
        except httpx2.TimeoutException:
            raise httpx2.ReadTimeout(f"timed out: no complete answer within {deadline_s:g} s") from None
        except (httpx2.LocalProtocolError, httpx2.UnsupportedProtocol, ValueError):
            # The original error is dropped, because its text could contain the value of a header.
            raise httpx2.ConnectError(_UNSENDABLE) from None
        except httpx2.RemoteProtocolError:
            raise httpx2.RemoteProtocolError("the answer is not complete or not HTTP") from None
        except httpx2.TransportError as error:
            raise type(error)(str(error) or "no connection") from None
        kept = [pair for pair in response.headers.multi_items() if pair[0].lower() not in _BODY_HEADERS]
        # Without the server's reason phrase, which could contain a key, the response has that of its status.
        return httpx2.Response(response.status_code, headers=kept, content=body)

    def interrupt(self) -> None:
        """Cut all open connections, so that requests in other threads fail at once."""
        self._network.interrupt()

    def _read(self, response: httpx2.Response) -> bytes:
        limit = self._limit_bytes if response.is_success else ERROR_BODY_BYTES
        body = bytearray()
        # The start of an error's body is enough.
        suppressed = () if response.is_success else (httpx2.TransportError,)
        with contextlib.suppress(*suppressed):
            for piece in response.iter_raw():
                body += piece
                if len(body) > limit and response.is_success:
                    raise OversizedError(f"the answer is larger than {limit} bytes")
                if len(body) > limit:
                    break
        return bytes(body[:limit])


class HttpxTransport(BoundedTransport):
    """A :class:`BoundedTransport` for the clients of Chroma and Qdrant, whose requests are those of httpx."""

    def handle_request(self, request: Any) -> Any:
        import httpx

        headers, content = request.headers.raw, request.read()
        sent = httpx2.Request(request.method, str(request.url), headers=headers, content=content)
        answer = super().handle_request(sent)
        return httpx.Response(answer.status_code, headers=answer.headers.raw, content=answer.content)


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
        raise httpx2.ConnectError(
            "the proxy in HTTP_PROXY, HTTPS_PROXY or ALL_PROXY is not an http:// or https:// URL"
        )
    return proxy


@functools.cache
def _trusted() -> ssl.SSLContext:
    """Return a TLS context with the certificates that the system trusts.

    The context is cached, because reading the certificates takes a few milliseconds.
    """
    return ssl.create_default_context()


class _Network(httpcore2.SyncBackend):
    """A network backend whose sockets time out at the current thread's deadline."""

    def __init__(self) -> None:
        self._request = threading.local()
        self._streams: weakref.WeakSet[_Stream] = weakref.WeakSet()

    def begin(self, deadline_s: float) -> None:
        """Set the deadline for this thread's request."""
        self._request.deadline = time.monotonic() + deadline_s

    def left(self) -> float:
        """Return the seconds until the deadline. Raises ``httpcore2.ReadTimeout`` after the deadline."""
        left = float(self._request.deadline) - time.monotonic()
        if left <= 0:
            raise httpcore2.ReadTimeout("timed out")
        return left

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        return self.watched(super().connect_tcp(host, port, self.left(), local_address, socket_options))

    def watched(self, stream: httpcore2.NetworkStream) -> _Stream:
        """Return a stream that times out at the deadline and that :meth:`interrupt` closes."""
        watched = _Stream(stream, self)
        self._streams.add(watched)
        return watched

    def interrupt(self) -> None:
        for stream in list(self._streams):
            with contextlib.suppress(OSError):
                stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)


class _Stream(httpcore2.NetworkStream):
    def __init__(self, inner: httpcore2.NetworkStream, network: _Network) -> None:
        self._inner = inner
        self._network = network
        self.close = inner.close  # type: ignore[method-assign]
        self.get_extra_info = inner.get_extra_info  # type: ignore[method-assign]

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._network.left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # httpcore2 restarts the timeout at each write to the socket, so the buffer is sent in small parts.
        for start in range(0, len(buffer), _WRITTEN_AT_ONCE):
            self._inner.write(buffer[start : start + _WRITTEN_AT_ONCE], self._network.left())

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: Any = None
    ) -> httpcore2.NetworkStream:
        return self._network.watched(
            self._inner.start_tls(ssl_context, server_hostname, self._network.left())
        )
