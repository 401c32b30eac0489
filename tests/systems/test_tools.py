"""The search tools over a real, small index."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from support.small_index import small_index
from support.worlds import make_index

from branchrank.bench.predictors import SystemPredictor
from branchrank.errors import BranchRankError
from branchrank.files.grep import Grep, GrepResult, Passage, extract_terms
from branchrank.index.reader import Index
from branchrank.records import Chunk, Question
from branchrank.settings import GrepSettings, Resolved
from branchrank.spec import Branch, Fuse, System
from branchrank.stores.vectors import squared_distance
from branchrank.systems.branches.grep import passage_chunks
from branchrank.systems.builtin import builtin_systems
from branchrank.systems.engine import Engine
from branchrank.systems.search_tools import SearchTools

Opened = tuple[Index, Path, Resolved]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    index, root, resolved = small_index(tmp_path_factory.mktemp("tools"))
    with index:
        yield index, root, resolved


def tools(opened: Opened, threshold: float = 4.0, **options: object) -> SearchTools:
    index, root, resolved = opened
    return SearchTools(Engine(index, root, with_threshold(resolved, threshold)), **options)


def with_threshold(resolved: Resolved, threshold: float) -> Resolved:
    """The settings with a distance threshold that somebody set."""
    name = "grep.vector_score_threshold"
    part = GrepSettings(vector_score_threshold=threshold)
    return msgspec.structs.replace(
        resolved,
        parts={**resolved.parts, "grep": part},
        origins={**resolved.origins, name: "flag"},
    )


def grep_chunks(search: SearchTools, query: str, limit: int, ranking: str = "none") -> list[str]:
    """The ids of the chunks that the branch ``grep`` finds, best first."""
    branch = Branch(kind="grep", top_n=limit, options={"ranking": ranking})
    system = System(name="grep-only", branches=(branch,), fuse=Fuse(method="none"))
    return [hit.id for hit in search.engine.retrieve(system, query, limit).hits]


def test_grep_answers_with_marked_lines_and_real_paths(opened: Opened) -> None:
    (found,) = tools(opened).grep_search("max_retries").results
    assert found.hit.source == "http/client.rst"
    assert found.citation == f"http/client.rst:{found.hit.line_start}-{found.hit.line_end}"
    (line,) = found.hit.matched
    assert f"> {line:2} | A request that fails is sent again" in found.marked
    raw = (opened[1] / "http/client.rst").read_text().split("\n")
    assert found.hit.text.split("\n") == raw[found.hit.line_start - 1 : found.hit.line_end]


def test_the_answer_for_a_reader_cites_each_result(opened: Opened) -> None:
    answer = tools(opened).hybrid_search("how to clear the cache")
    for found in answer.results:
        assert f"[{found.citation}]\n{found.marked}" in answer.text
    assert "local_file" not in answer.text


def test_vector_search_drops_what_is_at_or_past_the_threshold(opened: Opened) -> None:
    everything = tools(opened).vector_search("clear the cache pool", limit=100)
    distances = [found.hit.distance for found in everything.results]
    assert distances == sorted(distances)
    nearest = opened[0].vectors.search(opened[0].embedder.embed_query("clear the cache pool"), 3)
    limit = squared_distance(nearest[2].score)
    kept = tools(opened, threshold=limit).vector_search("clear the cache pool", limit=100)
    assert [found.hit.distance for found in kept.results] == distances[:2]
    dropped = len(distances) - 2
    assert kept.status.notices == (
        f"{dropped} of {len(distances)} chunks were dropped because their distance is at least {limit:g}",
    )
    assert everything.status.notices == ()


def test_vector_search_reports_squared_distances(opened: Opened) -> None:
    index = opened[0]
    query = index.embedder.embed_query("clear the cache pool")
    for found in tools(opened).vector_search("clear the cache pool").results:
        difference = index.vectors.vector(found.hit.id) - query
        assert found.hit.distance == pytest.approx(float(difference @ difference), abs=1e-5)


def test_hybrid_fuses_both_sides_by_rrf(opened: Opened) -> None:
    answer = tools(opened).hybrid_search("requests are sent again", "max_retries timeout")
    assert len(answer.results) <= 10
    for found in answer.results:
        ranks = [place.rank for place in found.hit.branches.values()]
        assert found.hit.score == pytest.approx(sum(1 / (60 + rank) for rank in ranks))
    best = answer.results[0]
    assert set(best.hit.branches) == {"grep", "dense(chunks)"}
    assert best.hit.matched


def test_if_one_side_is_empty_the_other_keeps_its_order(opened: Opened) -> None:
    search = tools(opened)
    alone = search.vector_search("production")
    both = search.hybrid_search("production", "zzzunknown")
    assert [found.hit.id for found in both.results] == [found.hit.id for found in alone.results]
    strict = tools(opened, threshold=1e-9)
    both = strict.hybrid_search("production", "cache")
    assert [found.hit.id for found in both.results] == grep_chunks(strict, "cache", 10)
    assert both.results
    assert strict.hybrid_search("zzzunknown", "zzzunknown").results == ()


@pytest.mark.parametrize("keywords", ["", "   ", "How do I limit max_retries?"])
def test_missing_keywords_are_taken_from_the_question(opened: Opened, keywords: str) -> None:
    answer = tools(opened).hybrid_search("How do I limit max_retries?", keywords)
    assert any("max_retries" in found.hit.text and found.hit.matched for found in answer.results)


def test_every_answer_counts_what_was_found(opened: Opened) -> None:
    search = tools(opened)
    answers = [search.grep_search("cache"), search.vector_search("cache"), search.hybrid_search("cache")]
    assert [answer.status.unit for answer in answers] == ["files", "chunks", "chunks"]
    for answer in answers:
        assert answer.status.characters == sum(len(found.hit.text) for found in answer.results)
        assert f"{answer.status.characters} characters" in answer.status.message
    assert answers[0].status.count == len({found.hit.source for found in answers[0].results})
    assert answers[2].status.count == len(answers[2].results)


def test_grep_counts_every_file_once_whatever_the_limit(tmp_path: Path) -> None:
    lines = "".join(f"{'needle' if n in (10, 80) else 'hay'} {n}\n" for n in range(1, 101))
    pages = {f"{number:02}.md": lines for number in range(12)}
    index, resolved = make_index(tmp_path, pages)
    with index, Engine(index, tmp_path / "docs", resolved) as engine:
        answer = SearchTools(engine).grep_search("needle", limit=10)
    assert len(answer.results) == 10
    assert (answer.status.count, answer.status.unit) == (12, "files")


def test_read_file_stays_in_the_corpus(opened: Opened, tmp_path: Path) -> None:
    search = tools(opened)
    assert search.read_file("cache.rst").startswith("Cache\n=====")
    assert search.read_file("none.rst").startswith("[ERROR: NOT_FOUND]")
    (tmp_path / "extra.txt").write_text("extra")
    denied = search.read_file(str(tmp_path / "extra.txt"))
    assert denied.startswith("[ERROR: ACCESS_DENIED]")
    assert str(opened[1]) in denied
    assert tools(opened, allowed_paths=[tmp_path]).read_file("extra.txt") == "extra"


def test_a_truncated_grep_is_reported_by_the_tool_and_fails_the_benchmark(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = tools(opened)
    grep = Grep.search
    monkeypatch.setattr(
        Grep, "search", lambda *a, **o: msgspec.structs.replace(grep(*a, **o), notices=("cut short",))
    )
    assert search.grep_search("cache").status.notices == ("cut short",)
    assert "cut short" in search.hybrid_search("cache").status.message
    (system,) = builtin_systems(("grep",), search.engine.settings)
    with pytest.raises(BranchRankError, match="cut short"):
        SystemPredictor(system, search.engine).predict(Question(id="q", question="cache"), 5)


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
        passages=(passage(1, 15, (3, 12), text), passage(20, 30, (25,)), passage(35, 41, (37,))),
        terms=extract_terms("fig oak"),
        weights=(1.0, 2.0),
    )
    found = passage_chunks(result, chunks.__getitem__)
    assert found.ranking == [("a.rst@3", 1.0), ("a.rst@1", 1 / 2), ("a.rst@4", 1 / 3)]
    assert found.matched == {"a.rst@3": (12,), "a.rst@1": (3,), "a.rst@4": ()}


def test_a_weak_chunk_of_a_long_passage_does_not_outrank_the_next_passages_best_chunk() -> None:
    chunks = {"a.rst": [chunk(1, 1, 10), chunk(2, 11, 20), chunk(3, 21, 30), chunk(4, 60, 70)]}
    marks = {5: "fig oak", 15: "fig", 25: "fig fig"}
    long = passage(1, 30, tuple(marks), "\n".join(marks.get(n, "-") for n in range(1, 31)))
    short = passage(60, 70, (65,), "\n".join("oak" if n == 65 else "-" for n in range(60, 71)))
    result = GrepResult(
        passages=(long, short),
        terms=extract_terms("fig oak"),
        weights=(1.0, 2.0),
    )
    keys = [entry.key for entry in passage_chunks(result, chunks.__getitem__).ranking]
    assert keys == ["a.rst@1", "a.rst@4", "a.rst@3", "a.rst@2"]


def test_a_chunk_of_the_eleventh_passage_reaches_the_fusion(tmp_path: Path) -> None:
    pages = {f"{n:02}.md": f"# Page {n}\n\n" + "walnut " * n + "\n" for n in range(1, 21)}
    index, resolved = make_index(tmp_path, pages)
    with index, Engine(index, tmp_path / "docs", resolved) as engine:
        found = grep_chunks(SearchTools(engine), "walnut", 40, "bm25")
        assert len(found) == 15  # of 20 passages, those at or past the 25th percentile
