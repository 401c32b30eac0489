"""Document 001, BM25-ranked grep: one test per requirement and per scenario, named after it."""

import math
import statistics
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.small_index import small_index

from branchrank.files.grep import Grep
from branchrank.index import Index
from branchrank.settings import GrepSettings
from branchrank.systems.search_tools import SearchTools


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Index, Path]]:
    index, root, _ = small_index(tmp_path_factory.mktemp("document-001"))
    with index:
        yield index, root


def corpus(root: Path) -> None:
    """Forty files of 60 lines; file ``n`` holds ``fig`` n % 8 times and, every fifth, ``oak``."""
    for n in range(40):
        lines = ["-"] * 60
        lines[30] = " ".join(["fig"] * (n % 8) + ["oak"] * (n % 5 == 0))
        (root / f"{n:02}.rst").write_text("\n".join(lines))


def worked_out() -> dict[str, float]:
    """The BM25 score of each file's only passage, from what :func:`corpus` wrote."""
    counts = {f"{n:02}.rst": (n % 8, int(n % 5 == 0)) for n in range(40)}
    holding = [sum(bool(count[term]) for count in counts.values()) for term in (0, 1)]
    idf = [math.log(1 + (40 - n + 0.5) / (n + 0.5)) for n in holding]
    # All passages are equally long, so the length normalisation is 1.
    return {
        source: sum(w * c * 2.2 / (c + 1.2) for w, c in zip(idf, count, strict=True))
        for source, count in counts.items()
        if any(count)
    }


class TestContextWindowEnrichmentForGrepResults:
    def test_requirement(self, tmp_path: Path) -> None:
        corpus(tmp_path)
        assert {p.span.lines for p in Grep(tmp_path).search("fig oak").passages} == {21}

    def test_grep_match_with_context_window(self, tmp_path: Path) -> None:
        corpus(tmp_path)
        for passage in Grep(tmp_path).search("fig oak").passages:
            assert (passage.line_start, passage.line_end, passage.matched) == (21, 41, (31,))
            assert "> 31 | " in passage.marked

    def test_multiple_matches_in_same_file_within_context_range(self, tmp_path: Path) -> None:
        (tmp_path / "a.rst").write_text("\n".join("fig" if n in (10, 30, 51) else "-" for n in range(1, 101)))
        found = Grep(tmp_path).search("fig", ranking="none").passages
        assert [p.matched for p in found] == [(10, 30), (51,)]


class TestBm25ScoringAndRankingOfGrepResults:
    def test_requirement(self, tmp_path: Path) -> None:
        corpus(tmp_path)
        ranked = Grep(tmp_path).search("fig oak", ranking="bm25").passages
        unranked = Grep(tmp_path).search("fig oak", ranking="none").passages
        assert ranked[0].source == "15.rst"
        assert unranked[0].source == "00.rst"

    def test_bm25_ranking_applied_to_grep_output(self, tmp_path: Path) -> None:
        corpus(tmp_path)
        scores = worked_out()
        found = Grep(tmp_path).search("fig oak")
        expected = sorted(scores, key=lambda source: (-scores[source], source))
        assert found.matches == len(scores)
        assert [p.source for p in found.passages] == expected[:10]
        assert [p.score for p in found.passages] == pytest.approx([scores[s] for s in expected[:10]])

    def test_low_relevance_grep_results_filtered(self, tmp_path: Path) -> None:
        corpus(tmp_path)
        scores = worked_out()
        first_quartile = statistics.quantiles(scores.values(), n=4, method="inclusive")[0]
        expected = {source for source, score in scores.items() if score >= first_quartile - 1e-9}
        assert 0 < len(expected) < len(scores)
        assert {p.source for p in Grep(tmp_path).search("fig oak", limit=None).passages} == expected


class TestHybridSearchCombiningBm25AndVectorRetrieval:
    def test_requirement(self, opened: tuple[Index, Path]) -> None:
        tools = SearchTools(*opened, settings=GrepSettings(vector_score_threshold=4.0))
        best = tools.hybrid_search("limit max_retries of a request", ranking="bm25").results[0]
        assert "max_retries" in best.hit.text

    def test_hybrid_search_fusion(self, opened: tuple[Index, Path], monkeypatch: pytest.MonkeyPatch) -> None:
        tools = SearchTools(*opened, settings=GrepSettings(vector_score_threshold=4.0))
        together = threading.Barrier(2, timeout=10)
        grep, embed = tools._grep.search, opened[0].embedder.embed_query
        rankings = []

        def grepping(query: str, **options: object) -> object:
            rankings.append(options["ranking"])
            together.wait()
            return grep(query, **options)

        monkeypatch.setattr(tools._grep, "search", grepping)
        monkeypatch.setattr(
            opened[0].embedder, "embed_query", lambda query: (together.wait(), embed(query))[1]
        )
        results = tools.hybrid_search("clear the cache pool", ranking="bm25").results
        assert rankings == ["bm25"]
        assert 0 < len(results) <= 10
        for found in results:
            assert found.hit.score == pytest.approx(
                sum(1 / (60 + p.rank) for p in found.hit.branches.values())
            )

    def test_one_source_returns_empty(self, opened: tuple[Index, Path]) -> None:
        tools = SearchTools(*opened, settings=GrepSettings(vector_score_threshold=4.0))
        near = tools.hybrid_search("production", "zzzunknown", ranking="bm25").results
        assert [f.hit for f in near] == [f.hit for f in tools.vector_search("production").results]
        strict = SearchTools(*opened, settings=GrepSettings(vector_score_threshold=1e-9))
        grepped = strict.hybrid_search("production", "cache pool", ranking="bm25").results
        assert [f.hit for f in grepped] == [f.hit for f in strict.grep_search("cache pool").results]
        scores = [found.hit.score for found in grepped]
        assert scores == sorted(scores, reverse=True)
        assert scores[-1] > 0
