"""Document 000, "Hybrid Retrieval": one test per requirement and per scenario, named after it."""

import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.small_index import small_index
from support.worlds import make_index

from branchrank.files.grep import Grep
from branchrank.files.read_file import FileReader, FileRefused
from branchrank.index import Index
from branchrank.records import Placement
from branchrank.settings import GrepSettings
from branchrank.systems.search_tools import SearchStatus, SearchTools


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Index, Path]]:
    index, root, _ = small_index(tmp_path_factory.mktemp("document-000"))
    with index:
        yield index, root


@pytest.fixture
def tools(opened: tuple[Index, Path]) -> SearchTools:
    return SearchTools(*opened, settings=GrepSettings(vector_score_threshold=4.0))


def numbered(path: Path, matches: tuple[int, ...]) -> None:
    path.write_text("".join(f"{'needle' if n in matches else 'hay'} {n}\n" for n in range(1, 201)))


class TestContextWindowEnrichmentForGrepResults:
    def test_requirement(self, tools: SearchTools) -> None:
        (found,) = tools.grep_search("max_retries").results
        assert found.hit.line_end > found.hit.line_start

    @pytest.mark.parametrize("line", [1, 5, 10, 11, 12, 100, 190, 200])
    def test_grep_match_with_context_window(self, tmp_path: Path, line: int) -> None:
        numbered(tmp_path / "a.rst", (line,))
        (passage,) = Grep(tmp_path).search("needle").passages
        assert (passage.line_start, passage.line_end) == (max(1, line - 10), min(200, line + 10))
        marked = [text for text in passage.marked.split("\n") if text.startswith(">")]
        assert len(marked) == 1
        assert marked[0].endswith(f"needle {line}")

    def test_multiple_matches_in_same_file_within_context_range(self, tmp_path: Path) -> None:
        numbered(tmp_path / "a.rst", (50, 70, 91))
        found = Grep(tmp_path).search("needle", ranking="none").passages
        assert [p.matched for p in found] == [(50, 70), (91,)]
        assert [(p.line_start, p.line_end) for p in found] == [(40, 80), (81, 101)]


