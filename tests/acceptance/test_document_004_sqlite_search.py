"""Document 004, "Search & Retrieval" in SQLite: one test per promise of its sections, named after them."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from support.commands import json_lines
from support.front_doors import Command, Library, ids, make_indexed

from branchrank.index.embedders.fake import FakeEmbedder

TEXTS = {
    "http.md": [
        "The HttpClient interceptor adds a header.",
        "An interceptor of the HttpClient may retry.",
        "Error: connection refused by the server.",
        "HttpClient options.",
        "HttpClient interceptor order.",
    ],
    "auth.md": ["How to handle authentication of users.", "Logging in with a password."],
    "shipping.md": [
        "The deployment runbook.",
        "Deploying twice a day.",
        "They deploy on Monday, once all the other teams have finished.",
    ],
    "waiting.md": ["Messages wait in a queue."],
}
#: Each text is a section, and a chunk, of its own.
PAGES = {
    source: "\n".join(f"# Part {n}\n\n{text}\n" for n, text in enumerate(texts, start=1))
    for source, texts in TEXTS.items()
}
CONFIGURATION = """\
[embedding]
model = "fake:64"

[retrieval]
final_limit = 12
hybrid_alpha = 0.6
candidate_k_keyword = 80
candidate_k_vector = 80
group_by = "document"
doc_agg = "max"
max_chunks_per_doc = 3
"""
QUERIES = ("HttpClient interceptor", "how to handle authentication", "deployment runbook", "server")
SEMANTIC, HYBRID = ("--mode", "semantic"), ("--mode", "hybrid")
CHUNKS = ("--retrieval-group-by", "none")
FTS5, DENSE = "fts5", "dense(chunks)"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_indexed(tmp_path_factory.mktemp("document-004"), PAGES, '[embedding]\nmodel = "fake:64"\n')


@pytest.fixture(scope="module")
def chunks(project: Path) -> list[dict[str, Any]]:
    return json_lines(project / "data" / "chunks.jsonl")


def sources(hits: list[dict[str, Any]]) -> list[str]:
    return [hit["source"] for hit in hits]


def members(hits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The chunks of grouped hits."""
    return [member for hit in hits for member in hit["members"]]


def chunk_with(chunks: list[dict[str, Any]], words: str) -> str:
    """The id of the chunk that holds these words."""
    [key] = [chunk["id"] for chunk in chunks if words in chunk["text"]]
    return str(key)


@pytest.mark.parametrize("mode", ["keyword", "semantic", "hybrid"])
def test_all_modes_return_scores_between_0_and_1(command: Command, mode: str) -> None:
    for query in QUERIES:
        for flags in ((), CHUNKS):
            results = command.hits("search", query, "--mode", mode, *flags)
            assert results
            assert all(0.0 <= part["score"] <= 1.0 for part in [*results, *members(results)])


def test_scores_are_comparable_between_queries(command: Command) -> None:
    """No score is scaled by the other results of its query."""
    [alone] = command.hits("search", "runbook")
    [both] = [hit for hit in command.hits("search", "runbook queue") if hit["source"] == "shipping.md"]
    assert alone["score"] == both["score"]
    assert 0.5 < alone["score"] < 1.0
    assert command.hits("search", "deployment runbook", *HYBRID)[0]["score"] == pytest.approx(1.0)


class TestModes:
    def test_the_mode_selects_the_branches_that_are_searched(self, command: Command) -> None:
        searched = {}
        for mode in ("keyword", "semantic", "hybrid"):
            hits = command.hits("search", "HttpClient retry", *CHUNKS, "--mode", mode)
            searched[mode] = {name for hit in hits for name in hit["branches"]}
        assert searched == {"keyword": {FTS5}, "semantic": {DENSE}, "hybrid": {FTS5, DENSE}}

    def test_the_sqlite_predictor_uses_the_hybrid_mode(self, command: Command, library: Library) -> None:
        for query in QUERIES:
            expected = command.hits("search", query, *HYBRID)
            found = command.hits("retrieve", "--predictor", "sqlite", "--top-k", 12, query)
            assert [(hit["id"], hit["score"]) for hit in found] == [
                (hit["id"], hit["score"]) for hit in expected
            ]
            assert ids(library().search_documents(query)) == ids(expected)

    def test_explain_shows_every_part_of_a_score(self, command: Command) -> None:
        (best, *_) = command.hits("search", "HttpClient retry", *HYBRID)
        result = command("search", "HttpClient retry", *HYBRID, "--explain")
        assert result.exit_code == 0, result.output
        part = best["members"][0]
        for name, word, measured in ((FTS5, "keyword", "score"), (DENSE, "vector", "cosine")):
            place = part["branches"][name]
            assert f"{word} rank {place['rank']}, {measured} {place['score']:.4f}" in result.stdout
        assert f"({part['notes'][FTS5]})" in result.stdout
        assert "BM25" in part["notes"][FTS5]


