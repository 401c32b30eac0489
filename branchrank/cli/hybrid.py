"""``branchrank hybrid`` and ``hybrid_retrieve.py``: search with the hybrid predictor."""

from __future__ import annotations

from pathlib import Path

import click

from branchrank.cli.options import opened_index, resolved_settings, settings_options
from branchrank.cli.querying import answer_queries, query_options
from branchrank.cli.terminal import Command, say
from branchrank.settings import Bm25Settings, CacheSettings, HybridSettings, IndexSettings, LLMSettings


@click.command("hybrid", cls=Command)
@query_options
@click.option("--no-llm", is_flag=True, help="No LLM rerank; the same as --hybrid-no-llm.")
@settings_options(HybridSettings, LLMSettings, Bm25Settings, IndexSettings, CacheSettings)
def command(
    query: str | None,
    data_dir: Path,
    top_k: int,
    returns: str,
    as_json: bool,
    quiet: bool,
    no_llm: bool,
) -> None:
    """Search with the hybrid predictor: vector shortlist, tree neighbours, BM25 over nodes, RRF, LLM rerank.

    Without QUERY a prompt opens that keeps everything warm.
    """
    from branchrank.systems.builtin import hybrid
    from branchrank.systems.engine import Engine
    from branchrank.systems.llm_opening import open_llm

    overrides = {"benchmark.returns": returns} | ({"hybrid.no_llm": True} if no_llm else {})
    settings = resolved_settings(data_dir, overrides)
    system = hybrid(settings)
    with open_llm(data_dir, settings, [system], notify=say) as stages:
        index = opened_index(data_dir, settings, quiet=quiet)
        engine = Engine(index, llm_stages=stages)
        answer_queries(query, system.name, lambda text: engine.retrieve(system, text, top_k), as_json=as_json)
