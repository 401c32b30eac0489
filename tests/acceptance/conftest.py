"""The interfaces that people use, over the fixture ``project`` that each module defines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.front_doors import Command, Http, Library, Mcp, Tui


@pytest.fixture(scope="module")
def resources() -> Iterator[ExitStack]:
    """What the doors of a module open."""
    with ExitStack() as opened:
        yield opened


@pytest.fixture(scope="module")
def command(project: Path) -> Command:
    """The commands."""
    return Command(project)


@pytest.fixture(scope="module")
def library(project: Path, resources: ExitStack) -> Library:
    """The Python library."""
    return Library(project, resources)


@pytest.fixture(scope="module")
def http(library: Library, resources: ExitStack) -> Http:
    """The HTTP server."""
    return Http(library, resources)


@pytest.fixture(scope="module")
def mcp(library: Library, resources: ExitStack) -> Mcp:
    """The MCP server."""
    return Mcp(library, resources)


@pytest.fixture(scope="module")
def tui(library: Library, resources: ExitStack) -> Tui:
    """The terminal UI."""
    return Tui(library, resources)
