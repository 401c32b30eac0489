"""Document 002, Qdrant hybrid search: one test per requirement and per scenario, named after it."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.embedding_servers import EmbeddingServer, serving
from support.fake_qdrant import FakeQdrant, fake_qdrant
from support.front_doors import Command, Http, Library, ids, make_indexed, ranks
from support.redis_server import RedisServer

from branchrank.core.records import Retrieval
from branchrank.index.stores.qdrant_store import Point, QdrantCollection, embedded_collection, own_layout

PLUMS = 30
PAGES = {
    "cache.md": "# Guide\n\nClear the cache pool with the command cache:clear.\n",
    "client.md": "# Guide\n\nThe HttpClient sends a request and retries it.\n",
    "served.md": "# Guide\n\nA cached response is served again.\n",
    "deploy.md": "# Guide\n\nBring the application to production.\n",
    "route.md": "# Guide\n\nThe router matches a path to a controller.\n",
    **{f"plums/{n:02}.md": f"# Guide\n\nA plum of kind {n}.\n" for n in range(PLUMS)},
}
DENSE, SPARSE = "qdrant-dense", "qdrant-sparse"
#: A query whose first result differs between its words and its vector.
QUERY = "request path of the cached response"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_indexed(tmp_path_factory.mktemp("document-002"), PAGES, embedder="fake:768")


@pytest.fixture
def server() -> Iterator[FakeQdrant]:
    with fake_qdrant() as running:
        yield running


def layout(server: FakeQdrant) -> dict[str, Any]:
    """The layout of the server's only collection."""
    [collection] = server.collections.values()
    made: dict[str, Any] = collection["layout"]
    return made


def lists(retrieval: Retrieval) -> tuple[dict[str, int], dict[str, int]]:
    """The ranks in the sparse and in the dense search."""
    stages = {stage.stage: stage for stage in retrieval.trace}
    return ranks(stages.get(SPARSE)), ranks(stages.get(DENSE))


class TestSparseAndDenseVectorStorage:
    def test_requirement(self, library: Library, command: Command, http: Http) -> None:
        found = library.retrieve("cached response", "qdrant", 3)
        assert all(lists(found))
        expected = [hit.id for hit in found.hits]
        assert (
            ids(command.hits("retrieve", "--predictor", "qdrant", "--top-k", 3, "cached response"))
            == expected
        )
        assert ids(http("cached response", "qdrant", 3)["hits"]) == expected

    def test_collection_creation_with_hybrid_vectors(self, library: Library, server: FakeQdrant) -> None:
        """On a server, with the default settings; 768 is the model's dimension."""
        assert library.retrieve("plum", "qdrant", qdrant__url=server.url).hits
        assert layout(server)["vectors"] == {"dense": {"size": 768, "distance": "Cosine"}}
        assert layout(server)["sparse_vectors"] == {"sparse": {"modifier": "idf"}}

    def test_an_embedded_collection_compares_dense_vectors_by_cosine(self, tmp_path: Path) -> None:
        """The longer vector does not win. (The vectors of an index all have length 1.)"""
        collection = embedded_collection(tmp_path / "shard", own_layout(2))
        vectors = {"near": [0.1, 0.0], "far": [8.0, 6.0]}
        collection.upsert(
            [
                Point(key=key, vector=np.array(vector, dtype=np.float32), text=key, payload={})
                for key, vector in vectors.items()
            ]
        )
        found = collection.dense(np.array([1.0, 0.0], dtype=np.float32), 2)
        collection.close()
        assert [entry.key for entry in found] == ["near", "far"]
        assert [entry.score for entry in found] == pytest.approx([1.0, 0.8])

    def test_dense_only_fallback(self, library: Library, server: FakeQdrant) -> None:
        settings = {"qdrant__enable_hybrid": False}
        found = library.retrieve(QUERY, "qdrant", **settings)
        sparse, dense = lists(found)
        assert (sparse, [hit.id for hit in found.hits]) == ({}, list(dense)[:5])
        assert SPARSE not in {stage.stage for stage in found.trace}, "it is not even searched"
        assert found.notices == ()
        assert all(set(hit.branches) == {DENSE} for hit in found.hits)
        assert ids(library.retrieve(QUERY, "qdrant", qdrant__fusion_weight=0.0, **settings).hits) == ids(
            found.hits
        )
        on_server = library.retrieve(QUERY, "qdrant", qdrant__url=server.url, **settings)
        assert not layout(server).get("sparse_vectors")
        assert [hit.id for hit in on_server.hits] == [hit.id for hit in found.hits]

    def test_backward_compatibility(self, library: Library, command: Command, server: FakeQdrant) -> None:
        """The collection is there already, without sparse vectors; the settings ask for both."""
        library.retrieve(QUERY, "qdrant", qdrant__url=server.url)
        [collection] = server.collections.values()
        del collection["layout"]["sparse_vectors"]
        for point in collection["points"].values():
            point["vector"].pop("sparse")
        found = library.retrieve(QUERY, "qdrant", qdrant__url=server.url, qdrant__fusion_weight=0.4)
        sparse, dense = lists(found)
        assert (sparse, [hit.id for hit in found.hits]) == ({}, list(dense)[:5])
        assert any("no sparse vectors" in notice for notice in found.notices)
        only = ("--qdrant-url", server.url, "--qdrant-fusion-weight", 0)
        answer = command.json("retrieve", "--predictor", "qdrant", *only, QUERY)
        assert ids(answer["hits"]) == list(dense)[:5]
        assert all(set(hit["branches"]) == {DENSE} for hit in answer["hits"])
        assert any("no sparse vectors" in notice for notice in answer["notices"])


