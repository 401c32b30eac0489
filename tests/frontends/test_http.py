"""``POST /retrieve`` over real connections: answers, refusals, queue, shutdown."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx2
import msgspec
import pytest
from support.http_server import Running, asking, eventually, post, received, running

from branchrank.core.errors import ArtifactError
from branchrank.core.io.keys import Access
from branchrank.core.records import Question
from branchrank.frontends.serve.http_api import Health, application
from branchrank.frontends.serve.service import Service, Workers
from branchrank.runs.bench.predictors import ApiPredictor

QUERIES = ("How do I clear the cache?", "max_retries", "roll back", "ChainAdapter", "zzz", "the", "😀 \x00")
TOKEN = "correct-horse-battery"


@pytest.fixture(scope="module")
def workers() -> Workers:
    return Workers(4, 64)


@pytest.fixture(scope="module")
def server(service: Service, workers: Workers) -> Iterator[Running]:
    with running(application(service, workers, Access())) as made:
        yield made


def error(answer: tuple[int, dict[str, str], bytes]) -> tuple[int, str]:
    status, headers, body = answer
    assert headers["content-type"] == "application/json"
    assert headers["x-content-type-options"] == "nosniff"
    detail = json.loads(body)["error"]
    assert set(detail) == {"code", "message"}
    return status, detail["code"]


@pytest.mark.parametrize("predictor", ["local", "hybrid", "grep", "qdrant", "sqlite", "late-interaction"])
def test_the_api_predictor_gets_the_hits_of_the_direct_call(
    server: Running, service: Service, predictor: str
) -> None:
    api = ApiPredictor(f"{server.url}/retrieve", target=predictor)
    for number, query in enumerate(QUERIES):
        through = api.predict(Question(id=str(number), question=query), 5).hits
        _, direct = service.retrieve(query, 5, predictor)
        unexplained = {"branches": {}, "notes": {}, "matched": (), "members": ()}
        assert through == tuple(msgspec.structs.replace(hit, **unexplained) for hit in direct.hits)


def test_health_lists_the_predictors_and_shows_no_path(
    server: Running, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = service.workspace.index
    local = msgspec.structs.replace(index.manifest.embedder, model="/home/someone/models/small")
    monkeypatch.setattr(index, "manifest", msgspec.structs.replace(index.manifest, embedder=local))
    health = msgspec.json.decode(httpx2.get(f"{server.url}/health").content, type=Health)
    assert health.status == "ok"
    assert health.predictors == service.predictors
    assert "LLM" in health.refused["pageindex"]
    assert health.chunks == len(index.chunks)
    assert health.embedder == "small"


WRONG = {
    (400, "malformed"): [
        *(b"", b"{", b'{"query": "\xff"}', b'{"query": "\\ud800"}'),
        *(b"[" * 100_000, b'{"query": ' + b"[" * 100_000),
    ],
    (422, "invalid"): [
        *(b"[]", b"{}", b'{"query": ["a"]}', asking(""), asking("a" * 10_241)),
        *(asking("a", top_k=top_k) for top_k in (0, 101, "5", 5.5, True, 10**30)),
        *(asking("a", predictor="x" * 101), asking("a", topk=3), asking("a", **{"x" * 500_000: 1})),
    ],
    (422, "predictor"): [asking("a", predictor="pageindex"), asking("a", predictor="<script>")],
}


@pytest.mark.parametrize("expected", WRONG)
def test_a_wrong_request_is_refused(server: Running, expected: tuple[int, str]) -> None:
    for body in WRONG[expected]:
        answer = server.send(post(body))
        assert error(answer) == expected, body[:100]
        assert len(answer[2]) < 500, "long input is not echoed"


def test_the_number_of_hits_is_an_integer_in_messages(server: Running) -> None:
    for top_k in (0, 101, 101.0):
        answer = server.send(post(asking("a", top_k=top_k)))
        message = json.loads(answer[2])["error"]["message"]
        assert ("`int`" in message, "100.0" in message, "`$.top_k`" in message) == (True, False, True)


def test_values_at_the_limits_are_allowed(server: Running) -> None:
    assert server.send(post(asking("é" * 10_240, top_k=100)))[0] == 200
    assert server.send(post(asking("a", top_k=1.0)))[0] == 200


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/x", ""])
def test_a_cross_site_form_post_is_refused(server: Running, media_type: str) -> None:
    assert error(server.send(post(asking(), Content_Type=media_type))) == (415, "not_json")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/", 405),
        ("GET", "/none", 404),
        ("GET", "/retrieve", 405),
        ("POST", "/health", 405),
        ("GET", "/docs", 404),
    ],
)
def test_wrong_routes_are_refused(server: Running, method: str, path: str, status: int) -> None:
    answer = httpx2.request(method, server.url + path)
    assert answer.status_code == status
    assert answer.json()["error"]["code"] == "wrong_route"


def test_a_failure_says_nothing_of_the_machine_and_frees_its_slot(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    retrieve = service.retrieve
    faults = [ArtifactError("/home/someone/secret is damaged"), RuntimeError("/home/someone/secret")]

    def failing(query: str, *rest: object) -> object:
        if query != "cache":
            raise faults[int(query)]
        return retrieve(query, *rest)

    monkeypatch.setattr(service, "retrieve", failing)
    with running(application(service, Workers(1, 1), Access())) as server:
        for query in "0101":
            answer = server.send(post(asking(query)))
            assert error(answer) == (500, "failed")
            assert b"someone" not in answer[2]
        assert server.send(post(asking()))[0] == 200


@pytest.fixture
def held(service: Service, monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """The events that a query has begun, and that it may end."""
    begun, release = threading.Event(), threading.Event()
    retrieve = service.retrieve

    def slow(*arguments: object) -> object:
        begun.set()
        release.wait(20)
        return retrieve(*arguments)

    monkeypatch.setattr(service, "retrieve", slow)
    return begun, release


def test_a_full_queue_is_answered_at_once(
    service: Service, held: tuple[threading.Event, threading.Event]
) -> None:
    begun, release = held
    workers = Workers(1, 1)
    with running(application(service, workers, Access())) as server, ThreadPoolExecutor(2) as pool:
        first = pool.submit(server.send, post(asking()))
        assert begun.wait(20)
        second = pool.submit(server.send, post(asking()))
        assert eventually(lambda: workers._limiter.statistics().tasks_waiting == 1)
        answer = server.send(post(asking()))
        assert error(answer) == (503, "busy")
        assert answer[1]["retry-after"] == "1"
        release.set()
        assert [first.result()[0], second.result()[0]] == [200, 200]
        assert server.send(post(asking()))[0] == 200


WHOLE = post(asking())
HEAD = WHOLE.index(b"\r\n\r\n")


@pytest.mark.parametrize("sent", [0, 1, HEAD, HEAD + 4, len(WHOLE) - 1])
def test_connections_that_wait_do_not_hold_up_requests(
    service: Service, workers: Workers, monkeypatch: pytest.MonkeyPatch, sent: int
) -> None:
    monkeypatch.setattr("branchrank.core.io.loopback_server.CONNECTIONS", 3)
    with running(application(service, workers, Access())) as server, contextlib.ExitStack() as opened:
        for _ in range(20):
            opened.enter_context(server.connect()).sendall(WHOLE[:sent])
            assert server.send(WHOLE)[0] == 200
            assert eventually(lambda: len(server.server.server_state.connections) <= 3)


def test_a_connection_without_a_request_is_closed(
    service: Service, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("branchrank.core.io.loopback_server.REQUEST_S", 0.2)
    with running(application(service, workers, Access())) as server, contextlib.ExitStack() as opened:
        connections = []
        for sent in (0, 1, HEAD, HEAD + 4, len(WHOLE) - 1):
            for before in (b"", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"):
                waiting = opened.enter_context(server.connect())
                connections.append(waiting)
                waiting.sendall(before)
                if before:
                    assert waiting.recv(65_536).startswith(b"HTTP/1.1 200")
                for number in range(sent):
                    with contextlib.suppress(ConnectionError):
                        waiting.sendall(WHOLE[number : number + 1])
        for waiting in connections:
            received(waiting)  # ends when the server closes the connection


def test_shutdown_finishes_running_requests(
    service: Service, held: tuple[threading.Event, threading.Event]
) -> None:
    begun, release = held
    workers = Workers(1, 1)
    with running(application(service, workers, Access())) as server, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(server.send, post(asking()))
        assert begun.wait(20)
        server.server.should_exit = True
        assert eventually(lambda: not server.server.servers[0].is_serving())
        with pytest.raises(OSError):  # noqa: PT011 - refused or reset
            server.send(post(asking()))
        release.set()
        assert answer.result()[0] == 200


def test_several_threads_get_the_answers_of_one(service: Service) -> None:
    asked = [(query, predictor) for query in QUERIES for predictor in service.predictors] * 4
    alone = {pair: service.retrieve(pair[0], 5, pair[1])[1].hits for pair in dict.fromkeys(asked)}
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda pair: service.retrieve(pair[0], 5, pair[1])[1].hits, asked))
    assert found == [alone[pair] for pair in asked]


def test_every_route_requires_the_token(service: Service, workers: Workers) -> None:
    with running(application(service, workers, Access(token=TOKEN))) as server:
        for path in ("/health", "/retrieve", "/openapi.json", "/none"):
            answer = server.send(
                f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
            )
            assert error(answer) == (401, "no_token")
            assert answer[1]["www-authenticate"] == "Bearer"
        assert server.send(post(asking(), Authorization=f"Bearer {TOKEN}"))[0] == 200
        schema = httpx2.get(f"{server.url}/openapi.json", headers={"Authorization": f"Bearer {TOKEN}"}).json()
        assert schema["security"] == [{"token": []}]
