"""The commands ``serve`` (HTTP), ``mcp`` (the Model Context Protocol) and ``view`` (a local web page)."""

from __future__ import annotations

import contextlib
import getpass
import os
import secrets
import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from branchrank.core.settings import DEFAULT_DATA_DIR, DEMO_FOLDER
from branchrank.frontends.cli.options import (
    DATA_DIR,
    FILE,
    FOLDER,
    QUIET,
    RETURNS,
    F,
    flag,
    settings_options,
    switch,
    together,
)
from branchrank.frontends.cli.search import open_workspace
from branchrank.frontends.cli.terminal import Command, say
from branchrank.search.systems.builtin import BUILTIN

if TYPE_CHECKING:
    from branchrank.core.io.keys import Access


def address_options(port: int) -> Callable[[F], F]:
    """Return a decorator that adds the flags for a server's address, its token and its allowed hosts."""
    return together(
        flag("--host", "Address to listen on. An address other than loopback needs a token.", "127.0.0.1"),
        flag("--port", "Port to listen on, or 0 for any free port.", port, click.IntRange(0, 65_535)),
        flag(
            "--token-file",
            "File with the token that requests must send. Default: the token in BRANCHRANK_TOKEN.",
            kind=FILE,
        ),
        flag(
            "--allowed-host allowed_hosts",
            "Additional host name that clients may use for this server. Repeatable.",
            multiple=True,
        ),
        flag(
            "--allowed-origin allowed_origins",
            "Origin of web pages that may send requests, such as http://localhost:3000. Repeatable.",
            multiple=True,
        ),
    )


def predictor_option(default: str) -> Callable[[F], F]:
    """Return a decorator that adds the flag for the predictors that a server offers."""
    text = (
        "Predictor to serve. Requests without a predictor use the first predictor. Repeatable. Default: the "
    )
    text += f"table [system] of branchrank.toml, if there is one, and {default}."
    return flag("--predictor predictors", text, multiple=True)


def _access(host: str, token_file: Path | None, port: int, **allowed: tuple[str, ...]) -> Access:
    """Check the address and the token before anything is opened."""
    from branchrank.core.io.keys import access_for, read_token

    return access_for(host, token=read_token(token_file), **allowed)


def _run(app: Any, host: str, port: int, lines: list[str], path: str = "") -> None:
    """Print the lines, the last one with the server's URL, and serve until the process is stopped."""
    from branchrank.core.io.loopback_server import http_server, listen, url_of

    with listen(host, port) as listening:
        for line in [*lines[:-1], f"{lines[-1]}{url_of(host, listening)}{path}"]:
            click.echo(line, err=True)
        http_server(app).run(sockets=[listening])


#: The number of searches that wait for a thread. Refusing a client that tries again costs more.
QUEUE = 256


@click.command("serve", cls=Command)
@DATA_DIR
@predictor_option("all")
@address_options(port=8000)
@flag("--threads", "Number of queries that run in parallel.", 2, click.IntRange(1, 64))
@flag(
    "--queue",
    "Number of queries that may wait for a thread. More queries are rejected with status 503.",
    QUEUE,
    click.IntRange(0, 10_000),
)
@QUIET
@settings_options("local", "pageindex", "hybrid", "grep", "qdrant", "retrieval", "late_interaction")
@settings_options("agent", "llm", "bm25", "index", "cache")
@settings_options(*RETURNS)
def serve(
    data_dir: Path, predictors: tuple[str, ...], threads: int, queue: int, quiet: bool, **address: Any
) -> None:
    """Serve retrieval over HTTP with POST /retrieve, GET /health and GET /openapi.json.

    By default, the server listens only on the loopback interface. To listen on any other interface, set a
    token with --token-file or the environment variable BRANCHRANK_TOKEN.
    """
    from branchrank.frontends.serve.http_api import application
    from branchrank.frontends.serve.service import Service, Workers

    access = _access(**address)
    with open_workspace(data_dir, quiet=quiet) as workspace:
        service = Service(workspace, predictors or workspace.default_predictors("all"))
        service.warm_up()
        app = application(service, Workers(threads, queue), access)
        lines = [f"not served: {name}: {reason}" for name, reason in service.refused.items()]
        lines.append(f"serving {', '.join(service.predictors)} on ")
        _run(app, address["host"], address["port"], lines)