class TestHybridSearchWithReciprocalRankFusion:
    def test_requirement(self, command: Command) -> None:
        (best,) = command.hits("retrieve", "--predictor", "qdrant", "--top-k", 1, "cached response")
        assert best["source"] == "served.md"
        assert set(best["branches"]) == {DENSE, SPARSE}

    def test_hybrid_search_execution(self, library: Library) -> None:
        found = library.retrieve("request path", "qdrant", 2)
        sparse, dense = lists(found)
        assert len(found.hits) == 2
        assert {hit.id for hit in found.hits} <= {*sparse, *dense}
        assert found.hits[0].score >= found.hits[1].score

    def test_fusion_weight_configuration(self, library: Library) -> None:
        default = library.retrieve(QUERY, "qdrant")
        sparse, dense = lists(default)
        assert next(iter(sparse)) != next(iter(dense))
        keyword = library.retrieve(QUERY, "qdrant", qdrant__fusion_weight=0.0)
        assert [hit.id for hit in keyword.hits] == list(sparse)[:5]
        semantic = library.retrieve(QUERY, "qdrant", qdrant__fusion_weight=1.0)
        assert [hit.id for hit in semantic.hits] == list(dense)[:5]
        assert library.retrieve(QUERY, "qdrant", qdrant__fusion_weight=0.5).hits == default.hits

    def test_query_text_embedding(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The embedding at Ollama and the sparse search each wait for the other."""
        together = threading.Barrier(2, timeout=10)
        searched = []
        sparse = QdrantCollection.sparse
        with serving() as ollama:
            command: Command = asking_ollama(tmp_path, ollama)
            answer = ollama.ollama_answer

            def answering(body: dict[str, Any]) -> dict[str, Any]:
                if body["input"] == ["search_query: cached response"]:
                    together.wait()
                return answer(body)

            def searching(self: QdrantCollection, query: Any, n: int, filters: Any = None) -> Any:
                searched.append(query)
                together.wait()
                return sparse(self, query, n, filters)

            monkeypatch.setattr(ollama, "ollama_answer", answering)
            monkeypatch.setattr(QdrantCollection, "sparse", searching)
            hits = command.hits("retrieve", "--predictor", "qdrant", "cached response")
        path, _, body = next(each for each in reversed(ollama.requests) if each[0] == "/api/embed")
        assert (path, body["model"]) == ("/api/embed", "nomic-embed-text")
        assert body["input"] == ["search_query: cached response"]
        assert len(searched) == 1
        assert hits[0]["source"] == "served.md"


def asking_ollama(folder: Path, ollama: EmbeddingServer) -> Command:
    """The commands over a workspace that is embedded by Ollama."""
    embedding = {"embedder": "ollama:nomic-embed-text", "embedding_url": ollama.url}
    return Command(make_indexed(folder, PAGES, **embedding))


class TestBm25SparseSearch:
    ONLY: dict[str, Any] = {"qdrant__fusion_weight": 0.0}  # noqa: RUF012 - never changed

    def test_requirement(self, library: Library) -> None:
        (hit,) = library.retrieve("HttpClient", "qdrant", **self.ONLY).hits
        assert (hit.source, set(hit.branches)) == ("client.md", {SPARSE})

    def test_sparse_search_on_text_fields(self, library: Library) -> None:
        found = library.retrieve("cached response served again", "qdrant", **self.ONLY).hits
        assert found[0].source == "served.md"
        scores = [hit.branches[SPARSE].score for hit in found]
        assert scores == sorted(scores, reverse=True)
        assert library.retrieve("zzzunknown", "qdrant", **self.ONLY).hits == ()

    def test_sparse_search_with_filters(self, library: Library, command: Command) -> None:
        """The filtered document comes back although 2N others are better: filters come before ranking."""
        words = "plum plum kind router"
        first = library.retrieve(words, "qdrant", 1, **self.ONLY)
        assert "route.md" not in {key.partition("#")[0] for key in lists(first)[0]}
        filtered = library(**self.ONLY).retrieve(words, "qdrant", 1, filters=["file_path=route.md"])
        assert [hit.source for hit in filtered.hits] == ["route.md"]
        assert len(lists(filtered)[0]) == 1
        hits = command.hits(
            "retrieve", "--predictor", "qdrant", "--filter", "file_path=plums/1*.md", "--top-k", 30, words
        )
        assert {hit["source"] for hit in hits} == {f"plums/{n}.md" for n in range(10, 20)}


class TestSearchResultFusion:
    def test_requirement(self, library: Library) -> None:
        found = library.retrieve("cached request", "qdrant", 30)
        sparse, dense = lists(found)
        assert {hit.id for hit in found.hits} <= {*sparse, *dense}
        assert found.hits[0].id in set(sparse) & set(dense)

    @pytest.mark.parametrize("weight", [0.0, 0.25, 0.5, 0.8, 1.0])
    def test_rrf_algorithm(self, library: Library, weight: float) -> None:
        sparse, dense = lists(library.retrieve(QUERY, "qdrant"))
        expected = {
            key: (1 - weight) * (1 / (60 + sparse[key]) if key in sparse else 0.0)
            + weight * (1 / (60 + dense[key]) if key in dense else 0.0)
            for key in {*sparse, *dense}
        }
        found_keys = [key for key, score in expected.items() if score > 0]
        order = sorted(found_keys, key=lambda key: (-expected[key], key))[:5]
        found = library.retrieve(QUERY, "qdrant", qdrant__fusion_weight=weight).hits
        assert [hit.id for hit in found] == order
        assert [hit.score for hit in found] == pytest.approx([expected[key] for key in order])

    def test_deduplication(self, library: Library) -> None:
        found = library.retrieve("cached response", "qdrant", 10).hits
        both = [hit for hit in found if len(hit.branches) == 2]
        assert both
        assert len({hit.id for hit in found}) == len(found)
        for hit in both:
            assert hit.score == pytest.approx(sum(0.5 / (60 + p.rank) for p in hit.branches.values()))

    @pytest.mark.parametrize("wanted", [1, 3, 10])
    def test_result_count(self, library: Library, wanted: int) -> None:
        found = library.retrieve("plum kind", "qdrant", wanted)
        sparse, dense = lists(found)
        assert (len(dense), len(sparse), len(found.hits)) == (2 * wanted, 2 * wanted, wanted)


class TestPerformanceAndCaching:
    def test_requirement(self, command: Command, library: Library) -> None:
        answer = command.json("retrieve", "--predictor", "qdrant", "cached response")
        assert {"embed", DENSE, SPARSE, "fuse"} <= set(answer["stage_ms"])
        again = library.retrieve("cached response", "qdrant")
        assert again.hits == library.retrieve("cached response", "qdrant").hits

    def test_concurrent_sparse_and_dense_search(
        self, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each waits for the other in the middle of its work: one after the other would never end."""
        together = threading.Barrier(2, timeout=10)
        for name in ("dense", "sparse"):
            method = getattr(QdrantCollection, name)
            waiting = lambda *a, m=method: (together.wait(), m(*a))[1]  # noqa: E731
            monkeypatch.setattr(QdrantCollection, name, waiting)
        assert command.hits("retrieve", "--predictor", "qdrant", "cached response")

    def test_embedding_cache(self, tmp_path: Path) -> None:
        """Redis is asked first; Ollama only for what it does not hold."""
        redis = RedisServer(tmp_path)
        try:
            with serving() as ollama:
                command: Command = asking_ollama(tmp_path / "project", ollama)
                words = ("--predictor", "qdrant", "--cache-redis-url", redis.url)

                def embedded(query: str) -> tuple[int, list[str]]:
                    before = ollama.inputs().count(f"search_query: {query}")
                    # Nothing that lies in the workspace may answer in Redis's place.
                    shutil.rmtree(command.data / "hybrid" / "cache", ignore_errors=True)
                    found = ids(command.hits("retrieve", *words, query))
                    return ollama.inputs().count(f"search_query: {query}") - before, found

                asked, first = embedded("cached response")
                assert asked == 1
                assert embedded("cached response") == (0, first)
                assert embedded("another query")[0] == 1
        finally:
            redis.stop()

    def test_query_performance_target(self, library: Library) -> None:
        """What is found is accurate; `benchmarks/qdrant_hybrid.py` measures p95 under 10,000 vectors."""
        for query in (QUERY, "plum of kind 7", "production"):
            _, dense = lists(library.retrieve(query, "qdrant", 10))
            exact = library.stages(query, "dense", 20)["dense(chunks)"].keys
            assert list(dense) == list(exact)[:20]
