"""``branchrank search``: keyword, semantic and hybrid search, grouped by document, scores in 0..1."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from branchrank.cli.options import data_dir_option, opened_index, resolved_settings, settings_options
from branchrank.cli.querying import as_utf8, show_passage
from branchrank.cli.terminal import Command, safe
from branchrank.printable import safe_line
from branchrank.records import Record
from branchrank.settings import EmbeddingSettings, IndexSettings, RetrievalSettings
from branchrank.stores.sqlite_search import Mode, SearchResult


class SearchAnswer(Record, frozen=True, kw_only=True):
    """What ``--json`` prints."""

    query: str
    mode: Mode
    results: tuple[SearchResult, ...]


@click.command("search", cls=Command)
@click.argument("query", callback=as_utf8)
@data_dir_option
@click.option(
    "--mode",
    type=click.Choice(["keyword", "semantic", "hybrid"]),
    default="keyword",
    show_default=True,
    help="Words as they are written or begin, nearest embeddings, or both fused.",
)
@click.option("--explain", is_flag=True, help="Show every part of each score.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--quiet", is_flag=True, help="No progress.")
@settings_options(RetrievalSettings)
@settings_options(EmbeddingSettings, IndexSettings, only=frozenset({"embedding.model", "index.embedder"}))
def command(query: str, data_dir: Path, mode: Mode, explain: bool, as_json: bool, quiet: bool) -> None:
    """Search the workspace's SQLite file for QUERY; a document is represented by its best chunks.

    The modes semantic and hybrid need an [embedding] section in branchrank.toml.
    """
    from branchrank.index.sqlite_index import open_search

    settings = resolved_settings(data_dir)
    retrieval = settings.part(RetrievalSettings)
    with opened_index(data_dir, settings, quiet=quiet) as index:
        search = open_search(index, settings.part(EmbeddingSettings))
        try:
            results = search.search(query, mode=mode, settings=retrieval)
        finally:
            search.close()
    if as_json:
        answer = SearchAnswer(query=query, mode=mode, results=tuple(results))
        click.echo(msgspec.json.encode(answer))
        return
    if not results:
        click.echo("nothing found")
    for rank, result in enumerate(results, start=1):
        _show(rank, result, explain)


def _show(rank: int, result: SearchResult, explain: bool) -> None:
    """One document: its score, then each of its chunks, the best with its beginning."""
    click.echo(f"{rank:>2}. {click.style(safe_line(result.id), bold=True)}  {result.score:.4f}")
    for number, found in enumerate(result.chunks):
        chunk = found.chunk
        click.echo(f"    {chunk.line_start}-{chunk.line_end}  {safe_line(chunk.breadcrumb)}")
        if explain:
            click.secho(f"      {safe(found.explanation)}", dim=True)
        if number == 0:
            show_passage(chunk.text, indent=6)
