"""``branchrank tui``: search a workspace in the terminal."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

import click

from branchrank.cli.options import data_dir_option, opened_index, resolved_settings, settings_options
from branchrank.cli.terminal import Command, say
from branchrank.errors import UsageError
from branchrank.settings import (
    CacheSettings,
    GrepSettings,
    HybridSettings,
    IndexSettings,
    LLMSettings,
    LocalSettings,
)

PREDICTORS = ("local", "hybrid")


@click.command("tui", cls=Command)
@click.argument("query", required=False, default="")
@data_dir_option
@click.option(
    "--mode",
    type=click.Choice(["grep", "vector", "hybrid"]),
    default="hybrid",
    show_default=True,
    help="How to search at first; F2 switches.",
)
@click.option("--quiet", is_flag=True, help="No progress.")
@settings_options(GrepSettings, LocalSettings, HybridSettings, LLMSettings, IndexSettings, CacheSettings)
def command(query: str, data_dir: Path, mode: str, quiet: bool) -> None:
    """Search in the terminal: results with marked lines, the source beside them, a log of what was found.

    Modes: grep, vectors, both, and the predictors local and (where its LLM is named, or with
    --hybrid-no-llm) hybrid.
    """
    from branchrank.index.workspace_folder import Workspace
    from branchrank.serve.service import Service, offer
    from branchrank.serve.tui.app import SearchApp
    from branchrank.serve.tui.searching import Searches
    from branchrank.systems.builtin import builtin_systems
    from branchrank.systems.llm_opening import open_llm
    from branchrank.systems.search_tools import SearchTools

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the terminal UI needs a terminal", remedy="branchrank search QUERY")
    settings = resolved_settings(data_dir)
    root = Workspace(data_dir, settings).corpus_root
    offered = offer(builtin_systems(PREDICTORS, settings))
    with ExitStack() as opened:
        stages = opened.enter_context(open_llm(data_dir, settings, offered.ready, notify=say))
        index = opened.enter_context(opened_index(data_dir, settings, quiet=quiet))
        tools = SearchTools(index, root, settings=settings.part(GrepSettings))
        service = Service(index, offered, llm_stages=stages)
        SearchApp(Searches(tools, service, root), mode=mode, query=query).run()
