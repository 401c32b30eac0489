"""The predictor ``qdrant`` on the engine: its scores, its weight, its depth, embedded and on a server."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import qdrant_client
from support.fake_qdrant import fake_qdrant
from support.worlds import QUERIES, make_index

from branchrank.errors import ArtifactError
from branchrank.index.reader import Index
from branchrank.records import Retrieval
from branchrank.settings import QdrantSettings, Resolved
from branchrank.spec import System
from branchrank.stores import qdrant as qdrant_store
from branchrank.systems.branches.qdrant import DENSE_ONLY
from branchrank.systems.builtin import builtin_systems
from branchrank.systems.engine import Engine
from branchrank.systems.query import Filter, Query

World = tuple[Index, Path, Resolved]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("qdrant")
    index, resolved = make_index(folder)
    with index:
        yield index, folder / "docs", resolved


@pytest.fixture(scope="module")
def engine(world: World) -> Iterator[Engine]:
    with opened(world) as made:
        yield made


def settings_with(world: World, **values: object) -> Resolved:
    part = QdrantSettings(**values)
    return msgspec.structs.replace(world[2], parts={**world[2].parts, "qdrant": part})


def opened(world: World, **values: object) -> Engine:
    return Engine(world[0], world[1], settings_with(world, **values))


def qdrant(world: World, **values: object) -> System:
    (system,) = builtin_systems(("qdrant",), settings_with(world, **values))
    return system


def listed(found: Retrieval, branch: str) -> dict[str, int]:
    """Key -> rank in a branch; empty for one that was not run."""
    keys = [key for stage in found.trace if stage.stage == branch for key in stage.keys]
    return {key: rank for rank, key in enumerate(keys, start=1)}


@pytest.mark.parametrize("weight", [0.0, 0.3, 0.5, 1.0])
def test_the_score_is_the_weighted_rrf(world: World, engine: Engine, weight: float) -> None:
    for query in QUERIES:
        found = engine.retrieve(qdrant(world, fusion_weight=weight), query, 6)
        dense, sparse = listed(found, "qdrant-dense"), listed(found, "qdrant-sparse")
        assert bool(dense) == (weight > 0)
        for hit in found.hits:
            expected = weight / (60 + dense[hit.id]) if hit.id in dense else 0.0
            expected += (1 - weight) / (60 + sparse[hit.id]) if hit.id in sparse else 0.0
            assert hit.score == pytest.approx(expected)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_each_branch_fetches_twice_as_many(world: World, engine: Engine, k: int) -> None:
    found = engine.retrieve(qdrant(world), "tea temperature brew", k)
    assert len(listed(found, "qdrant-dense")) == 2 * k
    matching = len(listed(engine.retrieve(qdrant(world), "tea temperature brew", 50), "qdrant-sparse"))
    assert len(listed(found, "qdrant-sparse")) == min(2 * k, matching)
    assert len(found.hits) == k


def test_a_collection_without_sparse_vectors_is_searched_with_a_notice(world: World) -> None:
    with opened(world, enable_hybrid=False) as engine:
        for weight in (0.0, 0.5):
            found = engine.retrieve(qdrant(world, fusion_weight=weight), "tea", 3)
            assert found.notices == (DENSE_ONLY,)
        only_dense = engine.retrieve(qdrant(world, enable_hybrid=False), "tea", 3)
        assert only_dense.notices == ()
        assert [hit.id for hit in only_dense.hits] == list(listed(only_dense, "qdrant-dense"))[:3]


def test_a_server_answers_as_the_embedded_collection(world: World, engine: Engine) -> None:
    pages = (Filter(key="file_path", pattern="guide/*.md"),)
    with fake_qdrant() as server:
        for _ in range(2):  # the second engine finds the collection of the first
            with opened(world, url=server.url) as remote:
                for query in QUERIES:
                    for filters in ((), pages):
                        found, expected = (
                            each.retrieve(qdrant(world), Query(text=query, filters=filters), 4).hits
                            for each in (remote, engine)
                        )
                        assert [(hit.id, hit.score) for hit in found] == [
                            (hit.id, hit.score) for hit in expected
                        ]
        assert len(server.collections) == 1


@pytest.mark.parametrize("status", [401, 429, 503])
def test_a_failing_server_is_an_error_and_not_an_empty_result(world: World, status: int) -> None:
    with fake_qdrant() as server, opened(world, url=server.url) as remote:
        assert remote.retrieve(qdrant(world), "tea", 3).hits
        server.failing = status
        with pytest.raises(ArtifactError, match=str(status)):
            remote.retrieve(qdrant(world), "temperature", 3)


def test_the_layout_of_a_cluster_is_in_the_requests(world: World) -> None:
    """What qdrant-client sends; no server of Qdrant's own is run by a test."""
    cluster = {"shards": 6, "replication_factor": 2, "write_consistency": 2, "on_disk": True}
    with fake_qdrant() as server:
        for settings in (cluster, {}):
            with opened(world, url=server.url, **settings) as remote:
                remote.retrieve(qdrant(world), "tea", 3)
        made = {name: body for name, body in server.bodies if "/" not in name}
    assert len(made) == 2, "another layout is another collection"
    laid, plain = made.values()
    size = world[0].manifest.embedder.dimension
    dense = {"size": size, "distance": "Cosine"}
    sparse = {"sparse": {"modifier": "idf"}}
    assert given(laid) == {
        "vectors": {"dense": {**dense, "on_disk": True}},
        "sparse_vectors": sparse,
        "shard_number": 6,
        "replication_factor": 2,
        "write_consistency_factor": 2,
    }
    assert given(plain) == {"vectors": {"dense": dense}, "sparse_vectors": sparse}


