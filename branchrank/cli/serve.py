"""``branchrank serve``: retrieval over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import click

from branchrank.cli.options import data_dir_option, given_flags, settings_options
from branchrank.cli.querying import open_workspace
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
    """Where a server listens, and who may reach it."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        for option in (
            click.option(
                "--allowed-origin",
                "allowed_origins",
                multiple=True,
                help="Origin of web pages that may send requests.",
            ),
            click.option(
                "--allowed-host", "allowed_hosts", multiple=True, help="Host name to answer to besides."
            ),
            click.option(
                "--token-file",
                type=click.Path(path_type=Path, dir_okay=False),
                help="File with the token that requests must carry; else $BRANCHRANK_TOKEN.",
            ),
            click.option(
                "--port",
                type=click.IntRange(0, 65_535),
                default=port,
                show_default=True,
                help="Port; 0: a free one.",
            ),
            click.option(
                "--host",
                default="127.0.0.1",
                show_default=True,
                help="Address to listen on; any other than loopback needs a token.",
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
    help="Predictor to serve; repeatable. The first is the default of requests.",
)


@click.command("serve", cls=Command)
@data_dir_option
@predictor_option
@address_options(port=8000)
@click.option(
    "--threads", type=click.IntRange(1, 64), default=2, show_default=True, help="Queries answered at once."
)
@click.option(
    "--queue",
    type=click.IntRange(0, 10_000),
    default=64,
    show_default=True,
    help="Queries that may wait; further ones get status 503.",
)
@click.option("--quiet", is_flag=True, help="No progress.")
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
def command(
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
    """Serve retrieval over HTTP: POST /retrieve, GET /health, GET /openapi.json.

    Listens on the loopback interface. Every other address needs a token, in a file or in BRANCHRANK_TOKEN.
    """
    from branchrank.serve.access import access_for, read_token
    from branchrank.serve.http import application
    from branchrank.serve.server import http_server, listen, url_of
    from branchrank.serve.service import Service
    from branchrank.serve.workers import Workers

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
