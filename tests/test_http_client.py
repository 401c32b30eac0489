"""Bounded HTTP requests, against servers that misbehave on a raw socket."""

from __future__ import annotations

import gzip
import os
import socket
from collections.abc import Callable, Iterator

import httpx2
import pytest
from support.loopback import RawServer, says

from branchrank.core.io.http_client import ERROR_BODY_BYTES, LOST, OversizedError, send
from branchrank.core.io.keys import is_loopback

SECRET = "s3cret-0123456789"


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[socket.socket], None]], RawServer]]:
    servers: list[RawServer] = []

    def start(answer: Callable[[socket.socket], None]) -> RawServer:
        servers.append(RawServer(answer))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def ask(url: str, *, deadline_s: float = 20.0, limit_bytes: int = 1000) -> bytes:
    headers = {"Authorization": f"Bearer {SECRET}"}
    return send(url, {"query": 1}, headers=headers, deadline_s=deadline_s, limit_bytes=limit_bytes)


def test_a_body_is_sent_and_the_answer_returned(serve) -> None:
    server = serve(says(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
    assert ask(server.url) == b"ok"
    sent = server.requests[0].decode()
    assert sent.startswith("POST /retrieve HTTP/1.1\r\n")
    assert f"Host: 127.0.0.1:{server.port}\r\n" in sent
    assert f"Authorization: Bearer {SECRET}\r\n" in sent
    assert "Content-Type: application/json\r\n" in sent
    assert sent.endswith('\r\n\r\n{"query":1}')
    assert send(server.url, headers={}, deadline_s=20, limit_bytes=10) == b"ok"
    assert server.requests[1].startswith(b"GET /retrieve HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("start", "piece"),
    [(b"", b""), (b"HTTP/1.1 200 OK\r\n", b"X-Padding: x\r\n"), (b"HTTP/1.1 200 OK\r\n\r\n", b"x")],
    ids=["silent", "header after header", "byte after byte"],
)
def test_the_deadline_covers_the_whole_answer(serve, start: bytes, piece: bytes) -> None:
    def answer(connection: socket.socket) -> None:
        connection.sendall(start)
        server.drip(connection, piece)

    server = serve(answer)
    with pytest.raises(httpx2.TimeoutException, match=r"0\.3 s"):
        ask(server.url, deadline_s=0.3, limit_bytes=10**6)


def test_an_answer_past_the_limit_is_cut_off(serve) -> None:
    def endless(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b"x" * 4096)

    with pytest.raises(OversizedError, match="1000 bytes"):
        ask(serve(endless).url)
    exact = serve(says(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * 1000))
    assert len(ask(exact.url)) == 1000


def test_a_compressed_answer_is_not_unpacked(serve) -> None:
    packed = gzip.compress(b"x" * 10**6)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    assert ask(serve(says(head + packed)).url, limit_bytes=10**5) == packed


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308, 404, 500])
def test_any_status_but_2xx_is_an_error_and_no_redirect_is_followed(serve, status: int) -> None:
    target = serve(says(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
    head = f"HTTP/1.1 {status} Because\r\nLocation: {target.url}\r\nRetry-After: 7\r\n"
    with pytest.raises(httpx2.HTTPStatusError, match=f"HTTP {status}") as caught:
        ask(serve(says(head.encode() + b"Content-Length: 4\r\n\r\nbody")).url)
    answer = caught.value.response
    assert (answer.status_code, answer.content, answer.headers["retry-after"]) == (status, b"body", "7")
    assert "Because" not in str(caught.value)
    assert target.requests == []


def test_the_body_of_an_error_is_read_up_to_its_limit(serve) -> None:
    def endless(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 500 Oops\r\n\r\n")
        while True:
            connection.sendall(b"x" * 4096)

    with pytest.raises(httpx2.HTTPStatusError) as caught:
        ask(serve(endless).url)
    assert len(caught.value.response.content) == ERROR_BODY_BYTES

    def dripping(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 500 Oops\r\n\r\n")
        server.drip(connection, b"x")

    server = serve(dripping)
    with pytest.raises(httpx2.HTTPStatusError) as caught:
        ask(server.url, deadline_s=0.3)
    assert set(caught.value.response.content) == set(b"x")


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf", b"SSH-2.0-OpenSSH_9.6\r\n"],
    ids=["nothing", "half a body", "another protocol"],
)
def test_a_dropped_connection_differs_from_a_refused_one(serve, answer: bytes) -> None:
    with pytest.raises(LOST):
        ask(serve(says(answer)).url)


def test_a_refused_connection_is_an_error() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(httpx2.ConnectError, match="refused"):
            ask(f"http://127.0.0.1:{unused.getsockname()[1]}/")


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/a b", "http://127.0.0.1:1/caf\xe9", "ftp://127.0.0.1:1/", "http://a..b/"]
)
def test_a_url_that_cannot_be_sent_is_an_error(url: str) -> None:
    with pytest.raises(httpx2.ConnectError):
        ask(url)


def test_no_error_holds_a_credential(serve) -> None:
    secret = SECRET.encode()
    answers = [
        b"",
        b"HTTP/1.1 401 No\r\n\r\n",
        b"HTTP/1.1 401 Bearer " + secret + b"\r\n\r\n",
        b"HTTP/1.1 " + secret + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + secret + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + secret + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + secret + b"\r\n",
    ]
    urls = ["http://127.0.0.1:1/", *(serve(says(answer)).url for answer in answers)]
    for url in urls:
        with pytest.raises(httpx2.HTTPError) as caught:
            send(url, headers={"Authorization": f"Bearer {SECRET}"}, deadline_s=5, limit_bytes=10)
        assert SECRET not in repr(caught.value)
        assert caught.value.__cause__ is None
    with pytest.raises(httpx2.ConnectError) as refused:
        send(urls[1], headers={"Authorization": f"Bearer {SECRET}\r\nX: y"}, deadline_s=5, limit_bytes=10)
    assert SECRET not in str(refused.value)


def test_the_environments_proxy_is_used_except_for_loopback(serve, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = serve(says(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nproxy"))
    server = serve(says(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nserver"))
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", f"http://me:{SECRET}@127.0.0.1:{proxy.port}")
    assert ask(server.url) == b"server"
    assert ask("http://search.invalid/retrieve") == b"proxy"
    assert b"POST http://search.invalid/retrieve HTTP/1.1" in proxy.requests[0]
    assert b"Proxy-Authorization: Basic" in proxy.requests[0]
    monkeypatch.setenv("no_proxy", "search.invalid")
    with pytest.raises(httpx2.ConnectError):
        ask("http://search.invalid/retrieve")
    monkeypatch.setenv("http_proxy", f"socks5://me:{SECRET}@127.0.0.1:{proxy.port}")
    with pytest.raises(httpx2.ConnectError, match="http:// or https://") as caught:
        ask("http://other.invalid/retrieve")
    assert SECRET not in str(caught.value)


def test_a_request_leaves_no_connection_open(serve) -> None:
    server = serve(says(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
    ask(server.url)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(5):
        ask(server.url)
        with pytest.raises(httpx2.HTTPError):
            ask("http://127.0.0.1:1/")
    after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    # The server may not have closed its side of the last connection yet.
    assert after <= before + 1


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("127.0.0.1.example.com", False),
        ("10.0.0.1", False),
        ("", False),
    ],
)
def test_loopback_addresses_are_recognized(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