class TestHybridSearchCombiningExactKeywordAndVectorRetrieval:
    def test_requirement(self, tools: SearchTools) -> None:
        found = tools.hybrid_search("a request that failed is sent again", "max_retries").results
        assert set(found[0].hit.branches) == {"grep", "vector"}

    def test_hybrid_search_fusion_with_separate_arguments(
        self, tools: SearchTools, opened: tuple[Index, Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = {}
        together = threading.Barrier(2, timeout=10)
        grep, embed = tools._grep.search, opened[0].embedder.embed_query

        def grepping(query: str, **options: object) -> object:
            asked["grep"] = query
            together.wait()
            return grep(query, **options)

        def embedding(query: str) -> object:
            asked["vector"] = query
            together.wait()
            return embed(query)

        monkeypatch.setattr(tools._grep, "search", grepping)
        monkeypatch.setattr(opened[0].embedder, "embed_query", embedding)
        results = tools.hybrid_search("requests are sent again", "timeout").results
        assert asked == {"grep": "timeout", "vector": "requests are sent again"}
        assert 0 < len(results) <= 10
        for found in results:
            expected = sum(1 / (60 + place.rank) for place in found.hit.branches.values())
            assert found.hit.score == pytest.approx(expected)
        scores = [found.hit.score for found in results]
        assert scores == sorted(scores, reverse=True)

    @pytest.mark.parametrize("ranking", ["none", "bm25"])
    def test_hybrid_search_fusion_returns_the_top_10(self, tmp_path: Path, ranking: str) -> None:
        pages = {f"{n:02}.md": f"# Walnut {n}\n\nA walnut of kind {n}.\n" for n in range(14)}
        index, _ = make_index(tmp_path, pages)
        settings = GrepSettings(vector_score_threshold=4.0)
        with index:
            tools = SearchTools(index, tmp_path / "docs", settings=settings)
            found = tools.hybrid_search("kinds of walnut", "walnut", ranking=ranking, limit=100).results
            assert len(found) == 14
            top = tools.hybrid_search("kinds of walnut", "walnut", ranking=ranking).results
            assert [each.hit for each in top] == [each.hit for each in found[:10]]

    def test_one_source_returns_empty(self, opened: tuple[Index, Path], tools: SearchTools) -> None:
        without_grep = tools.hybrid_search("production", "zzzunknown").results
        assert [f.hit for f in without_grep] == [f.hit for f in tools.vector_search("production").results]
        strict = SearchTools(*opened, settings=GrepSettings(vector_score_threshold=1e-9))
        assert strict.vector_search("production").results == ()
        without_vector = strict.hybrid_search("production", "cache").results
        assert [f.hit for f in without_vector] == [
            f.hit for f in strict.grep_search("cache", ranking="none").results
        ]
        assert without_grep
        assert without_vector

    @pytest.mark.parametrize("keywords", [None, "", "  ", "How is a failed request limited by max_retries?"])
    def test_argument_fallback(self, tools: SearchTools, keywords: str | None) -> None:
        question = "How is a failed request limited by max_retries?"
        answer = (
            tools.hybrid_search(question) if keywords is None else tools.hybrid_search(question, keywords)
        )
        assert any(found.matched and "max_retries" in found.hit.text for found in answer.results)


class TestVectorSearchThreshold:
    def test_requirement(self) -> None:
        assert GrepSettings().vector_score_threshold == 0.5

    def test_vector_search_with_results_below_threshold(self, opened: tuple[Index, Path]) -> None:
        text = next(iter(opened[0].chunks.values())).text
        tools = SearchTools(*opened)
        everything = SearchTools(*opened, settings=GrepSettings(vector_score_threshold=4.0))
        expected = [f.hit.id for f in everything.vector_search(text).results if f.hit.distance < 0.5]
        assert expected
        assert [f.hit.id for f in tools.vector_search(text).results] == expected

    def test_vector_search_with_results_above_threshold(
        self, opened: tuple[Index, Path], tools: SearchTools
    ) -> None:
        distances = [found.hit.distance for found in tools.vector_search("clear the cache").results]
        # Exactly at the threshold is dropped as well.
        strict = SearchTools(*opened, settings=GrepSettings(vector_score_threshold=distances[1]))
        assert [found.hit.distance for found in strict.vector_search("clear the cache").results] == distances[
            :1
        ]


class TestDocumentReadingWithExplicitErrorReporting:
    def test_requirement(self, tools: SearchTools, opened: tuple[Index, Path]) -> None:
        for source in ("cache.rst", "http/client.rst", "deploy.md"):
            assert tools.read_file(source) == (opened[1] / source).read_text()

    def test_file_read_success(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("Grüße\n", encoding="utf-8")
        assert FileReader(tmp_path, ["a.txt"]).text(str(tmp_path / "a.txt")) == "Grüße\n"

    def test_file_not_found(self, tmp_path: Path) -> None:
        with pytest.raises(FileRefused, match=r"^\[ERROR: NOT_FOUND\]"):
            FileReader(tmp_path, ["missing.txt"]).text(str(tmp_path / "missing.txt"))

    def test_access_denied(self, tmp_path: Path) -> None:
        (tmp_path / "outside.txt").write_text("secret")
        allowed = [tmp_path / "one", tmp_path / "two"]
        for folder in allowed:
            folder.mkdir()
        with pytest.raises(FileRefused, match=r"^\[ERROR: ACCESS_DENIED\]") as refused:
            FileReader(allowed[0], (), allowed).text(str(tmp_path / "outside.txt"))
        message = str(refused.value)
        assert all(str(folder.resolve()) in message for folder in allowed)


class TestSearchFeedbackAndCitations:
    def test_requirement(self, tools: SearchTools) -> None:
        heard: list[SearchStatus] = []
        tools.listen(heard.append)
        answer = tools.hybrid_search("clear the cache")
        assert heard == [answer.status]
        assert answer.text

    @pytest.mark.parametrize("tool", ["grep_search", "vector_search", "hybrid_search"])
    def test_enhanced_search_log_feedback(self, tools: SearchTools, tool: str) -> None:
        heard: list[SearchStatus] = []
        tools.listen(heard.append)
        results = getattr(tools, tool)("clear the cache").results
        characters = sum(len(found.hit.text) for found in results)
        if tool == "grep_search":
            expected = f"{characters} characters, {len({f.hit.source for f in results})} files"
        else:
            expected = f"{characters} characters, {len(results)} chunks"
        assert heard[0].message == f"{tool}: {expected}"

    def test_accurate_file_citations(self, tools: SearchTools, opened: tuple[Index, Path]) -> None:
        for tool in (tools.grep_search, tools.vector_search, tools.hybrid_search):
            answer = tool("clear the cache")
            cited = re.findall(r"^\[(.+):(\d+)-(\d+)\]$", answer.text, re.MULTILINE)
            assert len(cited) == len(answer.results)
            for path, first, last in cited:
                lines = (opened[1] / path).read_text().split("\n")
                assert 1 <= int(first) <= int(last) <= len(lines)


def test_placements_start_at_one(tools: SearchTools) -> None:
    best = tools.vector_search("clear the cache").results[0]
    assert isinstance(best.hit.branches["vector"], Placement)
    assert best.hit.branches["vector"].rank == 1
