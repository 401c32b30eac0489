"""The search tools over a real, small index."""

import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from support.small_index import small_index
from support.worlds import make_index

from branchrank.errors import BranchRankError
from branchrank.files.grep import GrepResult, Passage
from branchrank.files.grep_chunks import placed, ranking_of
from branchrank.files.terms import extract_terms
from branchrank.index import Index
from branchrank.records import Chunk
from branchrank.settings import GrepSettings
from branchrank.systems.search_tools import SearchStatus, SearchTools, calibrate


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Index, Path]]:
    index, root, _ = small_index(tmp_path_factory.mktemp("tools"))
    with index:
        yield index, root


def tools(opened: tuple[Index, Path], threshold: float = 4.0, **options: object) -> SearchTools:
    index, root = opened
    return SearchTools(index, root, settings=GrepSettings(vector_score_threshold=threshold), **options)


def test_grep_answers_with_marked_lines_and_real_paths(opened: tuple[Index, Path]) -> None:
    (found,) = tools(opened).grep_search("max_retries").results
    assert found.hit.source == "http/client.rst"
    assert found.citation == f"http/client.rst:{found.hit.line_start}-{found.hit.line_end}"
    (line,) = found.matched
    assert f"> {line:2} | A request that fails is sent again" in found.marked
    raw = (opened[1] / "http/client.rst").read_text().split("\n")
    assert found.hit.text.split("\n") == raw[found.hit.line_start - 1 : found.hit.line_end]


def test_the_answer_for_a_reader_cites_each_result(opened: tuple[Index, Path]) -> None:
    answer = tools(opened).hybrid_search("how to clear the cache")
    for found in answer.results:
        assert f"[{found.citation}]\n{found.marked}" in answer.text
    assert "local_file" not in answer.text


def test_vector_search_drops_what_is_at_or_past_the_threshold(opened: tuple[Index, Path]) -> None:
    everything = tools(opened).vector_search("clear the cache pool", limit=100)
    distances = [found.hit.distance for found in everything.results]
    assert distances == sorted(distances)
    limit = distances[2]
    kept = tools(opened, threshold=limit).vector_search("clear the cache pool", limit=100)
    assert [found.hit.distance for found in kept.results] == distances[:2]
    dropped = len(distances) - 2
    assert kept.status.notices == (
        f"{dropped} of {len(distances)} chunks dropped at or past distance {limit:g}",
    )
    assert everything.status.notices == ()


def test_hybrid_fuses_both_sides_by_rrf(opened: tuple[Index, Path]) -> None:
    answer = tools(opened).hybrid_search("requests are sent again", "max_retries timeout")
    assert len(answer.results) <= 10
    for found in answer.results:
        ranks = [place.rank for place in found.hit.branches.values()]
        assert found.hit.score == pytest.approx(sum(1 / (60 + rank) for rank in ranks))
    best = answer.results[0]
    assert set(best.hit.branches) == {"grep", "vector"}
    assert best.matched


