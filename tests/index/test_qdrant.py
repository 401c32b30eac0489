"""Qdrant collections, embedded and on a server: one contract, failures."""

import gzip
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
from support.fake_qdrant import FakeQdrant, fake_qdrant

from branchrank.core.errors import ArtifactError, UsageError
from branchrank.core.io.keys import key_for
from branchrank.core.records import Chunk, Scored
from branchrank.core.settings import QdrantSettings
from branchrank.index.embedders.fake import FakeEmbedder
from branchrank.index.stores.qdrant_store import (
    Bm25Encoder,
    Point,
    QdrantCollection,
    SparseWeights,
    chunk_point,
    embedded_collection,
    own_layout,
    served_collection,
)

EMBEDDER = FakeEmbedder(16)
TEXTS = [
    "Clear the cache pool.",
    "The HttpClient retries a request.",
    "A cached response is served.",
    "Deploy the container to production.",
    "The router matches a path.",
    "Requests have a timeout.",
]
CHUNKS = [
    Chunk(
        id=f"{n % 3}.rst#{n}@1",
        node_id=f"{n % 3}.rst#{n}",
        source=f"{n % 3}.rst",
        line_start=n + 1,
        line_end=n + 1,
        breadcrumb="Guide",
        text=text,
    )
    for n, text in enumerate(TEXTS)
]
POINTS = list(map(chunk_point, CHUNKS, EMBEDDER.embed_documents(TEXTS)))
LAYOUT = own_layout(16)


def served(url: str, name: str = "docs") -> QdrantCollection:
    return served_collection(name, LAYOUT, QdrantSettings(url=url))


@pytest.fixture
def server() -> Iterator[FakeQdrant]:
    with fake_qdrant() as running:
        yield running


