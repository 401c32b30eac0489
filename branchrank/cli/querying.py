"""Answer one query, or prompt the user for queries, for the commands ``retrieve`` and ``hybrid``."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

import branchrank
from branchrank.cli.options import filter_option, given_flags, settings_options
from branchrank.cli.terminal import safe, say, show_error
from branchrank.errors import BranchRankError
from branchrank.io.printable import encodable, safe_line
from branchrank.records import Hit, Record, Retrieval
from branchrank.settings import BenchmarkSettings, Resolved

if TYPE_CHECKING:
    from branchrank import Workspace

#: The maximum number of lines to show from each hit.
SHOWN_LINES = 4


def open_workspace(data_dir: Path, settings: Mapping[str, object], *, quiet: bool) -> Workspace:
    """Open the workspace with the command's settings. A missing or stale index is built."""
    from branchrank import Workspace

    return Workspace.open(data_dir, settings=settings, rebuild=True, notify=say, progress=not quiet)


def workspace_settings(data_dir: Path) -> Resolved:
    """Return the workspace's settings. The command's flags override settings in files."""
    from branchrank import Workspace

    return Workspace.open(data_dir, settings=given_flags(), notify=say).settings


class Answer(Record, frozen=True, kw_only=True):
    """The JSON object that ``--json`` prints for one query."""

    query: str
    predictor: str
    hits: tuple[Hit, ...]
    stage_ms: dict[str, float]
    fallbacks: tuple[str, ...]
    notices: tuple[str, ...]


def answer_queries(
    query: str | None, predictor: str, retrieve: Callable[[str], Retrieval], *, as_json: bool
) -> None:
    """Answer ``query``. If ``query`` is ``None``, answer each line of standard input up to an empty line."""
    if query is not None:
        _answer(query, predictor, retrieve, as_json)
        return
    interactive = sys.stdin.isatty()
    if interactive:
        _history()
        click.echo(f"{predictor}: type a question, or press Enter to quit", err=True)
    while True:
        try:
            line = input("> " if interactive else "").strip()
        except EOFError:
            return
        if not line:
            return
        try:
            _answer(encodable(line), predictor, retrieve, as_json)
        except BranchRankError as error:
            show_error(error, click.get_current_context().command)


def _history() -> None:
    """Turn on line editing at the prompt if Python's module ``readline`` is available."""
    try:
        import readline
    except ImportError:
        return
    readline.set_history_length(500)


def _answer(query: str, predictor: str, retrieve: Callable[[str], Retrieval], as_json: bool) -> None:
    retrieval = retrieve(query)
    if as_json:
        answer = Answer(
            query=query,
            predictor=predictor,
            hits=retrieval.hits,
            stage_ms={stage: round(ms, 3) for stage, ms in retrieval.stage_ms.items()},
            fallbacks=retrieval.fallbacks,
            notices=retrieval.remarks,
        )
        click.echo(msgspec.json.encode(answer))  # printed as bytes, because JSON is UTF-8 in any terminal
        return
    for notice in retrieval.remarks:
        click.secho(safe(notice), fg="yellow", err=True)
    for fallback in retrieval.fallbacks:
        click.secho(f"fallback: {safe(fallback)}", fg="yellow", err=True)
    if retrieval.calls:
        click.secho(branchrank.library.spent_line(retrieval.calls), dim=True, err=True)
    if not retrieval.hits:
        click.echo("nothing found")
    for rank, hit in enumerate(retrieval.hits, start=1):
        show_hit(rank, hit)


def show_hit(rank: int, hit: Hit) -> None:
    """Print a hit's location, its score, its rank in each branch, and the beginning of its text."""
    place = click.style(f"{safe_line(hit.source)}:{hit.line_start}-{hit.line_end}", bold=True)
    click.echo(f"{rank:>2}. {place}  {safe_line(hit.breadcrumb)}")
    reasons = safe(", ".join(hit.reasons))
    click.secho(f"    score {hit.score:.4f}{'  ' + reasons if reasons else ''}", dim=True)
    show_passage(hit.text)


def show_passage(text: str, indent: int = 4) -> None:
    """Print the first lines of a passage, and the number of lines that are not printed."""
    margin = " " * indent
    width = max(20, min(100, shutil.get_terminal_size((104, 24)).columns - indent))
    lines = [line for line in text.splitlines() if line.strip()]
    for line in lines[:SHOWN_LINES]:
        click.echo(f"{margin}{safe(line.strip())[:width]}")
    if len(lines) > SHOWN_LINES:
        click.secho(f"{margin}... {len(lines) - SHOWN_LINES} more lines", dim=True)


def query_text(_context: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
    """Reject an empty query, and make other queries encodable as UTF-8 (click callback)."""
    if text is not None and not text.strip():
        raise click.BadParameter("the query is empty; write the question in quotes")
    return None if text is None else encodable(text)


def query_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the argument and the flags that ``retrieve`` and ``hybrid`` share."""
    for decorate in (
        click.option("--quiet", is_flag=True, help="Show no progress."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object per query."),
        settings_options(BenchmarkSettings, only=frozenset({"benchmark.returns", "benchmark.passage_lines"})),
        filter_option,
        click.option(
            "--top-k", type=click.IntRange(1, 1000), default=5, show_default=True, help="Number of hits."
        ),
        click.option(
            "--data-dir",
            type=click.Path(path_type=Path, file_okay=False),
            default=Path("data"),
            show_default=True,
            help="The workspace to search.",
        ),
        click.argument("query", required=False, callback=query_text),
    ):
        function = decorate(function)
    return function
