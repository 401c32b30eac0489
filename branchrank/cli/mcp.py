"""``branchrank mcp``: the search tools over the Model Context Protocol."""

from __future__ import annotations

import contextlib
import os
import signal
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

import click

from branchrank.cli.options import data_dir_option, opened_index, resolved_settings, settings_options
from branchrank.cli.serve import address_options
from branchrank.cli.terminal import Command
from branchrank.settings import CacheSettings, GrepSettings, IndexSettings

#: Searches that may wait for a thread.
QUEUE = 64


def _end(number: int, _frame: FrameType | None) -> None:
    """End at once: a thread that waits for standard input would hold up an orderly end."""
    os._exit(128 + number)


@click.command("mcp", cls=Command)
@data_dir_option
@click.option(
    "--transport",
    type=click.Choice(["stdio", "http"]),
    default="stdio",
    show_default=True,
    help="stdio: a client starts this command; http: clients connect to /mcp.",
)
@address_options(port=8001)
@click.option("--quiet", is_flag=True, help="No progress.")
@settings_options(GrepSettings, IndexSettings, CacheSettings)
def command(
    data_dir: Path,
    transport: str,
    host: str,
    port: int,
    token_file: Path | None,
    allowed_hosts: tuple[str, ...],
    allowed_origins: tuple[str, ...],
    quiet: bool,
) -> None:
    """Offer grep_search, vector_search, hybrid_search and read_file to a program that speaks MCP.

    The tools read the workspace's corpus and nothing else. The flags about addresses and tokens are for
    --transport http; there the rules are those of `branchrank serve`.
    """
    from branchrank.index.workspace_folder import Workspace
    from branchrank.serve.access import access_for, read_token
    from branchrank.serve.mcp import PATH, mcp_application, mcp_server
    from branchrank.serve.workers import Workers
    from branchrank.systems.search_tools import SearchTools

    if transport == "http":
        access = access_for(
            host, token=read_token(token_file), allowed_hosts=allowed_hosts, allowed_origins=allowed_origins
        )
    settings = resolved_settings(data_dir)
    root = Workspace(data_dir, settings).corpus_root
    with ExitStack() as opened:
        index = opened.enter_context(opened_index(data_dir, settings, quiet=quiet))
        tools = SearchTools(index, root, settings=settings.part(GrepSettings))
        # One thread opens what is opened on first use.
        workers = Workers(1, QUEUE)
        opened.callback(workers.close)
        server = mcp_server(tools, root, workers)
        if transport == "stdio":
            for number in (signal.SIGINT, signal.SIGTERM):
                with contextlib.suppress(ValueError):  # not the main thread
                    signal.signal(number, _end)
            server.run("stdio")
            return
        from branchrank.serve.server import http_server, listen, url_of

        listening = opened.enter_context(listen(host, port))
        click.echo(f"serving MCP on {url_of(host, listening)}{PATH}", err=True)
        http_server(mcp_application(server, access)).run(sockets=[listening])
