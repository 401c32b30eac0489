"""One question about a real documentation set: every tool and door answers with the right page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.front_doors import Library, Mcp

from branchrank.search.systems.builtin import AGENTS, BUILTIN

# One process builds the index of the fixture ``symfony``.
pytestmark = [pytest.mark.corpora, pytest.mark.xdist_group("symfony")]

QUESTION = "how do I restrict a route to a host"
#: Its section "Sub-Domain Routing". "Restricting by Host", about firewalls, shares more words with it.
PAGE = "routing.rst"
#: The first hits among which the page must be.
FIRST = 5
#: Grep knows no meaning: asked for the option that the page documents, it has the page first.
PATTERN = "'host:' '{subdomain}'"


@pytest.fixture(scope="module")
def resources() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.fixture(scope="module")
def library(symfony: Path, resources: ExitStack) -> Library:
    return Library(symfony, resources)


@pytest.mark.parametrize("predictor", [name for name in BUILTIN if name not in AGENTS])
def test_every_predictor(library: Library, predictor: str) -> None:
    assert PAGE in [hit.source for hit in library().search(QUESTION, predictor, FIRST)]


def test_every_tool(library: Library, resources: ExitStack) -> None:
    mcp = Mcp(library, resources)
    for tool, asked in (
        ("vector_search", {"query": QUESTION}),
        ("hybrid_search", {"semantic_query": QUESTION}),
        ("hybrid_search", {"semantic_query": QUESTION, "exact_keywords": PATTERN}),
        ("grep_search", {"query": QUESTION}),
    ):
        assert PAGE in mcp(tool, **asked, limit=FIRST).paths, (tool, asked)
    assert mcp("grep_search", query=PATTERN).paths[0] == PAGE
