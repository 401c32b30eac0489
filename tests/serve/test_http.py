"""``POST /retrieve`` over real connections: answers, refusals, queue, shutdown."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import msgspec
import pytest
from support.http_server import Running, asking, eventually, post, running

from branchrank.bench.predictors import ApiPredictor
from branchrank.errors import ArtifactError
from branchrank.records import Question
from branchrank.serve.access import Access
from branchrank.serve.http import Health, application
from branchrank.serve.service import Service, Workers

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


def test_health_lists_served_and_unavailable_predictors(server: Running, service: Service) -> None:
    health = msgspec.json.decode(httpx.get(f"{server.url}/health").content, type=Health)
    assert health.status == "ok"
    assert health.predictors == service.predictors
    assert "LLM" in health.refused["pageindex"]
    assert health.chunks == len(service.workspace.index.chunks)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", (400, "malformed")),
        (b"{", (400, "malformed")),
        (b'{"query": "\xff"}', (400, "malformed")),
        (b'{"query": "\\ud800"}', (400, "malformed")),
        (b"[" * 100_000, (422, "invalid")),
        (b'{"query": ' + b"[" * 100_000, (422, "invalid")),
        (b"[]", (422, "invalid")),
        (b"{}", (422, "invalid")),
        (asking(""), (422, "invalid")),
        (asking("a" * 10_241), (422, "invalid")),
        (asking("a", top_k=0), (422, "invalid")),
        (asking("a", top_k=101), (422, "invalid")),
        (asking("a", top_k="5"), (422, "invalid")),
        (asking("a", top_k=5.5), (422, "invalid")),
        (asking("a", top_k=True), (422, "invalid")),
        (asking("a", top_k=10**30), (422, "invalid")),
        (asking("a", predictor="pageindex"), (422, "predictor")),
        (asking("a", predictor="<script>"), (422, "predictor")),
        (asking("a", predictor="x" * 101), (422, "invalid")),
        (asking("a", topk=3), (422, "invalid")),
    ],
)
def test_a_wrong_request_is_refused(server: Running, body: bytes, expected: tuple[int, str]) -> None:
    assert error(server.send(post(body))) == expected


def test_values_at_the_limits_are_allowed(server: Running) -> None:
    assert server.send(post(asking("é" * 10_240, top_k=100)))[0] == 200
    assert server.send(post(asking("a", top_k=1.0)))[0] == 200


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/x", ""])
def test_a_cross_site_form_post_is_refused(server: Running, media_type: str) -> None:
    assert error(server.send(post(asking(), Content_Type=media_type))) == (415, "not_json")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/", 404), ("GET", "/retrieve", 405), ("POST", "/health", 405), ("GET", "/docs", 404)],
)
def test_wrong_routes_are_refused(server: Running, method: str, path: str, status: int) -> None:
    answer = httpx.request(method, server.url + path)
    assert answer.status_code == status
    assert answer.json()["error"]["code"] == "wrong_route"


def test_long_input_is_not_echoed(server: Running) -> None:
    answer = server.send(post(msgspec.json.encode({"query": "a", "<script>" + "x" * 500_000: 1})))
    assert error(answer) == (422, "invalid")
    assert len(answer[2]) < 500


def test_health_shows_no_path(server: Running, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = service.workspace.index.manifest
    local = msgspec.structs.replace(manifest.embedder, model="/home/someone/models/small")
    monkeypatch.setattr(
        service.workspace.index, "manifest", msgspec.structs.replace(manifest, embedder=local)
    )
    assert httpx.get(f"{server.url}/health").json()["embedder"] == "small"


def test_a_failure_says_nothing_of_the_machine(
    server: Running, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fault in (ArtifactError("/home/someone/secret is damaged"), RuntimeError("/home/someone/secret")):

        def fail(*_arguments: object, fault: Exception = fault) -> None:
            raise fault

        monkeypatch.setattr(service, "retrieve", fail)
        status, _, body = server.send(post(asking()))
        assert status == 500
        assert b"someone" not in body
        assert json.loads(body)["error"]["code"] == "failed"


def test_a_full_queue_is_answered_at_once(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, release = threading.Semaphore(0), threading.Event()
    retrieve = service.retrieve

    def slow(*arguments: object) -> object:
        begun.release()
        release.wait(20)
        return retrieve(*arguments)

    monkeypatch.setattr(service, "retrieve", slow)
    workers = Workers(1, 1)
    with running(application(service, workers, Access())) as server, ThreadPoolExecutor(2) as pool:
        first = pool.submit(server.send, post(asking()))
        assert begun.acquire(timeout=20)
        second = pool.submit(server.send, post(asking()))
        assert eventually(lambda: workers._limiter.statistics().tasks_waiting == 1)
        answer = server.send(post(asking()))
        assert error(answer) == (503, "busy")
        assert answer[1]["retry-after"] == "1"
        release.set()
        assert [first.result()[0], second.result()[0]] == [200, 200]
        assert server.send(post(asking()))[0] == 200


def test_a_failed_query_frees_its_slot(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    retrieve = service.retrieve

    def failing(query: str, *rest: object) -> object:
        if query == "fail":
            raise RuntimeError("no memory")
        return retrieve(query, *rest)

    monkeypatch.setattr(service, "retrieve", failing)
    workers = Workers(1, 1)
    with running(application(service, workers, Access())) as server:
        for _ in range(5):
            assert error(server.send(post(asking("fail")))) == (500, "failed")
        assert server.send(post(asking()))[0] == 200


def test_too_many_connections_are_answered_503(
    service: Service, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("branchrank.serve.server.CONNECTIONS", 3)
    with running(application(service, workers, Access())) as server:
        idle = [server.connect() for _ in range(3)]
        assert eventually(lambda: len(server.server.server_state.connections) == 3)
        answer = server.send(post(asking()))
        assert error(answer) == (503, "busy")
        assert answer[1]["retry-after"] == "1"
        idle.pop().close()
        assert eventually(lambda: len(server.server.server_state.connections) == 2)
        assert server.send(post(asking()))[0] == 200
        for connection in idle:
            connection.close()


def test_shutdown_finishes_running_requests(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, release = threading.Event(), threading.Event()
    retrieve = service.retrieve

    def slow(*arguments: object) -> object:
        begun.set()
        release.wait(20)
        return retrieve(*arguments)

    monkeypatch.setattr(service, "retrieve", slow)
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
        schema = httpx.get(f"{server.url}/openapi.json", headers={"Authorization": f"Bearer {TOKEN}"}).json()
        assert schema["security"] == [{"token": []}]
