"""``branchrank retrieve`` and ``retrieve.py``: search with the ``local`` predictor or another predictor."""

from __future__ import annotations

from pathlib import Path

import click

from branchrank.cli.options import given_flags, settings_options
from branchrank.cli.querying import answer_queries, open_workspace, query_options
from branchrank.cli.terminal import Command
from branchrank.settings import (
    Bm25Settings,
    CacheSettings,
    GrepSettings,
    IndexSettings,
    LocalSettings,
    QdrantSettings,
    RetrievalSettings,
)


@click.command("retrieve", cls=Command)
@query_options
@click.option("--predictor", default="local", show_default=True, help="The predictor to search with.")
@settings_options(
    LocalSettings,
    GrepSettings,
    QdrantSettings,
    RetrievalSettings,
    Bm25Settings,
    IndexSettings,
    CacheSettings,
)
def command(
    query: str | None,
    data_dir: Path,
    top_k: int,
    filters: tuple[str, ...],
    as_json: bool,
    quiet: bool,
    predictor: str,
) -> None:
    """Search with the local predictor (vectors and BM25 over chunks, fused with RRF) or another predictor.

    Without QUERY, the command prompts for queries and keeps the index loaded between queries.
    """
    with open_workspace(data_dir, given_flags(), quiet=quiet) as workspace:
        answer_queries(
            query,
            predictor,
            lambda text: workspace.retrieve(text, predictor, top_k, filters=filters),
            as_json=as_json,
        )