class TestKeywordSearch:
    def test_fts5_ranks_by_bm25(self, command: Command, chunks: list[dict[str, Any]]) -> None:
        assert sources(command.hits("search", "HttpClient interceptor"))[0] == "http.md"
        [found] = command.hits("search", "queue", *CHUNKS)
        texts = [f"{chunk['breadcrumb']} {chunk['text']}".lower() for chunk in chunks]
        lengths = [len(re.findall(r"\w+", text)) for text in texts]
        own = ids(chunks).index(found["id"])
        assert [text.count("queue") for text in texts if "queue" in text] == [1]
        idf = math.log((len(chunks) - 1 + 0.5) / 1.5)
        norm = 1.2 * (0.25 + 0.75 * lengths[own] / (sum(lengths) / len(lengths)))
        bm25 = idf * 2.2 / (1 + norm)
        assert found["score"] == pytest.approx((1 + bm25 / (1 + bm25)) / 2, rel=1e-6)

    def test_keyword_search_requires_no_embeddings(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nor any section about them; the mode is the default."""
        command = Command(make_indexed(tmp_path, PAGES))

        def embed(*_: object) -> None:
            raise AssertionError("nothing needs a vector")

        monkeypatch.setattr(FakeEmbedder, "embed_query", embed)
        assert sources(command.hits("search", "HttpClient interceptor"))[0] == "http.md"

    def test_keyword_search_matches_exact_and_partial_terms(
        self, command: Command, chunks: list[dict[str, Any]]
    ) -> None:
        for term in ("runbook", "runb"):
            assert sources(command.hits("search", term)) == ["shipping.md"]
        found = command.hits("search", "deploy", *CHUNKS)
        first, *others = (
            chunk_with(chunks, words) for words in ("They deploy", "Deploying twice", "The deployment")
        )
        assert ids(found)[0] == first
        assert set(ids(found)[1:]) == set(others)
        assert found[0]["score"] >= 0.5 >= found[1]["score"]

    def test_keyword_search_finds_error_messages_and_exact_phrases(
        self, command: Command, chunks: list[dict[str, Any]]
    ) -> None:
        found = command.hits("search", '"connection refused"', *CHUNKS)
        assert ids(found) == [chunk_with(chunks, "connection refused")]
        assert command.hits("search", '"refused connection"') == []


class TestSemanticSearch:
    def test_semantic_search_ranks_by_cosine_similarity(
        self, command: Command, chunks: list[dict[str, Any]]
    ) -> None:
        query = "how to handle authentication"
        found = command.hits("search", query, *SEMANTIC, *CHUNKS, "--retrieval-final-limit", 50)
        assert len(found) == len(chunks)
        distances = [hit["distance"] for hit in found]
        assert distances == sorted(distances)
        scores = [hit["score"] for hit in found]
        assert scores == sorted(scores, reverse=True)
        assert sources(found)[0] == "auth.md"

    @pytest.mark.parametrize("mode", ["semantic", "hybrid"])
    def test_semantic_search_without_an_embedding_section_uses_the_model_of_the_index(
        self, command: Command, tmp_path: Path, mode: str
    ) -> None:
        words = ("search", "how to handle authentication", "--mode", mode)
        plain = Command(make_indexed(tmp_path, PAGES))
        assert plain.hits(*words) == command.hits(*words)
        other = plain(*words, "--embedding-model", "fake:32")
        assert (other.exit_code, "'fake:32'" in other.stderr) == (2, True)
        wordless = Command(make_indexed(tmp_path / "words", PAGES, embedder="none"))(*words)
        assert (wordless.exit_code, "--mode keyword" in wordless.stderr) == (2, True)

    def test_semantic_search_finds_text_without_matching_terms(
        self, command: Command, chunks: list[dict[str, Any]]
    ) -> None:
        query = "authenticate logged"
        wanted = chunk_with(chunks, "authentication of users")
        exact = [hit["id"] for hit in command.hits("search", query, *CHUNKS) if hit["score"] > 0.5]
        assert wanted not in exact
        assert sources(command.hits("search", query, *SEMANTIC))[0] == "auth.md"


class TestHybridSearch:
    def test_hybrid_search_merges_keyword_and_semantic_results_by_rrf(self, command: Command) -> None:
        best = command.hits("search", "HttpClient retry", *HYBRID, *CHUNKS)[0]
        assert set(best["branches"]) == {FTS5, DENSE}

    @pytest.mark.parametrize(("alpha", "mode"), [(0.0, "keyword"), (1.0, "semantic")])
    def test_hybrid_alpha_0_is_pure_keyword_and_1_is_pure_semantic(
        self, command: Command, alpha: float, mode: str
    ) -> None:
        query = "HttpClient retry"
        pure = {
            name: ids(command.hits("search", query, *CHUNKS, "--mode", name))
            for name in ("keyword", "semantic")
        }
        assert pure["keyword"] != pure["semantic"]
        blended = command.hits("search", query, *HYBRID, *CHUNKS, "--hybrid-alpha", alpha)
        assert ids(blended) == pure[mode]

    def test_hybrid_alpha_defaults_to_0_6(self, command: Command) -> None:
        query = "HttpClient retry"
        default = command.hits("search", query, *HYBRID)
        assert command.hits("search", query, *HYBRID, "--hybrid-alpha", 0.6) == default
        assert command.hits("search", query, *HYBRID, "--hybrid-alpha", 0.4) != default


class TestHowScoringWorks:
    @pytest.mark.parametrize("alpha", [0.2, 0.6])
    def test_the_final_score_follows_the_documented_rrf_formula(self, command: Command, alpha: float) -> None:
        """Scaled so that 1 is first in both."""
        flags = (*HYBRID, *CHUNKS, "--hybrid-alpha", alpha, "--retrieval-final-limit", 100)
        results = command.hits("search", "HttpClient retry", *flags)
        assert len(results) > 5
        for hit in results:
            places = {name: place["rank"] for name, place in hit["branches"].items()}
            rrf = alpha / (60 + places[DENSE]) if DENSE in places else 0.0
            rrf += (1 - alpha) / (60 + places[FTS5]) if FTS5 in places else 0.0
            assert hit["score"] == pytest.approx(rrf * 61)

    @pytest.mark.parametrize("flags", [(), HYBRID], ids=["keyword", "hybrid"])
    def test_chunks_are_grouped_by_document_and_the_best_chunk_sets_the_score(
        self, command: Command, flags: tuple[str, ...]
    ) -> None:
        results = command.hits("search", "HttpClient interceptor server", *flags)
        assert len(set(sources(results))) == len(results)
        best: dict[str, dict[str, Any]] = {}
        for chunk in command.hits("search", "HttpClient interceptor server", *flags, *CHUNKS):
            best.setdefault(chunk["source"], chunk)
        for hit in results:
            assert hit["score"] == best[hit["source"]]["score"] == hit["members"][0]["score"]
            assert hit["id"] == best[hit["source"]]["id"] == hit["members"][0]["id"]

    def test_one_long_document_does_not_dominate(self, command: Command) -> None:
        query = "HttpClient interceptor server"
        flat = sources(command.hits("search", query, *HYBRID, *CHUNKS))
        assert flat[:3].count("http.md") > 1
        grouped = sources(command.hits("search", query, *HYBRID))
        assert grouped.count("http.md") == 1
        assert len(grouped) == len(TEXTS)


class TestTuning:
    def test_the_sample_configuration_matches_the_defaults(self, tmp_path: Path, command: Command) -> None:
        configured = Command(make_indexed(tmp_path, PAGES, CONFIGURATION))
        query = "HttpClient retry"
        assert configured.hits("search", query, *HYBRID) == command.hits("search", query, *HYBRID)

    def test_final_limit_limits_the_results(self, command: Command) -> None:
        assert len(command.hits("search", "HttpClient", *SEMANTIC)) == len(TEXTS)
        two = command.hits("search", "HttpClient", *SEMANTIC, "--retrieval-final-limit", 2)
        assert len(two) == 2

    def test_candidate_k_keyword_limits_the_keyword_candidates(self, command: Command) -> None:
        few = (*CHUNKS, "--retrieval-candidate-k-keyword", 2)
        assert len(command.hits("search", "HttpClient", *few)) == 2

    def test_candidate_k_vector_limits_the_vector_candidates(self, command: Command) -> None:
        few = (*CHUNKS, *SEMANTIC, "--retrieval-candidate-k-vector", 3)
        assert len(command.hits("search", "HttpClient", *few)) == 3

    def test_group_by_groups_results_by_document(
        self, command: Command, chunks: list[dict[str, Any]]
    ) -> None:
        holding = {chunk["id"] for chunk in chunks if "HttpClient" in chunk["text"]}
        assert set(ids(command.hits("search", "HttpClient", *CHUNKS))) == holding
        assert sources(command.hits("search", "HttpClient")) == ["http.md"]

    def test_doc_agg_sets_how_chunk_scores_are_combined(self, command: Command) -> None:
        [average] = command.hits("search", "HttpClient", "--retrieval-doc-agg", "avg")
        [largest] = command.hits("search", "HttpClient")
        scores = [part["score"] for part in average["members"]]
        assert average["score"] == pytest.approx(sum(scores) / len(scores))
        assert largest["score"] == max(scores) > average["score"]

    def test_max_chunks_per_doc_limits_the_chunks_of_a_result(self, command: Command) -> None:
        assert len(command.hits("search", "HttpClient")[0]["members"]) == 3
        [one] = command.hits("search", "HttpClient", "--retrieval-max-chunks-per-doc", 1)
        assert len(one["members"]) == 1
