"""Every way into one indexed project: commands, the library, HTTP, MCP, the terminal UI.

Settings are named as ``grep__ranking="bm25"`` and lie over the project's ``branchrank.toml``. What a door
opens for a set of settings stays open until the doors are closed.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
from click.testing import Result
from mcp import Client
from support.commands import invoke
from support.http_server import Running, asking, post, running
from support.worlds import PAGES, write_pages
from textual.widgets import RichLog, Tabs

from branchrank.core.io.keys import Access
from branchrank.core.records import Hit, Retrieval, StageTrace
from branchrank.frontends.serve.http_api import application
from branchrank.frontends.serve.mcp import mcp_server
from branchrank.frontends.serve.service import Searches, Service, Workers
from branchrank.frontends.serve.tui import SearchApp
from branchrank.index.embedders.fake import FakeEmbedder
from branchrank.search.files import grep_search as grep_module
from branchrank.search.systems.builtin import AGENTS
from branchrank.search.systems.search_tools import Found
from branchrank.workspace import Workspace

T = TypeVar("T")


def make_indexed(folder: Path, pages: dict[str, str] = PAGES, config: str = "", **index: object) -> Path:
    """``folder`` with ``docs/`` and ``data/``, indexed by ``branchrank index``; ``config`` is TOML.

    ``index`` are the command's flags; one that is ``None`` is not given.
    """
    write_pages(folder / "docs", pages)
    data = folder / "data"
    data.mkdir()
    (data / "branchrank.toml").write_text(config, encoding="utf-8")
    options = {"embedder": "fake:64", "vector_store": "exact", **index}
    given = {"--" + name.replace("_", "-"): value for name, value in options.items() if value is not None}
    words = [word for flag in given.items() for word in flag]
    result = invoke("index", folder / "docs", "--data-dir", data, "--quiet", *words)
    assert result.exit_code == 0, result.output
    return folder


class Command:
    """``branchrank WORDS --data-dir DATA``."""

    def __init__(self, project: Path) -> None:
        self.data = project / "data"

    def __call__(self, verb: str, *words: object) -> Result:
        return invoke(verb, "--data-dir", self.data, *words)

    def run(self, *words: object) -> Result:
        """``branchrank run WORDS``; the experiment file names the workspace."""
        return invoke("run", *words)

    def json(self, verb: str, *words: object) -> dict[str, Any]:
        """What the command prints with ``--json``."""
        result = self(verb, "--json", "--quiet", *words)
        assert result.exit_code == 0, result.output
        answer: dict[str, Any] = json.loads(result.stdout)
        return answer

    def hits(self, verb: str, *words: object) -> list[dict[str, Any]]:
        """The hits of ``retrieve`` or ``hybrid``, or the results of ``search``."""
        answer = self.json(verb, *words)
        hits: list[dict[str, Any]] = answer["results"] if verb == "search" else answer["hits"]
        return hits


class Library:
    """``Workspace.open(DATA, settings=...)``, one per set of settings."""

    def __init__(self, project: Path, resources: ExitStack) -> None:
        self.data = project / "data"
        self._resources = resources
        self._opened: dict[tuple[Any, ...], Workspace] = {}

    def __call__(self, **settings: object) -> Workspace:
        return self._kept(tuple(sorted(settings.items())))

    def _kept(self, settings: tuple[tuple[str, object], ...]) -> Workspace:
        if settings not in self._opened:
            named = {name.replace("__", "."): value for name, value in settings}
            self._opened[settings] = self._resources.enter_context(Workspace.open(self.data, settings=named))
        return self._opened[settings]

    def retrieve(self, query: str, system: str, k: int = 5, **settings: object) -> Retrieval:
        """``Workspace.retrieve``."""
        return self(**settings).retrieve(query, system, k)

    def stages(self, query: str, system: str, k: int = 5, **settings: object) -> dict[str, StageTrace]:
        """The list of every stage, by its name."""
        return {stage.stage: stage for stage in self.retrieve(query, system, k, **settings).trace}


class _Served:
    """A service per set of settings, over the library's workspaces."""

    def __init__(self, library: Library, resources: ExitStack) -> None:
        self._library = library
        self._resources = resources
        self._made: dict[tuple[Any, ...], Any] = {}

    def _served(self, settings: dict[str, object], make: Callable[[Service, Workers], T]) -> T:
        key = tuple(sorted(settings.items()))
        if key not in self._made:
            workers = Workers(1, 8)
            agents = AGENTS if "agent__base_url" in settings else ()
            self._made[key] = make(Service(self._library(**settings), ("family", *agents)), workers)
        made: T = self._made[key]
        return made


