"""``branchrank hybrid`` and ``hybrid_retrieve.py``: search with the hybrid predictor."""

from __future__ import annotations

from pathlib import Path

import click

from branchrank.cli.options import given_flags, settings_options
from branchrank.cli.querying import answer_queries, open_workspace, query_options
from branchrank.cli.terminal import Command
from branchrank.settings import Bm25Settings, CacheSettings, HybridSettings, IndexSettings, LLMSettings


@click.command("hybrid", cls=Command)
@query_options
@click.option("--no-llm", is_flag=True, help="Do not rerank with an LLM (same as --hybrid-no-llm).")
@settings_options(HybridSettings, LLMSettings, Bm25Settings, IndexSettings, CacheSettings)
def command(
    query: str | None,
    data_dir: Path,
    top_k: int,
    filters: tuple[str, ...],
    as_json: bool,
    quiet: bool,
    no_llm: bool,
) -> None:
    """Search with the hybrid predictor (vectors with tree neighbors, BM25 over nodes, RRF, LLM reranking).

    Without QUERY, the command prompts for queries and keeps the index loaded between queries.
    """
    settings = dict(given_flags())
    if no_llm:
        settings["hybrid.no_llm"] = True
    with open_workspace(data_dir, settings, quiet=quiet) as workspace:
        workspace.check_llm("hybrid")
        answer_queries(
            query,
            "hybrid",
            lambda text: workspace.retrieve(text, "hybrid", top_k, filters=filters),
            as_json=as_json,
        )
