"""Serve a workspace: the commands ``serve`` (HTTP) and ``mcp`` (the Model Context Protocol)."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

import click

from branchrank.cli.options import FILE, QUIET, data_dir_option, given_flags, settings_options
from branchrank.cli.search import open_workspace
from branchrank.cli.terminal import Command
from branchrank.settings import (
    BenchmarkSettings,
    Bm25Settings,
    CacheSettings,
    GrepSettings,
    HybridSettings,
    IndexSettings,
    LateInteractionSettings,
    LLMSettings,
    LocalSettings,
    PageindexSettings,
    QdrantSettings,
    RetrievalSettings,
)


def address_options(port: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the flags for a server's address, its token and its allowed hosts."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        for option in (
            click.option(
                "--allowed-origin",
                "allowed_origins",
                multiple=True,
                help="Origin of web pages that may send requests, such as http://localhost:3000. Repeatable.",
            ),
            click.option(
                "--allowed-host",
                "allowed_hosts",
                multiple=True,
                help="Additional host name that clients may use for this server. Repeatable.",
            ),
            click.option(
                "--token-file",
                type=FILE,
                help="File with the token that requests must send. Default: the token in BRANCHRANK_TOKEN.",
            ),
            click.option(
                "--port",
                type=click.IntRange(0, 65_535),
                default=port,
                show_default=True,
                help="Port to listen on, or 0 for any free port.",
            ),
            click.option(
                "--host",
                default="127.0.0.1",
                show_default=True,
                help="Address to listen on. An address other than loopback needs a token.",
            ),
        ):
            function = option(function)
        return function

    return decorate


predictor_option = click.option(
    "--predictor",
    "predictors",
    multiple=True,
    default=("all",),
    show_default="all",
    help="Predictor to serve. Requests without a predictor use the first predictor. Repeatable.",
)


@click.command("serve", cls=Command)
@data_dir_option
@predictor_option
@address_options(port=8000)
@click.option(
    "--threads",
    type=click.IntRange(1, 64),
    default=2,
    show_default=True,
    help="Number of queries that run in parallel.",
)
@click.option(
    "--queue",
    type=click.IntRange(0, 10_000),
    default=64,
    show_default=True,
    help="Number of queries that may wait for a thread. More queries are rejected with status 503.",
)
@QUIET
@settings_options(
    LocalSettings,
    PageindexSettings,
    HybridSettings,
    GrepSettings,
    QdrantSettings,
    RetrievalSettings,
    LateInteractionSettings,
    LLMSettings,
    Bm25Settings,
    IndexSettings,
    CacheSettings,
)
@settings_options(BenchmarkSettings, only=frozenset({"benchmark.returns", "benchmark.passage_lines"}))
def serve(
    data_dir: Path,
    predictors: tuple[str, ...],
    host: str,
    port: int,
    token_file: Path | None,
    allowed_hosts: tuple[str, ...],
    allowed_origins: tuple[str, ...],
    threads: int,
    queue: int,
    quiet: bool,
) -> None:
    """Serve retrieval over HTTP with POST /retrieve, GET /health and GET /openapi.json.

    By default, the server listens only on the loopback interface. To listen on any other interface, set a
    token with --token-file or the environment variable BRANCHRANK_TOKEN.
    """
    from branchrank.serve.access import access_for, read_token
    from branchrank.serve.http import application
    from branchrank.serve.server import http_server, listen, url_of
    from branchrank.serve.service import Service, Workers

    access = access_for(
        host, token=read_token(token_file), allowed_hosts=allowed_hosts, allowed_origins=allowed_origins
    )
    with ExitStack() as opened:
        workspace = opened.enter_context(open_workspace(data_dir, given_flags(), quiet=quiet))
        service = Service(workspace, predictors)
        service.warm_up()
        workers = Workers(threads, queue)
        opened.callback(workers.close)
        app = application(service, workers, access)
        listening = opened.enter_context(listen(host, port))
        for name, reason in service.refused.items():
            click.echo(f"not served: {name}: {reason}", err=True)
        click.echo(f"serving {', '.join(service.predictors)} on {url_of(host, listening)}", err=True)
        http_server(app).run(sockets=[listening])


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
@QUIET
@settings_options(GrepSettings, IndexSettings, CacheSettings)
def mcp(
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
