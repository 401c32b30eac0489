"""``branchrank mcp``: serve the search tools over the Model Context Protocol."""

from __future__ import annotations

import contextlib
import os
import signal
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

import click

from branchrank.cli.options import data_dir_option, given_flags, settings_options
from branchrank.cli.querying import open_workspace
from branchrank.cli.serve import address_options, predictor_option
from branchrank.cli.terminal import Command
from branchrank.settings import CacheSettings, GrepSettings, IndexSettings

#: The maximum number of searches that wait for a thread.
QUEUE = 64


def _end(number: int, _frame: FrameType | None) -> None:
    """Exit immediately, because a thread that waits for standard input would block a normal exit."""
    os._exit(128 + number)


@click.command("mcp", cls=Command)
@data_dir_option
@click.option(
    "--transport",
    type=click.Choice(["stdio", "http"]),
    default="stdio",
    show_default=True,
    help="With stdio, an MCP client starts the command. With http, clients connect to the URL path /mcp.",
)
@predictor_option
@address_options(port=8001)
@click.option("--quiet", is_flag=True, help="Show no progress.")
@settings_options(GrepSettings, IndexSettings, CacheSettings)
def command(
    data_dir: Path,
    transport: str,
    predictors: tuple[str, ...],
    host: str,
    port: int,
    token_file: Path | None,
    allowed_hosts: tuple[str, ...],
    allowed_origins: tuple[str, ...],
    quiet: bool,
) -> None:
    """Serve the tools grep_search, vector_search, hybrid_search, predictor_search and read_file over MCP.

    The tools read only the corpus of the workspace. The flags for addresses and tokens apply only with
    --transport http, and work as in `branchrank serve`.
    """
    from branchrank.serve.access import access_for, read_token
    from branchrank.serve.mcp import PATH, mcp_application, mcp_server
    from branchrank.serve.service import Service, Workers

    if transport == "http":
        access = access_for(
            host, token=read_token(token_file), allowed_hosts=allowed_hosts, allowed_origins=allowed_origins
        )
    with ExitStack() as opened:
        workspace = opened.enter_context(open_workspace(data_dir, given_flags(), quiet=quiet))
        service = Service(workspace, predictors)
        workspace.index  # noqa: B018 - builds the index before a client needs it
        workers = Workers(1, QUEUE)
        opened.callback(workers.close)
        server = mcp_server(service, workers)
        if transport == "stdio":
            for number in (signal.SIGINT, signal.SIGTERM):
                with contextlib.suppress(ValueError):  # raised outside the main thread
                    signal.signal(number, _end)
            server.run("stdio")
            return
        from branchrank.serve.server import http_server, listen, url_of

        listening = opened.enter_context(listen(host, port))
        click.echo(f"serving MCP on {url_of(host, listening)}{PATH}", err=True)
        http_server(mcp_application(server, access)).run(sockets=[listening])
