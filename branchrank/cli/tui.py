"""``branchrank tui``: search a workspace in a terminal UI."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from branchrank.cli.options import data_dir_option, given_flags, settings_options
from branchrank.cli.querying import open_workspace
from branchrank.cli.terminal import Command
from branchrank.errors import UsageError
from branchrank.settings import (
    CacheSettings,
    GrepSettings,
    HybridSettings,
    IndexSettings,
    LLMSettings,
    LocalSettings,
)

if TYPE_CHECKING:
    from branchrank.serve.tui import Choice
    from branchrank.workspace import Workspace

PREDICTORS = ("local", "hybrid", "late-interaction")


def on_terminal() -> bool:
    """Return whether the process runs in an interactive terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def search_on_terminal(
    workspace: Workspace, *, mode: str = "", query: str = "", choosing: bool = False
) -> Choice | None:
    """Run the terminal UI until the user quits. With ``choosing``, return the result that the user picked."""
    from branchrank.serve.searches import Searches
    from branchrank.serve.service import Service
    from branchrank.serve.tui import SearchApp

    searches = Searches(Service(workspace, PREDICTORS))
    return SearchApp(searches, mode=mode, query=query, choosing=choosing).run()


@click.command("tui", cls=Command)
@click.argument("query", required=False, default="")
@data_dir_option
@click.option(
    "--mode",
    type=click.Choice(["grep", "vector", "hybrid", *(f"predictor-{name}" for name in PREDICTORS)]),
    help="Search mode at the start. F2 switches to the next mode. Default: the first available mode of "
    "predictor-late-interaction (needs token vectors), predictor-hybrid (needs an LLM) and predictor-local.",
)
@click.option("--quiet", is_flag=True, help="Show no progress.")
@settings_options(GrepSettings, LocalSettings, HybridSettings, LLMSettings, IndexSettings, CacheSettings)
def command(query: str, data_dir: Path, mode: str | None, quiet: bool) -> None:
    """Search in a terminal UI that shows the results, the source of the selected result, and a log.

    The search modes are grep, vector and hybrid. The mode hybrid fuses the results of grep and vector, and
    takes separate keywords for grep. The predictors local, hybrid and late-interaction are also search modes.
    """
    import branchrank.serve.tui  # noqa: F401 - report a missing extra before any other problem

    if not on_terminal():
        raise UsageError(
            "the terminal UI needs a terminal, but the input or output is not one",
            remedy="branchrank search QUERY",
        )
    with open_workspace(data_dir, given_flags(), quiet=quiet) as workspace:
        search_on_terminal(workspace, mode=mode or "", query=query)
