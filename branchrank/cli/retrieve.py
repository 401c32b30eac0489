"""``branchrank retrieve`` and ``retrieve.py``: search with the local predictor."""

from __future__ import annotations

from pathlib import Path

import click

from branchrank.cli.options import opened_index, resolved_settings, settings_options
from branchrank.cli.querying import answer_queries, query_options
from branchrank.cli.terminal import Command
from branchrank.settings import Bm25Settings, CacheSettings, IndexSettings, LocalSettings


@click.command("retrieve", cls=Command)
@query_options
@settings_options(LocalSettings, Bm25Settings, IndexSettings, CacheSettings)
def command(query: str | None, data_dir: Path, top_k: int, returns: str, as_json: bool, quiet: bool) -> None:
    """Search with the local predictor: vectors and BM25 over chunks, fused by RRF.

    Without QUERY a prompt opens that keeps everything warm.
    """
    from branchrank.systems.builtin import local
    from branchrank.systems.engine import Engine

    settings = resolved_settings(data_dir, {"benchmark.returns": returns})
    index = opened_index(data_dir, settings, quiet=quiet)
    system = local(settings)
    engine = Engine(index)
    answer_queries(query, system.name, lambda text: engine.retrieve(system, text, top_k), as_json=as_json)
