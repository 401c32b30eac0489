"""``branchrank tui``: search a workspace in the terminal."""

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
    from branchrank.serve.tui.app import Choice
    from branchrank.workspace import Workspace

PREDICTORS = ("local", "hybrid", "late-interaction")


def on_terminal() -> bool:
    """Return whether the process runs in an interactive terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def search_on_terminal(
    workspace: Workspace, *, mode: str = "", query: str = "", choosing: bool = False
) -> Choice | None:
    """Run the terminal UI to its end. With ``choosing``, return the result that the user picked, if any."""
    from branchrank.serve.service import Service
    from branchrank.serve.tui.app import SearchApp
    from branchrank.serve.tui.searching import Searches

    searches = Searches(Service(workspace, PREDICTORS))
    return SearchApp(searches, mode=mode, query=query, choosing=choosing).run()


@click.command("tui", cls=Command)
@click.argument("query", required=False, default="")
@data_dir_option
@click.option(
    "--mode",
    type=click.Choice(["grep", "vector", "hybrid", *(f"predictor-{name}" for name in PREDICTORS)]),
    help="How to search at first; F2 switches. Default: predictor-late-interaction where the index keeps "
    "token vectors, else predictor-hybrid where its LLM is named, else predictor-local.",
)
@click.option("--quiet", is_flag=True, help="No progress.")
@settings_options(GrepSettings, LocalSettings, HybridSettings, LLMSettings, IndexSettings, CacheSettings)
def command(query: str, data_dir: Path, mode: str | None, quiet: bool) -> None:
    """Search in the terminal: results with marked lines, the source beside them, a log of what was found.

    Modes: grep, vectors, both fused (with separate keywords for grep), and the predictors local,
    hybrid and late-interaction.
    """
    import branchrank.serve.tui.app  # noqa: F401  # a missing extra is the first thing to fix

    if not on_terminal():
        raise UsageError("the terminal UI needs a terminal", remedy="branchrank search QUERY")
    with open_workspace(data_dir, given_flags(), quiet=quiet) as workspace:
        search_on_terminal(workspace, mode=mode or "", query=query)
