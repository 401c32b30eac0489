"""Attacks on the HTTP door: paths, sizes, slow clients, broken requests, generated requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from support.http_server import Running, asking, eventually, post, running
from support.traversal import traversals

from branchrank.core.io.keys import Access
from branchrank.core.io.loopback_server import BODY_LIMIT
from branchrank.frontends.serve.http_api import application
from branchrank.frontends.serve.service import Service, Workers
from branchrank.index.workspace_folder import WorkspaceFolder

CANARY = "canary-5f1d"


@pytest.fixture(scope="module")
def server(service: Service) -> Iterator[Running]:
    workers = Workers(2, 64)
    with running(application(service, workers, Access())) as made:
        yield made


def test_no_path_leads_to_a_file(server: Running, workspace: WorkspaceFolder) -> None:
    secret = workspace.corpus_root.parent / "secret.txt"
    secret.write_text(CANARY)
    payloads = traversals("secret.txt", f"../{secret.name}", str(secret))
    assert len(payloads) >= 500
    requests = []
    for payload in payloads:
        path = quote("/" + payload, safe="/.%\\;~:*$")[:8_000]
        requests.append(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    for number, payload in enumerate(payloads):
        if number % 10 == 0:
            requests.append(post(asking(payload or " ", predictor="grep")))
            requests.append(post(asking(predictor=payload[:100])))
    for request in requests:
        status, _, body = server.send(request)
        assert status in (200, 400, 404, 405, 422), request
        assert CANARY.encode() not in body
        assert b"root:" not in body
        assert (
            str(workspace.corpus_root).encode() not in body or str(workspace.corpus_root).encode() in request
        )


def test_a_body_that_is_too_large_is_refused(server: Running) -> None:
    for size in (BODY_LIMIT + 1, 4 * BODY_LIMIT):
        assert server.send(post(b"x" * size))[0] == 413
    head = b"POST /retrieve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    before = head + b"Expect: 100-continue\r\nContent-Length: 1000000000000\r\n\r\n"
    assert server.send(before)[0] == 413
    chunked = head + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    assert server.send(chunked + piece * 17 + b"0\r\n\r\n")[0] == 413
    small = asking()
    assert server.send(chunked + b"%x\r\n%s\r\n0\r\n\r\n" % (len(small), small))[0] == 200


@pytest.mark.parametrize(
    "raw",
    [
        b"\x00" * 100,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 10,
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 500_000,
        b"POST /retrieve HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /retrieve HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"POST /retrieve HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked, x\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nBad Header: 1\r\n\r\n",
    ],
)
def test_broken_requests_are_refused_and_the_server_keeps_running(server: Running, raw: bytes) -> None:
    status, _, _ = server.send(raw)
    assert 400 <= status < 500 or status == 501
    assert server.send(post(asking()))[0] == 200


def connections(server: Running) -> int:
    return len(server.server.server_state.connections)


def test_slow_clients_do_not_hold_up_others(server: Running) -> None:
    slow = [server.connect() for _ in range(60)]
    for number, connection in enumerate(slow):
        connection.sendall(post(asking())[: 20 + number])
    assert server.send(post(asking()))[0] == 200
    for connection in slow:
        connection.close()


def test_a_client_that_leaves_early_does_no_harm(server: Running) -> None:
    for cut in range(1, 200, 7):
        with server.connect() as connection:
            connection.sendall(post(asking())[:cut])
    for _ in range(10):
        with server.connect() as connection:
            connection.sendall(post(asking(predictor="grep")))
    assert eventually(lambda: connections(server) == 0)
    assert server.send(post(asking()))[0] == 200


@pytest.mark.full
def test_generated_requests_get_documented_responses(server: Running) -> None:
    """Schemathesis: no 5xx; documented statuses and schemas; wrong data is refused, right data is not."""
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    tried = 0
    for operation in schema.get_all_operations():

        @settings(
            derandomize=True,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.explicit, Phase.generate],
        )
        @given(case=operation.ok().as_strategy())
        def holds(case: Any) -> None:
            nonlocal tried
            tried += 1
            case.call_and_validate()

        holds()
    assert tried >= settings().max_examples