@pytest.fixture(params=["embedded", "server"])
def collection(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[QdrantCollection]:
    if request.param == "embedded":
        made = embedded_collection(tmp_path / "shard", LAYOUT)
    else:
        made = served(request.getfixturevalue("server").url)
    yield made
    made.close()


def weights(text: str) -> SparseWeights:
    return Bm25Encoder().query(text)


def keys(ranking: list[Scored]) -> list[str]:
    return [entry.key for entry in ranking]


def test_dense_scores_are_cosines(collection: QdrantCollection) -> None:
    collection.upsert(POINTS)
    query = EMBEDDER.embed_query("cached")
    expected = sorted(
        (Scored(p.key, float(p.vector @ query)) for p in POINTS), key=lambda e: (-e.score, e.key)
    )
    for length in (1, 3):  # of the vectors, which change no cosine
        collection.upsert([msgspec.structs.replace(point, vector=length * point.vector) for point in POINTS])
        found = collection.dense(length * query, 4)
        assert keys(found) == keys(expected[:4])
        assert [e.score for e in found] == pytest.approx([e.score for e in expected[:4]], abs=1e-6)


def test_sparse_search_is_bm25(collection: QdrantCollection) -> None:
    """Against the formula: k1 1.2, b 0.75, an average length of 256, IDF over the collection."""
    collection.upsert(
        [
            Point(key=key, vector=POINTS[0].vector, text=text, payload={})
            for key, text in {"a": "fig fig oak", "b": "fig elm", "c": "yew", "d": "ivy"}.items()
        ]
    )
    found = {entry.key: entry.score for entry in collection.sparse(weights("fig"), 10)}
    idf = np.log(1 + (4 - 2 + 0.5) / (2 + 0.5))

    def saturated(count: int, length: int) -> float:
        return count * 2.2 / (count + 1.2 * (1 - 0.75 + 0.75 * length / 256))

    assert found == pytest.approx({"a": idf * saturated(2, 3), "b": idf * saturated(1, 2)}, rel=1e-5)
    assert collection.sparse(weights("the of and"), 10) == []
    assert collection.sparse(weights("absent"), 10) == []


def test_filters_apply_before_ranking(collection: QdrantCollection) -> None:
    collection.upsert(POINTS)
    query = EMBEDDER.embed_query("cache")
    everywhere = keys(collection.dense(query, 100))
    for filters, sources in (
        ({"file_path": ["1.rst"]}, {"1.rst"}),
        ({"file_path": ["0.rst", "2.rst"]}, {"0.rst", "2.rst"}),
    ):
        wanted = [c.id for c in CHUNKS if c.source in sources]
        # The worst of all by distance still comes back: nothing was cut before the filter.
        assert keys(collection.dense(query, len(wanted), filters)) == [k for k in everywhere if k in wanted]
        assert set(keys(collection.sparse(weights("cache request path"), 10, filters))) <= set(wanted)
    assert keys(collection.dense(query, 10, {"key": [CHUNKS[2].id]})) == [CHUNKS[2].id]
    assert collection.dense(query, 10, {"file_path": ["nowhere"]}) == []
    assert collection.sparse(weights("cache"), 10, {"file_path": ["1.rst"], "key": [CHUNKS[0].id]}) == []


def test_ties_break_by_key(collection: QdrantCollection) -> None:
    same = [Point(key=key, vector=POINTS[0].vector, text="same words", payload={}) for key in ("c", "a", "b")]
    collection.upsert(same)
    assert keys(collection.dense(POINTS[0].vector, 3)) == ["a", "b", "c"]
    assert keys(collection.sparse(weights("words"), 3)) == ["a", "b", "c"]


def test_a_query_of_another_dimension_is_refused(collection: QdrantCollection) -> None:
    with pytest.raises(ArtifactError, match="dimension 16"):
        collection.dense(np.ones(3, dtype=np.float32), 3)


def test_a_dense_only_collection_has_no_sparse_search(tmp_path: Path, server: FakeQdrant) -> None:
    for made in (
        embedded_collection(tmp_path / "shard", own_layout(16, sparse=False)),
        served_collection("old", own_layout(16, sparse=False), QdrantSettings(url=server.url)),
    ):
        made.upsert(POINTS)
        assert made.sparse(weights("cache"), 3) == []
        assert len(made.dense(EMBEDDER.embed_query("cache"), 3)) == 3
        made.close()
    assert server.collections["old"]["layout"].get("sparse_vectors") is None


def test_two_builds_give_the_same_scores_to_the_last_digit(tmp_path: Path) -> None:
    terms = [f"term{number}" for number in range(60)]
    points = [
        Point(
            key=f"{number:03}",
            vector=POINTS[0].vector,
            text=" ".join(term for place, term in enumerate(terms) for _ in range(number * place % 7 % 4)),
            payload={},
        )
        for number in range(200)
    ]
    rankings = []
    for build in range(3):
        collection = embedded_collection(tmp_path / str(build), LAYOUT)
        collection.upsert(points)
        rankings.append(collection.sparse(weights(" ".join(terms)), 200))
        collection.close()
    assert rankings[0] == rankings[1] == rankings[2]


def test_a_folder_with_a_collection_is_refused(tmp_path: Path) -> None:
    made = embedded_collection(tmp_path / "shard", LAYOUT)
    with pytest.raises(ArtifactError, match="empty directory"):
        embedded_collection(tmp_path / "shard", LAYOUT)
    made.close()
    with pytest.raises(ArtifactError, match="can't be used"):
        made.count()


@pytest.mark.parametrize(
    "status", [401, 500, *(pytest.param(status, marks=pytest.mark.full) for status in (403, 429, 503))]
)
def test_a_failing_server_is_an_error_and_not_an_empty_result(server: FakeQdrant, status: int) -> None:
    made = served(server.url)
    made.upsert(POINTS)
    server.failing = status
    for ask in (
        lambda: made.dense(POINTS[0].vector, 3),
        lambda: made.sparse(weights("cache"), 3),
        made.count,
        lambda: made.upsert(POINTS),
        lambda: served(server.url),
    ):
        with pytest.raises(ArtifactError, match=str(status)):
            ask()
    made.close()


@pytest.mark.parametrize(
    "answer", [b"", b"<html>", b"{}", b'{"result": {"points": [{"id": 1, "version": 1, "score": 1}]}}']
)
def test_an_invalid_answer_is_an_error(server: FakeQdrant, answer: bytes) -> None:
    made = served(server.url)
    server.answer = answer
    with pytest.raises(ArtifactError):
        made.dense(POINTS[0].vector, 3)
    made.close()


def test_an_unreachable_server_is_an_error_with_a_fix() -> None:
    with fake_qdrant() as gone:
        url = gone.url
    with pytest.raises(ArtifactError, match="Qdrant server") as error:
        served(url)
    assert "start the server" in error.value.remedy
    for wrong in ("ftp://host", "qdrant", "http://user:word@host"):
        with pytest.raises(UsageError, match="not the URL"):
            served(wrong)


def test_the_key_is_sent_to_its_host_only(server: FakeQdrant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCHRANK_QDRANT_KEY", "canary-key")
    served(server.url).close()
    assert set(server.keys) == {None}
    monkeypatch.setenv("BRANCHRANK_QDRANT_KEY_HOST", "127.0.0.1")
    served(server.url).close()
    assert server.keys[-1] == "canary-key"
    server.failing = 403
    with pytest.raises(ArtifactError) as error:
        served(server.url)
    assert "canary-key" not in str(error.value)


def test_the_key_is_not_sent_in_the_clear() -> None:
    environment = {"BRANCHRANK_QDRANT_KEY": "k", "BRANCHRANK_QDRANT_URL": "https://cluster.example:6333"}
    assert key_for("QDRANT", "https://cluster.example:6333", environment) == "k"
    assert key_for("QDRANT", "https://other.example", environment) == ""
    assert key_for("QDRANT", "https://cluster.example", {}) == ""
    replaced = environment | {"BRANCHRANK_QDRANT_KEY_HOST": "Other.example"}
    assert key_for("QDRANT", "https://cluster.example", replaced) == ""
    assert key_for("QDRANT", "https://other.example", replaced) == "k"
    with pytest.raises(UsageError, match="without encryption"):
        key_for("QDRANT", "http://cluster.example:6333", environment)


@pytest.mark.parametrize("encoding", ["gzip", pytest.param("", marks=pytest.mark.full)])
def test_a_decompression_bomb_is_an_error_and_uses_little_memory(server: FakeQdrant, encoding: str) -> None:
    collection = served(server.url)
    server.answer = gzip.compress(b"[" * (100 << 20), 1) if encoding else b"[" * (65 << 20)
    server.encoding = encoding
    tracemalloc.start()
    try:
        with pytest.raises(ArtifactError, match="Qdrant server"):
            collection.dense(np.ones(16, dtype=np.float32) / 4, 3)
        assert tracemalloc.get_traced_memory()[1] < 90 << 20
    finally:
        tracemalloc.stop()
        collection.close()