def given(body: object) -> object:
    """A request's body without the fields that are null."""
    if not isinstance(body, dict):
        return body
    return {key: given(value) for key, value in body.items() if value is not None}


def test_an_interrupted_upload_sends_only_missing_points(
    world: World, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qdrant_store, "BATCH", 2)
    chunks = len(world[0].chunks)
    with fake_qdrant() as server:
        server.upserts_left = 3
        with opened(world, url=server.url) as remote, pytest.raises(ArtifactError, match="404"):
            remote.retrieve(qdrant(world), "tea", 3)
        [collection] = server.collections.values()
        held = set(collection["points"])
        assert 0 < len(held) == 6 < chunks
        server.upserts_left = None
        server.bodies.clear()
        with opened(world, url=server.url) as remote:
            for query in QUERIES:
                assert [(hit.id, hit.score) for hit in remote.retrieve(qdrant(world), query, 4).hits] == [
                    (hit.id, hit.score) for hit in engine.retrieve(qdrant(world), query, 4).hits
                ]
        sent = [point["id"] for _, body in server.bodies for point in body["points"]]
        assert len(server.collections) == 1
    assert len(sent) == len(set(sent)) == chunks - 6
    assert not held & set(sent)


def test_qdrant_clients_local_mode_answers_as_the_embedded_engine(
    world: World, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = qdrant_client.QdrantClient(":memory:")
    monkeypatch.setattr(client, "close", lambda: None)
    monkeypatch.setattr(qdrant_store, "connect", lambda url: client)
    with warnings.catch_warnings(), opened(world, url="http://127.0.0.1:6333") as local:
        warnings.filterwarnings("ignore", message="Local mode")
        for query in QUERIES:
            found = local.retrieve(qdrant(world), query, 50)  # all, so that no tie is cut
            expected = engine.retrieve(qdrant(world), query, 50)
            for each in ("qdrant-dense", "qdrant-sparse"):
                assert scores(found, each) == pytest.approx(scores(expected, each), abs=1e-5)


def scores(found: Retrieval, branch: str) -> dict[str, float]:
    (stage,) = [stage for stage in found.trace if stage.stage == branch]
    return dict(zip(stage.keys, stage.scores, strict=True))
