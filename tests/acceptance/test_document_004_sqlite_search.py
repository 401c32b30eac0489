"""Document 004, "Search & Retrieval" in SQLite: one test per promise of its sections, named after them."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from branchrank.stores.sqlite_search import SqliteSearch

from branchrank.embedders import FakeEmbedder
from branchrank.errors import UsageError
from branchrank.records import Chunk
from branchrank.settings import RetrievalSettings, resolve
from branchrank.stores.sqlite_file import build_sqlite

EMBEDDER = FakeEmbedder(64)
TEXTS = {
    "http.md": [
        "The HttpClient interceptor adds a header.",
        "An interceptor of the HttpClient may retry.",
        "Error: connection refused by the server.",
        "HttpClient options.",
        "HttpClient interceptor order.",
    ],
    "auth.md": ["How to handle authentication of users.", "Logging in with a password."],
    "deploy.md": [
        "The deployment runbook.",
        "Deploying twice a day.",
        "They deploy on Monday, once all the other teams have finished.",
    ],
    "queue.md": ["Messages wait in a queue."],
}
CHUNKS = [
    Chunk(
        id=f"{source}@{n}",
        node_id=source,
        source=source,
        line_start=n,
        line_end=n,
        breadcrumb="Guide",
        text=text,
    )
    for source, texts in TEXTS.items()
    for n, text in enumerate(texts, start=1)
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("document-004") / "search.sqlite"
    vectors = EMBEDDER.embed_documents([c.text for c in CHUNKS])
    build_sqlite(file, CHUNKS, corpus_digest="d", vectors=vectors, embedder=EMBEDDER.identity)
    return file


@pytest.fixture
def search(path: Path) -> Iterator[SqliteSearch]:
    opened = SqliteSearch(path, embedder=EMBEDDER)
    yield opened
    opened.close()


def test_all_modes_return_results_normalized_to_a_0_1_score(search: SqliteSearch) -> None:
    for mode in ("keyword", "semantic", "hybrid"):
        for query in (
            "HttpClient interceptor",
            "how to handle authentication",
            "deployment runbook",
            "server",
        ):
            results = search.search(query, mode=mode)
            assert results
            assert all(0.0 <= result.score <= 1.0 for result in results)
            assert all(0.0 <= part.score <= 1.0 for result in results for part in result.chunks)


def test_a_score_means_the_same_from_query_to_query(search: SqliteSearch) -> None:
    """No score is scaled by the other results of its query."""
    alone = search.search("runbook", mode="keyword")[0].chunks[0]
    assert alone.score == pytest.approx((1 + alone.bm25 / (1 + alone.bm25)) / 2)
    both_first = search.search("deployment runbook")[0]
    assert both_first.score == pytest.approx(1.0)


class TestKeywordSearch:
    def test_bm25_ranking_of_fts5(self, search: SqliteSearch) -> None:
        best = search.search("HttpClient interceptor", mode="keyword")[0]
        assert best.id == "http.md"
        count = len(CHUNKS)
        (found,) = search.keyword_matches("queue", 5)
        lengths = [len(f"{c.breadcrumb} {c.text}".replace(":", "").replace(".", "").split()) for c in CHUNKS]
        average = sum(lengths) / count
        idf = math.log((count - 1 + 0.5) / (1 + 0.5))
        expected = idf * 2.2 / (1 + 1.2 * (0.25 + 0.75 * lengths[-1] / average))
        assert found.bm25 == pytest.approx(expected, rel=1e-6)

    def test_no_embeddings_required(self, tmp_path: Path) -> None:
        build_sqlite(tmp_path / "s", CHUNKS, corpus_digest="d")
        search = SqliteSearch(tmp_path / "s")
        assert search.search("HttpClient interceptor", mode="keyword")[0].id == "http.md"
        search.close()

    def test_matches_exact_and_partial_terms(self, search: SqliteSearch) -> None:
        assert search.search("runbook", mode="keyword")[0].id == "deploy.md"
        assert search.search("runb", mode="keyword")[0].id == "deploy.md"
        found = search.keyword_matches("deploy", 10)
        assert [(m.key, m.exact) for m in found] == [
            ("deploy.md@3", True),
            ("deploy.md@2", False),
            ("deploy.md@1", False),
        ]
        assert found[0].score >= 0.5 >= found[1].score

    def test_best_for_error_messages_and_exact_phrases(self, search: SqliteSearch) -> None:
        assert search.search('"connection refused"', mode="keyword")[0].chunks[0].chunk.id == "http.md@3"
        assert search.keyword_matches('"refused connection"', 5) == []


class TestSemanticSearch:
    def test_cosine_similarity_over_embeddings(self, search: SqliteSearch) -> None:
        query = EMBEDDER.embed_query("how to handle authentication")
        for result in search.search("how to handle authentication", mode="semantic"):
            for part in result.chunks:
                cosine = float(EMBEDDER.embed_query(part.chunk.text) @ query)
                assert part.score == pytest.approx(max(0.0, cosine), abs=1e-6)

    def test_requires_embedding_configured(self, path: Path) -> None:
        search = SqliteSearch(path)
        with pytest.raises(UsageError) as error:
            search.search("how to handle authentication", mode="semantic")
        assert "[embedding]" in error.value.message
        assert '[embedding]\n    model = "' in error.value.remedy
        search.close()

    def test_finds_content_when_terms_do_not_match(self, search: SqliteSearch) -> None:
        query = "authenticate"
        assert "auth.md@1" not in {m.key for m in search.keyword_matches(query, 80) if m.exact}
        assert search.search(query, mode="semantic")[0].id == "auth.md"


class TestHybridSearch:
    def test_merges_keyword_and_semantic_results_by_rrf(self, search: SqliteSearch) -> None:
        parts = search.search("HttpClient retry", settings=RetrievalSettings(group_by="none"))[0].chunks
        assert parts[0].keyword is not None
        assert parts[0].vector is not None

    @pytest.mark.parametrize(("alpha", "mode"), [(0.0, "keyword"), (1.0, "semantic")])
    def test_hybrid_alpha_0_is_pure_keyword_and_1_is_pure_semantic(
        self, search: SqliteSearch, alpha: float, mode: str
    ) -> None:
        blended = search.search("HttpClient retry", settings=RetrievalSettings(hybrid_alpha=alpha))
        pure = search.search("HttpClient retry", mode=mode)
        assert [r.id for r in blended] == [r.id for r in pure]

    def test_hybrid_alpha_defaults_to_0_6(self, search: SqliteSearch) -> None:
        assert RetrievalSettings().hybrid_alpha == 0.6
        query = "HttpClient retry"
        assert search.search(query) == search.search(query, settings=RetrievalSettings(hybrid_alpha=0.6))


class TestHowScoringWorks:
    @pytest.mark.parametrize("alpha", [0.2, 0.6])
    def test_the_final_score_is_the_stated_rrf(self, search: SqliteSearch, alpha: float) -> None:
        options = RetrievalSettings(hybrid_alpha=alpha, group_by="none", final_limit=100)
        results = search.search("HttpClient retry", settings=options)
        assert results
        for result in results:
            (part,) = result.chunks
            rrf = alpha / (60 + part.vector.rank) if part.vector else 0.0
            rrf += (1 - alpha) / (60 + part.keyword.rank) if part.keyword else 0.0
            assert result.score == pytest.approx(rrf * 61)

    def test_documents_are_grouped_and_the_best_chunk_represents_each(self, search: SqliteSearch) -> None:
        results = search.search("HttpClient interceptor")
        assert len({r.id for r in results}) == len(results)
        for result in results:
            assert result.score == max(part.score for part in result.chunks)
            assert result.hit.id == result.chunks[0].chunk.id

    def test_one_long_document_does_not_dominate(self, search: SqliteSearch) -> None:
        flat = search.search("HttpClient interceptor server", settings=RetrievalSettings(group_by="none"))
        assert [r.chunks[0].chunk.source for r in flat[:3]].count("http.md") > 1
        grouped = search.search("HttpClient interceptor server")
        assert [r.id for r in grouped[:3]].count("http.md") == 1


CONFIGURATION = {
    "retrieval": {
        "final_limit": 12,
        "hybrid_alpha": 0.6,
        "candidate_k_keyword": 80,
        "candidate_k_vector": 80,
        "group_by": "document",
        "doc_agg": "max",
        "max_chunks_per_doc": 3,
    }
}


class TestTuning:
    def test_the_sample_configuration_is_the_default(self) -> None:
        assert resolve(toml=CONFIGURATION, environment={}).part(RetrievalSettings) == RetrievalSettings()

    def test_final_limit(self, search: SqliteSearch) -> None:
        assert len(search.search("HttpClient", mode="semantic")) == len(TEXTS)
        assert (
            len(search.search("HttpClient", mode="semantic", settings=RetrievalSettings(final_limit=2))) == 2
        )

    def test_candidate_k_keyword(self, search: SqliteSearch) -> None:
        few = RetrievalSettings(candidate_k_keyword=2, group_by="none")
        assert len(search.search("HttpClient", mode="keyword", settings=few)) == 2

    def test_candidate_k_vector(self, search: SqliteSearch) -> None:
        few = RetrievalSettings(candidate_k_vector=3, group_by="none")
        assert len(search.search("HttpClient", mode="semantic", settings=few)) == 3

    def test_group_by(self, search: SqliteSearch) -> None:
        chunks = search.search("HttpClient", mode="keyword", settings=RetrievalSettings(group_by="none"))
        documents = search.search("HttpClient", mode="keyword")
        assert {r.id for r in chunks} == {c.id for c in CHUNKS if "HttpClient" in c.text}
        assert [r.id for r in documents] == ["http.md"]

    def test_doc_agg(self, search: SqliteSearch) -> None:
        average = search.search("HttpClient", mode="keyword", settings=RetrievalSettings(doc_agg="avg"))[0]
        largest = search.search("HttpClient", mode="keyword")[0]
        scores = [part.score for part in average.chunks]
        assert average.score == pytest.approx(sum(scores) / len(scores))
        assert largest.score == max(scores) > average.score

    def test_max_chunks_per_doc(self, search: SqliteSearch) -> None:
        assert len(search.search("HttpClient", mode="keyword")[0].chunks) == 3
        one = RetrievalSettings(max_chunks_per_doc=1)
        assert len(search.search("HttpClient", mode="keyword", settings=one)[0].chunks) == 1