class Http(_Served):
    """``POST /retrieve``; the answer's JSON."""

    def __call__(self, query: str, predictor: str, top_k: int | None = None, **settings: object) -> Any:
        def start(service: Service, workers: Workers) -> Running:
            return self._resources.enter_context(running(application(service, workers, Access())))

        more = {} if top_k is None else {"top_k": top_k}
        server = self._served(settings, start)
        status, _, body = server.send(post(asking(query, predictor=predictor, **more)))
        assert status == 200, body
        return json.loads(body)


class ToolResult(NamedTuple):
    """What an MCP tool answered: its text, and as data the results and the status."""

    text: str
    is_error: bool
    results: list[dict[str, Any]]
    status: str

    @property
    def places(self) -> list[tuple[str, int, int]]:
        """Path, first and last line of each result."""
        return [(each["path"], each["line_start"], each["line_end"]) for each in self.results]

    @property
    def paths(self) -> list[str]:
        return [each["path"] for each in self.results]

    @property
    def count(self) -> tuple[int, str]:
        """The files or chunks that the status counts, with the word."""
        found = re.search(r"characters, (\d+) (\w+)", self.status)
        assert found
        return int(found[1]), found[2]


class Mcp(_Served):
    """A tool of the MCP server, called by the official client."""

    def __call__(
        self, tool: str, settings: dict[str, object] | None = None, **arguments: object
    ) -> ToolResult:
        server = self._served(settings or {}, mcp_server)

        async def call() -> Any:
            async with Client(server) as client:
                return await client.call_tool(tool, arguments)

        result = asyncio.run(call())
        (content,) = result.content
        data = result.structured_content or {}
        return ToolResult(content.text, result.is_error, data.get("results", []), data.get("status", ""))


class Shown(NamedTuple):
    """What the terminal UI shows after a search: its results and the lines of its log."""

    results: list[Found]
    log: list[str]


class Tui(_Served):
    """The terminal UI, driven as a terminal would."""

    def __call__(self, mode: str, query: str, **settings: object) -> Shown:
        searches = self._served(settings, lambda service, _: Searches(service))
        app = SearchApp(searches, mode=mode, query=query)

        async def drive() -> Shown:
            async with app.run_test(size=(200, 40)) as pilot:
                await pilot.pause()
                await app.workers.wait_for_complete()
                await pilot.pause()
                assert app.query_one(Tabs).active == mode
                log = [line.text for line in app.query_one(RichLog).lines]
                return Shown(list(app._results), log)

        return asyncio.run(drive())

    def search(self, mode: str, query: str, keywords: str, **settings: object) -> list[Found]:
        """What the terminal UI searches with, keywords of its own given."""
        searches = self._served(settings, lambda service, _: Searches(service))
        return list(searches.search(mode, query, keywords).results)


def grep_beside_embedding(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Let grep and the embedding of a query wait for each other: one after the other, neither ends.

    Returns what each was asked, once it was.
    """
    together = threading.Barrier(2, timeout=10)
    asked: dict[str, str] = {}
    search_files, embed_query = grep_module.search_files, FakeEmbedder.embed_query

    def grepping(root: Path, patterns: list[str], *more: Any, **options: Any) -> object:
        asked["grep"] = " ".join(pattern.rpartition(")")[2] for pattern in patterns[:-1])
        together.wait()
        return search_files(root, patterns, *more, **options)

    def embedding(embedder: FakeEmbedder, text: str) -> object:
        asked["vector"] = text
        together.wait()
        return embed_query(embedder, text)

    monkeypatch.setattr(grep_module, "search_files", grepping)
    monkeypatch.setattr(FakeEmbedder, "embed_query", embedding)
    return asked


def ranks(stage: StageTrace | None) -> dict[str, int]:
    """The rank of each key of a stage, from 1."""
    return {} if stage is None else {key: rank for rank, key in enumerate(stage.keys, start=1)}


def ids(hits: Any) -> list[str]:
    """The ids of hits, from the library or from JSON."""
    return [hit.id if isinstance(hit, Hit) else hit["id"] for hit in hits]
