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

from branchrank.core.errors import ArtifactError
from branchrank.core.records import Retrieval
from branchrank.core.settings import QdrantSettings, Resolved
from branchrank.core.spec import System
from branchrank.index.reader import Index
from branchrank.index.stores import qdrant_engines
from branchrank.index.stores import qdrant_store as qdrant_store
from branchrank.search.systems.builtin import builtin_systems
from branchrank.search.systems.engine import Engine
from branchrank.search.systems.query import Filter, Query

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
    for module in (qdrant_store, qdrant_engines):
        monkeypatch.setattr(module, "BATCH", 2)
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
    monkeypatch.setattr(qdrant_engines, "connect", lambda url: client)
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