def _end(number: int, _frame: FrameType | None) -> None:
    """Exit immediately, because a thread that waits for standard input would block a normal exit."""
    os._exit(128 + number)


@click.command("mcp", cls=Command)
@DATA_DIR
@flag(
    "--transport",
    "With stdio, an MCP client starts the command. With http, clients connect to the URL path /mcp.",
    "stdio",
    click.Choice(["stdio", "http"]),
)
@predictor_option("all built-in predictors")
@address_options(port=8001)
@QUIET
@settings_options("grep", "index", "cache")
def mcp(data_dir: Path, transport: str, predictors: tuple[str, ...], quiet: bool, **address: Any) -> None:
    """Serve the tools grep_search, vector_search, hybrid_search, predictor_search and read_file over MCP.

    By default, predictor_search offers every built-in predictor that can run. Those for which an LLM is
    configured can run only if it answers. The tools read only the corpus of the workspace. The flags for
    addresses and tokens apply only with --transport http, and work as in `branchrank serve`.
    """
    from branchrank.frontends.serve.mcp import mcp_server, serve_stdio
    from branchrank.frontends.serve.service import Service, Workers
    from branchrank.search.agent.tool_server import PATH, mcp_application

    if transport == "http":
        access = _access(**address)
    with open_workspace(data_dir, quiet=quiet) as workspace:
        service = Service(workspace, predictors or workspace.default_predictors(*BUILTIN))
        workspace.index  # noqa: B018 - builds the index before a client needs it
        server = mcp_server(service, Workers(1, QUEUE))
        if transport == "stdio":
            for number in (signal.SIGINT, signal.SIGTERM):
                with contextlib.suppress(ValueError):  # raised outside the main thread
                    signal.signal(number, _end)
            serve_stdio(server)
            return
        _run(mcp_application(server, access), address["host"], address["port"], ["serving MCP on "], PATH)


@click.command("view", cls=Command)
@click.argument("reports", required=False, type=FOLDER)
@DATA_DIR
@flag("--annotator", "Your name, which is stored with each label. Default: your user name.")
@flag("--port", "Port to listen on, or 0 for any free port.", 8002, click.IntRange(0, 65_535))
@switch("--no-open", "Print the page's address without opening it in the browser.")
def view(reports: Path | None, data_dir: Path, annotator: str, port: int, no_open: bool) -> None:
    """Show the runs in the folder REPORTS on a local web page (default: reports and branchrank-demo/reports).

    The page searches the documents, lists all runs with their verdicts and trends, shows the questions of one
    run or of two runs side by side, and lets you write questions and label the passages that the systems
    found. Both are stored in the question file of the workspace. Without REPORTS and --data-dir, and without
    a workspace in data, the workspace is that of the demo. Only this machine can reach the page, and the page
    loads nothing from other servers.
    """
    from branchrank.frontends.serve.view import View, serve_view
    from branchrank.frontends.serve.view_runs import RunList
    from branchrank.index.workspace_folder import CONFIG, WorkspaceFolder
    from branchrank.runs.directory import RUN_FOLDERS

    runs = RunList(RUN_FOLDERS if reports is None else (reports,))
    if reports is None and data_dir == DEFAULT_DATA_DIR and not (data_dir / CONFIG).exists():
        data_dir = DEMO_FOLDER if (DEMO_FOLDER / CONFIG).exists() else data_dir
    page = View(runs, WorkspaceFolder.open(data_dir), annotator.strip() or getpass.getuser())
    with contextlib.closing(page):
        serve_view(page, secrets.token_urlsafe(), port, lambda url: say(f"page: {url}"), browse=not no_open)
