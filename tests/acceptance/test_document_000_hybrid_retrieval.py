"""Document 000, "Hybrid Retrieval": one test per requirement and per scenario, named after it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.commands import invoke
from support.front_doors import Command, Library, Mcp, Tui, grep_beside_embedding, make_indexed
from support.small_index import DOCUMENTS

LINES = (1, 5, 10, 11, 12, 100, 190, 200)
WALNUTS = 14
#: Sections that hold the word "pecan", more than a search returns.
PECANS = 16
BELOW = "40 of 40 candidates are below the distance threshold 4"


def numbered(word: str, *matches: int) -> str:
    """A page of 200 lines that holds ``word`` in some of them."""
    return "".join(f"{word if n in matches else 'hay'} {n}\n" for n in range(1, 201))


PAGES = {
    **DOCUMENTS,
    **{f"window/{line}.md": numbered(f"needle{line}x", line) for line in LINES},
    "umlaut.txt": "Grüße\n",
    "window/several.md": numbered("merging", 50, 70, 91, 113),
    "window/chain.md": numbered("linked", *range(20, 181, 9)),
    "window/long.md": "\n".join(
        f"{'copious' if n % 9 == 0 else 'hay'} {'x' * 50} {n}" for n in range(1, 1401)
    ),
    **{f"nuts/{n:02}.md": f"# Walnut {n}\n\nA walnut of kind {n}.\n" for n in range(WALNUTS)},
    "pecans.md": "# Pecans\n" + "".join(f"\n## Tree {n}\n\nA pecan of kind {n}.\n" for n in range(PECANS)),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a distance threshold that drops nothing; tests of the threshold name another."""
    folder = tmp_path_factory.mktemp("document-000")
    return make_indexed(folder, PAGES, "[grep]\nvector_score_threshold = 4.0\n", chunk_tokens=32)


class TestContextWindowEnrichmentForGrepResults:
    def test_requirement(self, mcp: Mcp) -> None:
        (found,) = mcp("grep_search", query="needle100x").results
        assert (found["line_start"], found["line_end"]) == (90, 110)
        assert found["text"].split("\n") == (PAGES["window/100.md"].split("\n"))[89:110]

    @pytest.mark.parametrize("line", LINES)
    def test_grep_match_with_context_window(self, mcp: Mcp, tui: Tui, line: int) -> None:
        answer = mcp("grep_search", query=f"needle{line}x")
        assert answer.places == [(f"window/{line}.md", max(1, line - 10), min(200, line + 10))]
        marked = [text for text in answer.text.split("\n") if text.startswith(">")]
        assert len(marked) == 1
        assert marked[0].endswith(f"needle{line}x {line}")
        (same,) = tui.search("grep", f"needle{line}x", "")
        assert (same.citation, same.hit.matched) == (
            f"window/{line}.md:{max(1, line - 10)}-{min(200, line + 10)}",
            (line,),
        )

    def test_multiple_matches_in_same_file_within_context_range(self, mcp: Mcp) -> None:
        """Matches with overlapping or adjacent contexts share a passage, matches 22 lines apart do not."""
        found = mcp("grep_search", query="merging").results
        lines = sorted((each["line_start"], each["line_end"], each["matched_lines"]) for each in found)
        assert lines == [(40, 101, [50, 70, 91]), (103, 123, [113])]
        (chain,) = mcp("grep_search", query="linked").results
        assert (chain["line_start"], chain["line_end"]) == (10, 183)
        assert chain["matched_lines"] == list(range(20, 181, 9))

    def test_a_passage_longer_than_an_answer_ends_between_two_matches(self, mcp: Mcp) -> None:
        answer = mcp("grep_search", query="copious linked")
        long, whole = sorted(answer.results, key=lambda each: -each["line_end"])
        assert (whole["line_start"], whole["line_end"]) == (10, 183)
        assert long["matched_lines"] == list(range(9, long["line_end"] - 9, 9))
        assert long["line_end"] == long["matched_lines"][-1] + 10
        assert 32_000 < len(answer.text.encode()) < 33_000
        assert "1 of 2 passages shortened" in answer.status


