"""Who may reach a server: hosts, origins, tokens, and what a server may be bound to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.http_server import Running, asking, post, running

from branchrank.core.errors import UsageError
from branchrank.core.io.keys import Access, access_for, read_token
from branchrank.frontends.serve.http_api import application
from branchrank.frontends.serve.service import Service, Workers

TOKEN = "correct-horse-battery"
GOOD_HOSTS = ("127.0.0.1", "127.0.0.1:8000", "localhost", "LOCALHOST:1", "[::1]:80", "docs.example")
BAD_HOSTS = ("evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example")
BAD_HOSTS += (
    "evil.example#127.0.0.1",
    "127.0.0.1@evil.example",
    "localhost:80:80",
    "localhost:",
    "localhost.",
)
BAD_HOSTS += ("::1", "0.0.0.0", "[::ffff:127.0.0.1]", "2130706433", "")
GOOD_ORIGINS = (None, "http://localhost:3000", "HTTP://LOCALHOST:3000")
BAD_ORIGINS = ("http://localhost:3001", "https://localhost:3000", "http://localhost", "http://evil.example")
BAD_ORIGINS += ("http://localhost:3000.evil.example", "null", "file://", "")


@pytest.fixture(scope="module")
def server(service: Service) -> Iterator[Running]:
    workers = Workers(2, 8)
    access = access_for(
        "127.0.0.1", allowed_hosts=("docs.example",), allowed_origins=("http://localhost:3000",)
    )
    with running(application(service, workers, access)) as made:
        yield made


@pytest.mark.parametrize("origin", GOOD_ORIGINS + BAD_ORIGINS)
@pytest.mark.parametrize("host", GOOD_HOSTS + BAD_HOSTS)
def test_foreign_hosts_and_origins_are_refused(server: Running, host: str, origin: str | None) -> None:
    headers = {} if origin is None else {"Origin": origin}
    status, _, body = server.send(post(asking(top_k=1), host=host, **headers))
    expected = 421 if host in BAD_HOSTS else 200 if origin in GOOD_ORIGINS else 403
    assert status == expected
    assert (b'"hits"' in body) == (expected == 200)


def preflight(origin: str) -> bytes:
    return (
        f"OPTIONS /retrieve HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\nConnection: close\r\n"
        "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type\r\n\r\n"
    ).encode()


def test_pages_of_an_allowed_origin_can_read_answers(service: Service) -> None:
    origin = "http://localhost:3000"
    workers = Workers(1, 1)
    access = access_for("127.0.0.1", token=TOKEN, allowed_origins=(origin,))
    with running(application(service, workers, access)) as made:
        status, headers, _ = made.send(preflight(origin))
        assert status == 200
        assert headers["access-control-allow-origin"] == origin
        assert headers["access-control-allow-headers"] == "content-type"
        status, headers, _ = made.send(post(asking(), Origin=origin, Authorization=f"Bearer {TOKEN}"))
        assert (status, headers["access-control-allow-origin"]) == (200, origin)
        assert made.send(post(asking(), Origin=origin))[0] == 401
        status, headers, _ = made.send(preflight("http://evil.example"))
        assert status == 403
        assert "access-control-allow-origin" not in headers
        answer = made.send(b"OPTIONS /retrieve HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert answer[0] == 401


def test_a_request_without_or_with_two_hosts_is_refused(server: Running) -> None:
    assert server.send(b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n")[0] == 400
    assert server.send(b"GET /health HTTP/1.0\r\n\r\n")[0] == 421
    two = b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    assert server.send(two)[0] == 400


BAD_TOKENS = ["", "Bearer", "Bearer ", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}"]
BAD_TOKENS += [f"Bearer {TOKEN.upper()}", f"Bearer\t{TOKEN}", f"Bearer {TOKEN}, Bearer {TOKEN}"]
BAD_TOKENS += ["Bearer \xff\xfe", "Bearer " + "x" * 10_000]


def test_only_one_header_with_the_token_is_accepted() -> None:
    access = Access(token=TOKEN)
    for given in ([], *([bad] for bad in BAD_TOKENS), [f"Bearer {TOKEN}"] * 2):
        assert not access.answers_token(given), given
    assert access.answers_token([f"Bearer {TOKEN}"])
    assert access.answers_token([f"bearer {TOKEN}"])
    assert Access().answers_token([])


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.2", "docs.example", "", "localhost.evil.example"]
)
def test_beyond_loopback_a_token_is_needed(host: str) -> None:
    with pytest.raises(UsageError, match="needs a token"):
        access_for(host)


def test_a_server_accepts_only_its_own_host_names() -> None:
    access = access_for("192.168.1.2", token=TOKEN, allowed_hosts=("Docs.example",))
    assert access.hosts == ("192.168.1.2", "docs.example")
    assert not access.answers_host(["localhost"])
    with pytest.raises(UsageError, match="host name"):
        access_for("0.0.0.0", token=TOKEN)


@pytest.mark.parametrize("name", ["http://a.example", "a b", "", "*"])
def test_an_invalid_host_or_origin_allows_no_other(name: str) -> None:
    access = access_for("::1", allowed_hosts=(name,), allowed_origins=(name,))
    assert not access.answers_host(["evil.example"])
    assert not access.answers_origin(["https://evil.example"])


def test_the_token_comes_from_the_file_or_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    other = "another-long-enough-token"
    assert read_token(None, {}) == ""
    assert read_token(None, {"BRANCHRANK_TOKEN": other}) == other
    assert read_token(file, {"BRANCHRANK_TOKEN": other}) == TOKEN


@pytest.mark.parametrize("content", ["", "short", "with a space in it", "ümlaut-umlaut-umlaut", "a\x00" * 20])
def test_a_weak_token_is_refused_and_not_repeated(tmp_path: Path, content: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    with pytest.raises(UsageError, match=r"visible ASCII|NUL bytes") as raised:
        read_token(file)
    assert not content or content not in str(raised.value)
