"""The terminal UI: driven by Textual's pilot, and once as a process on a real pseudo-terminal."""

from __future__ import annotations

import re
import signal
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.pseudo_terminal import Terminal
from support.scripted_llm import ScriptedLLM, first_shown
from support.small_index import small_workspace
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, RichLog, Static, Tabs

from branchrank.core.errors import ArtifactError
from branchrank.frontends.serve.service import Searches, Service
from branchrank.frontends.serve.tui import SearchApp, SourceView
from branchrank.index.index_build import build_index
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.workspace import Workspace

SIZE = (130, 30)
OSC, BIDI = "\x1b]0;pwned\x07", "\u202eevil\u202c"
HOSTILE = f"""\
# Wombat [red]markup[/red]

The wombat digs {OSC} a hole {BIDI} and \x9b31m sleeps [link=file:///etc/passwd]here[/link] [/].
"""


@pytest.fixture(autouse=True)
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Move nothing slowly, as the pilot waits for the end of every movement."""
    monkeypatch.setattr("textual.constants.TEXTUAL_ANIMATIONS", "none")


@pytest.fixture
def searches(service: Service) -> Searches:
    return Searches(service)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> WorkspaceFolder:
    folder = tmp_path_factory.mktemp("hostile")
    made = small_workspace(folder)
    (folder / "docs" / "[bold]wombat[").mkdir()
    (folder / "docs" / "[bold]wombat[" / "x.md").write_text(HOSTILE)
    build_index(made).close()
    return made


async def settled(app: SearchApp, pilot: Pilot[None]) -> None:
    await pilot.pause()
    await app.workers.wait_for_complete()
    await pilot.pause()


def status(app: SearchApp) -> list[str]:
    return [line.text for line in app.query_one(RichLog).lines]


def shown(app: SearchApp) -> list[str]:
    """The visible lines of the source."""
    view = app.query_one(SourceView)
    return [view.render_line(y).text.rstrip() for y in range(view.size.height)]


def listed(app: SearchApp) -> list[str]:
    results = app.query_one("#results", OptionList)
    return [str(results.get_option_at_index(number).prompt) for number in range(results.option_count)]


def text_of(app: SearchApp, selector: str) -> str:
    return str(app.query_one(selector, Static).render())


async def test_a_query_shows_results_source_and_status(searches: Searches) -> None:
    (found,) = searches.search("grep", "max_retries").results
    (line,) = found.hit.matched
    app = SearchApp(searches, mode="grep")
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press(*"max_retries", "enter")
        await settled(app, pilot)
        assert len(listed(app)) == 1
        assert found.citation in listed(app)[0]
        assert f"> {line} A request" in listed(app)[0]
        assert text_of(app, "#path") == found.citation
        assert text_of(app, "#count").startswith("1 result ")
        assert any(row.startswith(f"> {line:>2} │ A request") for row in shown(app))
        assert sum(row.startswith(">") for row in shown(app)) == 1
        assert f"grep_search: {len(found.hit.plain)} characters, 1 file" in status(app)[0]
        assert app.focused is app.query_one("#results")


async def test_every_mode_searches_and_reports(searches: Searches) -> None:
    query = "clear the cache pool"
    direct = {
        name: [each.citation for each in searches.search(name, query).results] for name in searches.modes
    }
    assert [*direct][:5] == ["grep", "vector", "hybrid", "predictor-local", "predictor-hybrid"]
    app = SearchApp(searches, mode="grep", query=query)
    async with app.run_test(size=SIZE) as pilot:
        for name, citations in direct.items():
            await settled(app, pilot)
            assert app.query_one(Tabs).active == name
            assert [entry.split()[1] for entry in listed(app)] == citations
            await pilot.press("f2")
        said = [line.split(" ", 1)[1] for line in status(app)]
    tools = ["grep_search", "vector_search", "hybrid_search", "predictor local", "predictor hybrid"]
    assert [line.partition(":")[0] for line in said][:5] == tools
    assert all(re.search(r": \d+ characters, \d+ (files|chunks|sections)", line) for line in said)


async def test_the_keyword_box_is_shown_only_in_modes_that_use_it(searches: Searches) -> None:
    """Grep looks for the keywords, the vectors for the meaning of the query, as in the tool."""
    query, keywords = "switch the servers over", "max_retries"
    with_keywords = [each.citation for each in searches.search("hybrid", query, keywords).results]
    assert with_keywords != [each.citation for each in searches.search("hybrid", query).results]
    app = SearchApp(searches, mode="grep", query=query)
    async with app.run_test(size=SIZE) as pilot:
        await settled(app, pilot)
        box = app.query_one("#keywords", Input)
        assert not box.display
        await pilot.press("f2", "f2")
        await settled(app, pilot)
        assert app.query_one(Tabs).active == "hybrid"
        assert box.display
        box.focus()
        box.value = keywords
        await pilot.press("enter")
        await settled(app, pilot)
        assert [entry.split()[1] for entry in listed(app)] == with_keywords
        await pilot.press("f2")
        await settled(app, pilot)
        assert not box.display
        local = [each.citation for each in searches.search("predictor-local", query).results]
        assert [entry.split()[1] for entry in listed(app)] == local


@pytest.mark.parametrize(
    ("settings", "opened"),
    [
        ({}, "predictor-local"),
        ({"hybrid.base_url": "http://127.0.0.1:9/v1", "hybrid.model": "tiny"}, "predictor-local"),
        ({"hybrid.reranker": "llm", "hybrid.no_llm": True}, "predictor-local"),
    ],
    ids=["no LLM", "an LLM that does not answer", "no LLM wanted"],
)
async def test_the_ui_starts_in_the_best_available_system(
    workspace: WorkspaceFolder, settings: dict[str, object], opened: str
) -> None:
    with Workspace(workspace.with_flags(settings)) as made:
        searches = Searches(Service(made, ("local", "hybrid")))
        assert searches.best == opened
        if settings:
            return
        app = SearchApp(searches)
        async with app.run_test(size=SIZE) as pilot:
            await settled(app, pilot)
            assert app.query_one(Tabs).active == opened


async def test_the_ui_starts_in_hybrid_if_its_llm_answers(workspace: WorkspaceFolder) -> None:
    with ScriptedLLM(first_shown, models=("tiny",)) as server:
        settings = {"hybrid.base_url": server.base_url, "hybrid.model": "tiny"}
        with Workspace(workspace.with_flags(settings)) as made:
            assert Searches(Service(made, ("local", "hybrid"))).best == "predictor-hybrid"


async def test_the_ui_starts_in_late_interaction_if_the_index_has_token_vectors(tmp_path: Path) -> None:
    made = small_workspace(tmp_path)
    flags = {"index.token_vectors": "int8"}
    build_index(made.with_flags(flags)).close()
    with Workspace(made.with_flags(flags)) as opened:
        names = ("local", "hybrid", "late-interaction")
        assert Searches(Service(opened, names)).best == "predictor-late-interaction"
        assert Searches(Service(opened, names[:2])).best == "predictor-local"


async def test_moving_through_results_moves_the_source(searches: Searches) -> None:
    query = "switch the servers over"
    found = searches.search("hybrid", query).results
    assert len(found) > 2
    app = SearchApp(searches, mode="hybrid", query=query)
    async with app.run_test(size=SIZE) as pilot:
        await settled(app, pilot)
        app.query_one("#results", OptionList).focus()
        for each in found[1:4]:
            await pilot.press("down")
            await pilot.pause()
            assert text_of(app, "#path") == each.citation
            first = f"{each.hit.line_start} │"
            assert any(first in row for row in shown(app))
        await pilot.press("enter")
        assert app.focused is app.query_one(SourceView)
        await pilot.press("escape")
        assert app.focused is app.query_one("#query")
        assert app.query_one(Input).selected_text == query


async def test_empty_results_and_failures_are_reported(
    searches: Searches, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = SearchApp(searches, mode="grep", query="zzzunknown")
    async with app.run_test(size=SIZE) as pilot:
        await settled(app, pilot)
        assert text_of(app, "#count").startswith("nothing found")
        assert listed(app) == []

        def fail(_query: str, **_options: object) -> None:
            raise ArtifactError("the index is [red]gone\x1b[2J", remedy="branchrank index")

        monkeypatch.setattr(searches.tools, "grep_search", fail)
        app.query_one("#query").focus()
        await pilot.press("enter")
        await settled(app, pilot)
        assert any("the index is [red]gone" in line for line in status(app))
        assert not any("\x1b" in line for line in status(app))
        await pilot.press("ctrl+l")
        assert status(app) == []


@pytest.mark.parametrize("size", [(20, 8), pytest.param((80, 24), marks=pytest.mark.full), (240, 80)])
async def test_any_terminal_size_works(searches: Searches, size: tuple[int, int]) -> None:
    app = SearchApp(searches, mode="grep", query="cache")
    async with app.run_test(size=size) as pilot:
        await settled(app, pilot)
        assert listed(app)
        await pilot.resize_terminal(size[1] * 2, size[0])
        await settled(app, pilot)
        assert listed(app)


def hidden(text: str) -> set[str]:
    return {character for character in text if character in "\x00\x07\x1b\x9b\u202e\u202c"}


async def test_document_text_is_escaped(hostile: WorkspaceFolder) -> None:
    with Workspace(hostile) as opened:
        searches = Searches(Service(opened, ("local",)))
        for mode in ("grep", "predictor-local"):
            app = SearchApp(searches, mode=mode, query="wombat [red]markup")
            async with app.run_test(size=SIZE) as pilot:
                await settled(app, pilot)
                everything = "\n".join([*listed(app), *shown(app), *status(app), app.export_screenshot()])
                assert hidden(everything) == set()
                assert text_of(app, "#path").startswith("[bold]wombat[/x.md:")
                assert any("[red]markup[/red]" in row for row in shown(app))
                assert any("[bold]wombat[/x.md" in entry for entry in listed(app))


@pytest.fixture
def terminal(hostile: WorkspaceFolder) -> Iterator[Terminal]:
    verb = [sys.executable, "-m", "branchrank.frontends.cli.main", "tui", "--mode", "grep"]
    made = Terminal([*verb, "--data-dir", str(hostile.data_dir), "--quiet"])
    yield made
    made.close()


def test_the_ui_works_in_a_real_terminal(terminal: Terminal) -> None:
    assert terminal.read_until(lambda: b"Status" in terminal.output)
    terminal.send(b"wombat\r")
    assert terminal.read_until(lambda: b"grep_search:" in terminal.output)
    assert terminal.read_until(lambda: b"markup" in terminal.output)
    for payload in (OSC.encode(), b"pwned\x07", BIDI.encode(), "\x9b".encode(), b"\x9b31m"):
        assert payload not in terminal.output
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.read_until(lambda: b"\x1b[?1049l" in terminal.output)
    assert terminal.read_until(lambda: terminal.process.poll() is not None)
    assert terminal.process.returncode == 143
    assert termios.tcgetattr(terminal.slave) == terminal.before
