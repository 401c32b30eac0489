"""Document 001, BM25-ranked grep: one test per requirement and per scenario, named after it."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

import pytest
from support.front_doors import Command, Library, Mcp, grep_beside_embedding, make_indexed

FILES = 40
BM25: dict[str, object] = {"grep__ranking": "bm25"}
QUERY = "fig oak"


def matches(n: int) -> dict[int, dict[str, int]]:
    """The lines of file ``n`` that hold "fig" or "oak", and how often.

    "fig" stands in line 31, n % 8 times; in every fifth file "oak" does; in every third file "fig" stands
    in line 46, too, so that passages are of 21 or 36 lines.
    """
    first = {word: count for word, count in (("fig", n % 8), ("oak", int(n % 5 == 0))) if count}
    second = {"fig": 1} if n % 3 == 1 else {}
    return {line: words for line, words in ((31, first), (46, second)) if words}


def page(n: int) -> str:
    """80 lines."""
    lines = ["hay"] * 80
    for line, words in matches(n).items():
        lines[line - 1] = " ".join(" ".join([word] * count) for word, count in words.items())
    return "\n".join(lines) + "\n"


PAGES = {f"{n:02}.md": page(n) for n in range(FILES)}
PAGES["merged.md"] = "\n".join("gap" if n in (10, 30, 52) else "hay" for n in range(1, 101))


def worked_out() -> dict[str, float]:
    """The BM25 score of each file's only passage, from what :func:`matches` says."""
    held = {f"{n:02}.md": matches(n) for n in range(FILES)}
    lengths = {source: max(lines) - min(lines) + 21 for source, lines in held.items() if lines}
    average = statistics.mean(lengths.values())
    counts = {
        source: [sum(words.get(word, 0) for words in held[source].values()) for word in ("fig", "oak")]
        for source in lengths
    }
    documents = len(PAGES)
    holding = [sum(bool(count[term]) for count in counts.values()) for term in (0, 1)]
    idf = [math.log(1 + (documents - n + 0.5) / (n + 0.5)) for n in holding]
    return {
        source: sum(
            weight * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * lengths[source] / average))
            for weight, count in zip(idf, counts[source], strict=True)
        )
        for source in lengths
    }


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("document-001")
    return make_indexed(folder, PAGES, "[grep]\nvector_score_threshold = 4.0\n")


class TestContextWindowEnrichmentForGrepResults:
    def test_requirement(self, mcp: Mcp) -> None:
        found = mcp("grep_search", query="oak").results
        assert {each["line_end"] - each["line_start"] + 1 for each in found} == {21}

    def test_grep_match_with_context_window(self, mcp: Mcp) -> None:
        answer = mcp("grep_search", query="oak")
        for each in answer.results:
            assert (each["line_start"], each["line_end"], each["matched_lines"]) == (21, 41, [31])
        assert answer.text.count("> 31 | ") == len(answer.results) == FILES // 5

    def test_multiple_matches_in_same_file_within_context_range(self, mcp: Mcp) -> None:
        found = mcp("grep_search", query="gap").results
        assert sorted(each["matched_lines"] for each in found) == [[10, 30], [52]]


class TestBm25ScoringAndRankingOfGrepResults:
    def test_requirement(self, mcp: Mcp) -> None:
        scores = worked_out()
        best = max(sorted(scores), key=scores.__getitem__)
        assert mcp("grep_search", query=QUERY, ranking="bm25").paths[0] == best
        assert best != min(scores), "the first by path is another"

    @pytest.mark.parametrize("ranking", ["bm25", "order", "none"])
    def test_bm25_ranking_applied_to_grep_output(self, mcp: Mcp, ranking: str) -> None:
        scores = worked_out()
        answer = mcp("grep_search", query=QUERY, ranking=ranking)
        expected = sorted(scores, key=lambda source: (-scores[source], source))
        assert answer.count == (len(scores), "files")
        assert answer.paths == expected[:10]
        found = [each["score"] for each in answer.results]
        assert found == pytest.approx([scores[source] for source in expected[:10]])

    def test_low_relevance_grep_results_filtered(self, mcp: Mcp) -> None:
        scores = worked_out()
        first_quartile = statistics.quantiles(scores.values(), n=4, method="inclusive")[0]
        expected = {source for source, score in scores.items() if score >= first_quartile - 1e-9}
        assert 0 < len(expected) < len(scores)
        asked = {"query": QUERY, "limit": 50}
        assert set(mcp("grep_search", ranking="bm25", **asked).paths) == expected
        assert set(mcp("grep_search", BM25, **asked).paths) == expected, "as a setting"
        assert set(mcp("grep_search", **asked).paths) == set(scores), "without it"


class TestHybridSearchCombiningBm25AndVectorRetrieval:
    def test_requirement(self, mcp: Mcp, command: Command) -> None:
        scores = worked_out()
        best = max(sorted(scores), key=scores.__getitem__)
        found = mcp("hybrid_search", BM25, semantic_query="figs and oaks", exact_keywords=QUERY)
        assert best in found.paths
        hits = command.hits("retrieve", "--predictor", "grep", "--top-k", 100, QUERY)
        assert {hit["source"] for hit in hits if "grep" in hit["branches"]} == set(scores)

    def test_hybrid_search_fusion(self, library: Library, mcp: Mcp, monkeypatch: pytest.MonkeyPatch) -> None:
        query = "figs and oaks together"
        with monkeypatch.context() as patched:
            asked = grep_beside_embedding(patched)
            results = library(**BM25).tools.hybrid_search(query, QUERY).results
        assert asked == {"grep": QUERY, "vector": query}
        assert len(results) == 10
        for found in results:
            places = found.hit.branches.values()
            assert found.hit.score == pytest.approx(sum(1 / (60 + place.rank) for place in places))
        scores = [found.hit.score for found in results]
        assert scores == sorted(scores, reverse=True)
        through_mcp = mcp("hybrid_search", BM25, semantic_query=query, exact_keywords=QUERY)
        assert [each["score"] for each in through_mcp.results] == scores

    def test_hybrid_search_drops_grep_results_below_the_25th_percentile(self, library: Library) -> None:
        scores = worked_out()
        first_quartile = statistics.quantiles(scores.values(), n=4, method="inclusive")[0]
        found = library(**BM25).tools.hybrid_search("figs and oaks", QUERY, limit=50).results
        grepped = {each.hit.source for each in found if "grep" in each.hit.branches}
        assert grepped
        assert all(scores[source] >= first_quartile - 1e-9 for source in grepped)

    def test_one_source_returns_empty(self, mcp: Mcp) -> None:
        near = mcp("hybrid_search", BM25, semantic_query="hay", exact_keywords="zzzunknown")
        assert near.places == mcp("vector_search", query="hay").places
        assert near.places
        strict = {**BM25, "grep__vector_score_threshold": 1e-9}
        grepped = mcp("hybrid_search", strict, semantic_query="trees", exact_keywords=QUERY)
        assert mcp("vector_search", strict, query="trees").results == []
        assert len(grepped.results) == 10
        found = [each["score"] for each in grepped.results]
        assert found == sorted(found, reverse=True)
        assert found[-1] > 0