class TestHybridSearchCombiningExactKeywordAndVectorRetrieval:
    def test_requirement(self, mcp: Mcp, library: Library, command: Command) -> None:
        query, keywords = "a request that failed is sent again", "max_retries"
        answer = mcp("hybrid_search", semantic_query=query, exact_keywords=keywords)
        best = library().tools.hybrid_search(query, keywords).results[0].hit
        assert set(best.branches) == {"grep", "dense(chunks)"}
        assert answer.places[0] == (best.source, best.line_start, best.line_end)
        assert "max_retries" in answer.results[0]["text"]
        as_predictor = command.hits("retrieve", "--predictor", "grep", "limit max_retries")
        assert "max_retries" in as_predictor[0]["text"]

    def test_hybrid_search_fusion_with_separate_arguments(
        self, library: Library, mcp: Mcp, tui: Tui, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        query, keywords = "requests are sent again", "timeout walnut"
        with monkeypatch.context() as patched:
            asked = grep_beside_embedding(patched)
            results = library().tools.hybrid_search(query, keywords).results
        assert asked == {"grep": "timeout walnut", "vector": query}
        assert len(results) == 10
        for found in results:
            expected = sum(1 / (60 + place.rank) for place in found.hit.branches.values())
            assert found.hit.score == pytest.approx(expected)
        assert any(len(found.hit.branches) == 2 for found in results)
        scores = [found.hit.score for found in results]
        assert scores == sorted(scores, reverse=True)
        through_mcp = mcp("hybrid_search", semantic_query=query, exact_keywords=keywords)
        assert [each["score"] for each in through_mcp.results] == scores
        assert [each.hit for each in tui.search("hybrid", query, keywords)] == [f.hit for f in results]

    def test_hybrid_search_fuses_raw_grep_results(
        self, mcp: Mcp, library: Library, tui: Tui, command: Command
    ) -> None:
        """With ``raw``, passages are in the order of file and line, for the tools and the predictor."""
        raw: dict[str, object] = {"grep__ranking": "raw"}
        found = mcp("grep_search", raw, query="walnut merging", limit=50).places
        assert len(found) > 1
        assert found == sorted(found)
        assert found != mcp("grep_search", query="walnut merging", limit=50).places
        assert found == mcp("grep_search", query="walnut merging", ranking="raw", limit=50).places
        assert found[:10] == [
            (each.hit.source, each.hit.line_start, each.hit.line_end)
            for each in tui("grep", "walnut merging", **raw).results
        ]
        hits = [each.hit for each in library(**raw).tools.hybrid_search("kinds", "walnut", limit=50).results]
        in_grep = [hit for hit in hits if "grep" in hit.branches]
        by_rank = sorted(in_grep, key=lambda hit: hit.branches["grep"].rank)
        assert by_rank == sorted(in_grep, key=lambda hit: (hit.source, hit.line_start))
        words = ("--predictor", "grep", "--grep-ranking", "raw", "--top-k", 50)
        placed = [hit for hit in command.hits("retrieve", *words, "walnut") if "grep" in hit["branches"]]
        by_place = sorted(placed, key=lambda hit: (hit["source"], hit["line_start"]))
        assert by_place == sorted(placed, key=lambda hit: hit["branches"]["grep"]["rank"])

    @pytest.mark.parametrize("ranking", ["none", "bm25", "raw"])
    def test_hybrid_search_fusion_returns_the_top_10(self, mcp: Mcp, ranking: str) -> None:
        settings: dict[str, object] = {"grep__ranking": ranking}
        asked = {"semantic_query": "kinds of walnut", "exact_keywords": "walnut"}
        found = mcp("hybrid_search", settings, **asked, limit=50)
        assert len(found.results) > 10
        assert mcp("hybrid_search", settings, **asked).results == found.results[:10]

    def test_one_source_returns_empty(self, mcp: Mcp) -> None:
        without_grep = mcp("hybrid_search", semantic_query="production", exact_keywords="zzzunknown")
        assert without_grep.places == mcp("vector_search", query="production").places
        assert without_grep.places
        strict: dict[str, object] = {"grep__vector_score_threshold": 1e-9}
        assert mcp("vector_search", strict, query="production").results == []
        without_vector = mcp("hybrid_search", strict, semantic_query="production", exact_keywords="cache")
        assert {path for path, _, _ in without_vector.places} == set(mcp("grep_search", query="cache").paths)
        assert without_vector.places
        scores = [each["score"] for each in without_vector.results]
        assert scores == sorted(scores, reverse=True)

    @pytest.mark.parametrize("keywords", [None, "", "  ", "How is a failed request limited by max_retries?"])
    def test_argument_fallback(self, mcp: Mcp, keywords: str | None) -> None:
        more = {} if keywords is None else {"exact_keywords": keywords}
        answer = mcp(
            "hybrid_search", semantic_query="How is a failed request limited by max_retries?", **more
        )
        assert any(each["matched_lines"] and "max_retries" in each["text"] for each in answer.results)


class TestVectorSearchThreshold:
    def test_requirement(self, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        shown = command("settings")
        assert re.search(r"vector_score_threshold\s+.*4\.0", shown.stdout), "the project's own"
        monkeypatch.chdir(tmp_path)
        assert "Default: 0.5" in " ".join(invoke("mcp", "--help-all").stdout.split())

    def test_vector_search_with_results_below_threshold(self, mcp: Mcp) -> None:
        text = "Clearing the Cache"
        everything = mcp("vector_search", query=text, limit=50).results
        expected = [each["path"] for each in everything if each["distance"] < 0.9]
        assert 0 < len(expected) < len(everything)
        half = mcp("vector_search", {"grep__vector_score_threshold": 0.9}, query=text, limit=50)
        assert half.paths == expected
        assert all(each["distance"] < 0.9 for each in half.results)

    def test_vector_search_with_results_above_threshold(self, library: Library, mcp: Mcp) -> None:
        """Those exactly at the threshold, too."""
        query = "clear the cache"
        found = library().tools.vector_search(query).results
        distances = [2.0 - 2.0 * each.hit.branches["dense(chunks)"].score for each in found]
        assert distances[0] < distances[1]
        strict = mcp("vector_search", {"grep__vector_score_threshold": distances[1]}, query=query)
        assert strict.paths == [found[0].hit.source]
        assert "1 of 40 candidates" in strict.status

    @pytest.mark.parametrize("filters", [[], ["file_path=*.rst"]])
    def test_the_status_counts_the_candidates_below_the_threshold(
        self, mcp: Mcp, tui: Tui, filters: list[str]
    ) -> None:
        """The candidates are the ``vector_top_n`` nearest chunks of the documents that pass the filter."""
        query = "clear the cache"
        distances = [each["distance"] for each in mcp("vector_search", query=query, filters=filters).results]
        threshold = distances[3]
        near = sum(each < threshold for each in distances)
        assert 0 < near < 5
        strict: dict[str, object] = {"grep__vector_score_threshold": threshold, "grep__vector_top_n": 5}
        answer = mcp("vector_search", strict, query=query, filters=filters)
        words = f"{near} of 5 candidates are below the distance threshold {threshold:g}"
        assert answer.status.split("; ")[1:] == [words]
        assert answer.count[0] == near
        assert filters or any(line.endswith(words) for line in tui("vector", query, **strict).log)


class TestDocumentReadingWithExplicitErrorReporting:
    def test_requirement(self, mcp: Mcp) -> None:
        for source in ("cache.rst", "http/client.rst", "deploy.md"):
            answer = mcp("read_file", path=source)
            assert [each["text"] for each in answer.results] == [DOCUMENTS[source]]
            shown = [line.partition(" | ")[2] for line in answer.text.split("\n")[1:]]
            assert shown == DOCUMENTS[source].removesuffix("\n").split("\n")

    def test_file_read_success(self, mcp: Mcp, project: Path) -> None:
        for path in ("umlaut.txt", project / "docs" / "umlaut.txt"):
            answer = mcp("read_file", path=str(path))
            assert [each["text"] for each in answer.results] == ["Grüße\n"]
            assert not answer.is_error
            assert answer.text == "[umlaut.txt:1-1]\n  1 | Grüße"

    def test_file_not_found(self, mcp: Mcp) -> None:
        answer = mcp("read_file", path="missing.txt")
        assert answer.text.startswith("[ERROR: NOT_FOUND]")
        assert answer.is_error

    def test_access_denied(self, mcp: Mcp, project: Path) -> None:
        (project / "outside.txt").write_text("secret")
        for path in (project / "outside.txt", "../outside.txt"):
            answer = mcp("read_file", path=str(path))
            assert answer.text.startswith("[ERROR: ACCESS_DENIED]")
            assert str((project / "docs").resolve()) in answer.text
            assert answer.is_error


class TestSearchFeedbackAndCitations:
    def test_requirement(self, mcp: Mcp, tui: Tui) -> None:
        answer = mcp("hybrid_search", semantic_query="clear the cache")
        (line,) = tui("hybrid", "clear the cache").log
        assert line.endswith(answer.status)
        assert answer.text

    @pytest.mark.parametrize(
        ("mode", "argument", "query", "expected"),
        [
            ("grep", "query", "walnut", f"{WALNUTS} files"),
            ("vector", "query", "pecan", f"40 chunks; {BELOW}"),
            # 40 from the vectors, and every section that grep found is one of them.
            ("hybrid", "semantic_query", "pecan", f"40 chunks; {BELOW}"),
        ],
    )
    def test_enhanced_search_log_feedback(
        self, mcp: Mcp, tui: Tui, mode: str, argument: str, query: str, expected: str
    ) -> None:
        """The status counts what was found, not the ten that are returned, and reaches the terminal UI."""
        answer = mcp(f"{mode}_search", **{argument: query})
        assert len(answer.results) == 10
        characters = sum(len(each["plain"]) for each in answer.results)
        assert answer.status == f"{mode}_search: {characters} characters, {expected}"
        shown = tui(mode, query)
        assert [line.split(" ", 1)[1] for line in shown.log] == [answer.status]
        assert len(shown.results) == 10

    def test_the_status_of_one_file_is_in_the_singular(self, mcp: Mcp, tui: Tui) -> None:
        answer = mcp("grep_search", query="Grüße")
        assert answer.status == "grep_search: 5 characters, 1 file"
        assert tui("grep", "Grüße").log[0].endswith(answer.status)

    def test_accurate_file_citations(self, mcp: Mcp, project: Path) -> None:
        for tool, argument in (
            ("grep_search", "query"),
            ("vector_search", "query"),
            ("hybrid_search", "semantic_query"),
        ):
            answer = mcp(tool, **{argument: "clear the cache"})
            cited = re.findall(r"^\[(.+):(\d+)-(\d+)\]$", answer.text, re.MULTILINE)
            assert [(path, int(first), int(last)) for path, first, last in cited] == answer.places
            assert len(cited) == len(answer.results) > 0
            for each in answer.results:
                lines = (project / "docs" / each["path"]).read_text().split("\n")
                first = lines[each["line_start"] - 1]
                assert first.lstrip("# ") == each["text"].split("\n")[0].lstrip("# ")
