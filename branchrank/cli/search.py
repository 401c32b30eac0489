"""``branchrank search``: keyword, semantic and hybrid search for documents, with scores from 0 to 1."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click
import msgspec

from branchrank.cli.options import data_dir_option, filter_option, given_flags, settings_options
from branchrank.cli.querying import open_workspace, query_text, show_passage
from branchrank.cli.terminal import Command, safe
from branchrank.io.printable import safe_line
from branchrank.records import Hit, Record
from branchrank.settings import EmbeddingSettings, IndexSettings, RetrievalSettings

Mode = Literal["keyword", "semantic", "hybrid"]


class SearchAnswer(Record, frozen=True, kw_only=True):
    """The JSON object that ``--json`` prints."""

    query: str
    mode: Mode
    results: tuple[Hit, ...]


@click.command("search", cls=Command)
@click.argument("query", callback=query_text)
@data_dir_option
@click.option(
    "--mode",
    type=click.Choice(["keyword", "semantic", "hybrid"]),
    default="keyword",
    show_default=True,
    help="`keyword` finds words and prefixes of words, `semantic` finds the nearest embeddings, and `hybrid` "
    "combines the two.",
)
@filter_option
@click.option("--explain", is_flag=True, help="Show how each score was computed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
@settings_options(RetrievalSettings)
@settings_options(EmbeddingSettings, IndexSettings, only=frozenset({"embedding.model", "index.embedder"}))
def command(
    query: str,
    data_dir: Path,
    mode: Mode,
    filters: tuple[str, ...],
    explain: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Search the workspace for QUERY, and print the best documents with their best chunks.

    The modes semantic and hybrid need an [embedding] section in branchrank.toml.
    """
    with open_workspace(data_dir, given_flags(), quiet=quiet) as workspace:
        hits = workspace.search_documents(query, mode=mode, filters=filters)
    if as_json:
        click.echo(msgspec.json.encode(SearchAnswer(query=query, mode=mode, results=tuple(hits))))
        return
    if not hits:
        click.echo("nothing found")
    for rank, hit in enumerate(hits, start=1):
        _show(rank, hit, explain)


def _show(rank: int, hit: Hit, explain: bool) -> None:
    """Print a document's score, its chunks, and the beginning of its best chunk."""
    grouped = bool(hit.members)
    title = hit.source if grouped else hit.id
    click.echo(f"{rank:>2}. {click.style(safe_line(title), bold=True)}  {hit.score:.4f}")
    for number, chunk in enumerate(hit.members or (hit,)):
        click.echo(f"    {chunk.line_start}-{chunk.line_end}  {safe_line(chunk.breadcrumb)}")
        if explain:
            click.secho(f"      {safe(_explanation(chunk))}", dim=True)
        if number == 0:
            show_passage(chunk.text, indent=6)


def _explanation(chunk: Hit) -> str:
    """Return an explanation of how a chunk's score was computed."""
    parts = [f"score {chunk.score:.4f}"]
    for name, word, measured in (
        ("fts5", "keyword", "score"),
        ("dense(chunks)", "vector", "cosine"),
    ):
        placement = chunk.branches.get(name)
        if placement is not None:
            note = f" ({chunk.notes[name]})" if name in chunk.notes else ""
            parts.append(f"{word} rank {placement.rank}, {measured} {placement.score:.4f}{note}")
    return "; ".join(parts)
