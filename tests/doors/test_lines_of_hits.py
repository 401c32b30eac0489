"""The text of a hit is its lines in the file, through every door, and ``plain`` has no markup."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
from support.commands import ROOT
from support.front_doors import Command, Http, Library, Mcp, make_indexed
from support.worlds import PAGES

from branchrank import Workspace
from branchrank.core.records import GoldItem, Hit, Question
from branchrank.scoring.matching import judge
from branchrank.search.systems.builtin import GROUPS

CORPUS = ROOT / "data" / "sample" / "corpus"
FAMILY = (*GROUPS["family"], "bm25", "dense")
OFF = {"hybrid.no_llm": True, "pageindex.no_llm": True}


def lines_of(hit: Hit) -> str:
    """The lines of a hit, read as bytes."""
    lines = (CORPUS / hit.source).read_bytes().split(b"\n")
    return b"\n".join(lines[hit.line_start - 1 : hit.line_end]).removesuffix(b"\r").decode()


@pytest.fixture(scope="module")
def workspace(quick: Path) -> Iterator[Workspace]:
    with Workspace.open(quick, settings=OFF) as opened:
        yield opened


@pytest.mark.parametrize("returns", ["passage", "section"])
@pytest.mark.parametrize("name", FAMILY)
def test_the_text_is_the_lines_of_the_file(
    workspace: Workspace, questions: list[str], name: str, returns: str
) -> None:
    system = msgspec.structs.replace(workspace.system(name), returns=returns)
    found = [hit for query in questions for hit in workspace.search(query, system, 10)]
    found += [member for hit in found for member in hit.members]
    assert found
    for hit in found:
        assert hit.text == lines_of(hit)
        if (chunk := workspace.index.chunks.get(hit.id)) is not None and chunk.span == hit.span:
            assert hit.plain == chunk.text


def test_the_tools_return_the_lines(workspace: Workspace, questions: list[str]) -> None:
    tools = workspace.tools
    for query in questions:
        for answer in (tools.grep_search(query), tools.vector_search(query), tools.hybrid_search(query)):
            for found in answer.results:
                assert found.hit.text == lines_of(found.hit)


PAGE = "# Steeping\n\nKeep the **green** tea\nat `70` degrees.\n\n## Storing\n\nUse a _dark_ jar.\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pages = {**PAGES, "steep.md": PAGE.replace("\n", "\r\n")}
    return make_indexed(tmp_path_factory.mktemp("lines"), pages)


def test_every_door_returns_both_texts(project: Path) -> None:
    query, raw = "green tea at 70 degrees steeping", PAGE.partition("\n\n## ")[0].replace("\n", "\r\n")
    plain = "Steeping\n\nKeep the green tea\nat 70 degrees."
    with ExitStack() as resources:
        library = Library(project, resources)
        hits = [
            *Command(project).hits("retrieve", query),
            *Http(library, resources)(query, "local")["hits"],
            *Mcp(library, resources)("predictor_search", query=query, predictor="local").results,
        ]
    found = [(each["text"], each["plain"]) for each in hits if "Keep the" in each["text"]]
    assert found == [(raw, plain)] * 3


@pytest.mark.parametrize("quote", ["the **green** tea at `70`", "the green tea at 70"])
def test_a_quote_counts_with_and_without_markup(project: Path, quote: str) -> None:
    gold = GoldItem(source_file="steep.md", answer_quote=quote)
    with Workspace.open(project / "data") as workspace:
        hits = workspace.search("green tea at 70 degrees steeping", "local")
    assert any(each.gold == 0 for each in judge(hits, Question(id="q", question="?", gold=(gold,))).hits)


def test_raw_roles_and_links_in_a_quote_count() -> None:
    hit = Hit(
        id="a",
        source="a.rst",
        line_start=1,
        line_end=1,
        text="See :ref:`the jar <jar>`.",
        plain="See the jar.",
        score=1.0,
    )
    for quote in ("See the jar.", "See :ref:`the jar <jar>`."):
        gold = GoldItem(source_file="a.rst", answer_quote=quote)
        assert judge([hit], Question(id="q", question="?", gold=(gold,))).hits[0].gold == 0


def test_plain_defaults_to_text() -> None:
    hit = Hit(id="a", source="a", line_start=1, line_end=1, text="*x*", score=1.0)
    assert (hit.plain, msgspec.structs.replace(hit, plain="").plain) == ("*x*", "")
