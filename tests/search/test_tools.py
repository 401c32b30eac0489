"""The search tools over a real, small index."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from support.small_index import small_index
from support.worlds import make_index

from branchrank.core.errors import BranchRankError
from branchrank.core.records import Chunk, Question
from branchrank.core.settings import Resolved
from branchrank.index.reader import Index
from branchrank.runs.bench.predictors import SystemPredictor
from branchrank.search.files.grep_search import Grep, GrepPassage, GrepResult, extract_terms
from branchrank.search.systems.branches.indexed import passage_chunks
from branchrank.search.systems.builtin import builtin_systems
from branchrank.search.systems.engine import Engine
from branchrank.search.systems.search_tools import SearchTools

Opened = tuple[Index, Path, Resolved]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    index, root, resolved = small_index(tmp_path_factory.mktemp("tools"))
    with index:
        yield index, root, resolved


def tools(opened: Opened, **options: object) -> SearchTools:
    return SearchTools(Engine(*opened), **options)


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


def passage(first: int, last: int, matched: tuple[int, ...], text: str = "") -> GrepPassage:
    lines = text.split("\n") if text else [f"line {n}" for n in range(first, last + 1)]
    return GrepPassage(
        source="a.rst", line_start=first, line_end=last, text="\n".join(lines), matched=matched
    )


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
    result = GrepResult(passages=(long, short), terms=extract_terms("fig oak"), weights=(1.0, 2.0))
    keys = [entry.key for entry in passage_chunks(result, chunks.__getitem__).ranking]
    assert keys == ["a.rst@1", "a.rst@4", "a.rst@3", "a.rst@2"]


def test_an_answer_has_at_most_32_kib_and_counts_what_was_left_out(tmp_path: Path) -> None:
    pages = {f"{number:02}.md": f"# Page {number}\n\n{'needle in the hay ' * 100}\n" for number in range(50)}
    pages |= {
        "line.md": "a pin " * 10_000,
        "pin.md": "# Pins\n\nA pin, too.\n",
        "tin.md": "# Tins\n\nNo pin.\n",
    }
    index, resolved = make_index(tmp_path, pages)
    with index:
        search = SearchTools(Engine(index, tmp_path / "docs", resolved))
        few, many = (search.grep_search("needle", limit=limit) for limit in (10, 50))
        long = search.grep_search("pin")
    assert {found.hit.source for found in long.results} == {"pin.md", "tin.md"}
    assert "note: 1 of 3 results left out" in long.text
    assert "line.md:1-1" in long.text
    assert "shortened" not in long.text
    assert len(few.results) == 10
    assert 10 < len(many.results) < 50
    assert len(many.text.encode()) < 33 * 1024
    assert f"note: {50 - len(many.results)} of 50 results left out" in many.text
    assert many.results[:10] == few.results