def test_both_sides_run_at_the_same_time(opened: tuple[Index, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    search = tools(opened)
    together = threading.Barrier(2, timeout=10)
    grep, embed = search._grep.search, opened[0].embedder.embed_query
    monkeypatch.setattr(search._grep, "search", lambda *a, **o: (together.wait(), grep(*a, **o))[1])
    monkeypatch.setattr(opened[0].embedder, "embed_query", lambda query: (together.wait(), embed(query))[1])
    assert search.hybrid_search("clear the cache").results


def test_an_empty_side_leaves_the_other_in_its_own_order(opened: tuple[Index, Path]) -> None:
    search = tools(opened)
    alone = search.vector_search("production")
    both = search.hybrid_search("production", "zzzunknown")
    assert [(f.hit.id, f.hit.score) for f in both.results] == [(f.hit.id, f.hit.score) for f in alone.results]
    strict = tools(opened, threshold=1e-9)
    alone = strict.grep_search("cache", ranking="none")
    both = strict.hybrid_search("production", "cache")
    assert [f.hit for f in both.results] == [f.hit for f in alone.results]
    assert both.results
    assert strict.hybrid_search("zzzunknown", "zzzunknown").results == ()


@pytest.mark.parametrize("keywords", ["", "   ", "How do I limit max_retries?"])
def test_missing_keywords_are_taken_from_the_question(opened: tuple[Index, Path], keywords: str) -> None:
    answer = tools(opened).hybrid_search("How do I limit max_retries?", keywords)
    assert any("max_retries" in found.hit.text and found.matched for found in answer.results)


def test_every_search_tells_its_listeners(opened: tuple[Index, Path]) -> None:
    heard: list[SearchStatus] = []
    search = tools(opened, listeners=[heard.append])
    later: list[SearchStatus] = []
    search.listen(later.append)
    answers = [search.grep_search("cache"), search.vector_search("cache"), search.hybrid_search("cache")]
    assert heard == later == [answer.status for answer in answers]
    assert [status.unit for status in heard] == ["files", "chunks", "chunks"]
    for status, answer in zip(heard, answers, strict=True):
        assert status.characters == sum(len(found.hit.text) for found in answer.results)
        assert f"{status.characters} characters" in status.message
    assert heard[0].count == len({found.hit.source for found in answers[0].results})
    assert heard[2].count == len(answers[2].results)


def test_read_file_stays_in_the_corpus(opened: tuple[Index, Path], tmp_path: Path) -> None:
    search = tools(opened)
    assert search.read_file("cache.rst").startswith("Cache\n=====")
    assert search.read_file("none.rst").startswith("[ERROR: NOT_FOUND]")
    (tmp_path / "extra.txt").write_text("extra")
    denied = search.read_file(str(tmp_path / "extra.txt"))
    assert denied.startswith("[ERROR: ACCESS_DENIED]")
    assert str(opened[1]) in denied
    assert tools(opened, allowed_paths=[tmp_path]).read_file("extra.txt") == "extra"


def test_the_grep_branch_ranks_chunks(opened: tuple[Index, Path]) -> None:
    ranking = tools(opened).grep_chunks("Which option limits max_retries?", 5)
    assert "max_retries" in opened[0].chunks[ranking[0].key].text
    assert all(entry.key in opened[0].chunks for entry in ranking)
    assert len(tools(opened).grep_chunks("cache", 1)) == 1


def test_a_grep_that_was_cut_short_is_said_by_the_tool_and_fails_the_branch(
    opened: tuple[Index, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    search = tools(opened)
    grep = search._grep.search
    monkeypatch.setattr(
        search._grep, "search", lambda *a, **o: msgspec.structs.replace(grep(*a, **o), notices=("cut short",))
    )
    assert search.grep_search("cache").status.notices == ("cut short",)
    assert "cut short" in search.hybrid_search("cache").status.message
    with pytest.raises(BranchRankError, match="cut short"):
        search.grep_chunks("cache", 5)


def test_any_text_is_answered(opened: tuple[Index, Path]) -> None:
    for query in ("", " ", "\0", "😀", "\ud800", "--pre=x", "a" * 10_240, '"'):
        found = tools(opened)
        for answer in (found.grep_search(query), found.vector_search(query), found.hybrid_search(query)):
            assert len(answer.results) <= 10
            assert f"{answer.status.characters} characters" in answer.status.message


def test_calibration_suggests_a_threshold_that_keeps_the_branch(opened: tuple[Index, Path]) -> None:
    questions = ["how to clear the cache", "retry a request", "roll a release back", "adapter of a pool"]
    found = calibrate(opened[0], questions, threshold=0.01)
    assert found.losing == 4
    assert found.best == tuple(sorted(found.best))
    assert f"vector_score_threshold = {found.suggested:g}" in found.warning
    again = calibrate(opened[0], questions, threshold=found.suggested)
    assert (again.losing, again.warning) == (0, "")
    with pytest.raises(ValueError, match="needs questions"):
        calibrate(opened[0], [])


def passage(first: int, last: int, matched: tuple[int, ...], text: str = "") -> Passage:
    lines = text.split("\n") if text else [f"line {n}" for n in range(first, last + 1)]
    return Passage(source="a.rst", line_start=first, line_end=last, text="\n".join(lines), matched=matched)


def chunk(number: int, first: int, last: int) -> Chunk:
    return Chunk(
        id=f"a.rst@{number}",
        node_id="a.rst",
        source="a.rst",
        line_start=first,
        line_end=last,
        breadcrumb="",
        text="",
    )


def test_passages_become_the_chunks_of_their_matched_lines() -> None:
    chunks = {"a.rst": [chunk(1, 1, 5), chunk(2, 6, 10), chunk(3, 11, 15), chunk(4, 40, 50)]}
    text = "\n".join({3: "fig", 12: "fig oak"}.get(n, "-") for n in range(1, 16))
    result = GrepResult(
        ranking="none",
        passages=(passage(1, 15, (3, 12), text), passage(20, 30, (25,)), passage(35, 41, (37,))),
        terms=extract_terms("fig oak"),
        weights=(1.0, 2.0),
        matches=3,
    )
    places = placed(result, chunks)
    assert [place.key for place in places] == ["a.rst@3", "a.rst@1", "a.rst:20-30", "a.rst@4"]
    assert [place.matched for place in places] == [(12,), (3,), (25,), ()]
    assert places[2].passage == result.passages[1]
    assert [entry.score for entry in ranking_of(places)] == [1.0, 1 / 2, 1 / 3, 1 / 4]


def test_the_weak_end_of_a_long_passage_is_not_better_than_the_next_passages_best() -> None:
    chunks = {"a.rst": [chunk(1, 1, 10), chunk(2, 11, 20), chunk(3, 21, 30), chunk(4, 60, 70)]}
    marks = {5: "fig oak", 15: "fig", 25: "fig fig"}
    long = passage(1, 30, tuple(marks), "\n".join(marks.get(n, "-") for n in range(1, 31)))
    short = passage(60, 70, (65,), "\n".join("oak" if n == 65 else "-" for n in range(60, 71)))
    result = GrepResult(
        ranking="bm25",
        passages=(long, short),
        terms=extract_terms("fig oak"),
        weights=(1.0, 2.0),
        matches=2,
    )
    assert [place.key for place in placed(result, chunks)] == ["a.rst@1", "a.rst@4", "a.rst@3", "a.rst@2"]
    unranked = msgspec.structs.replace(result, ranking="none")
    assert [place.key for place in placed(unranked, chunks)] == ["a.rst@1", "a.rst@3", "a.rst@2", "a.rst@4"]


def test_a_chunk_of_the_eleventh_passage_reaches_the_fusion(tmp_path: Path) -> None:
    pages = {f"{n:02}.md": f"# Page {n}\n\n" + "walnut " * n + "\n" for n in range(1, 21)}
    index, _ = make_index(tmp_path, pages)
    with index:
        found = SearchTools(index, tmp_path / "docs").grep_chunks("walnut", 40)
        assert len(found) == 15  # of 20 passages, those at or past the 25th percentile
