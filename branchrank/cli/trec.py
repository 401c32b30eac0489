"""``branchrank export-trec`` and ``score-trec``: TREC runs and qrels, out and in."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

import branchrank
from branchrank.cli.runs import RUN
from branchrank.cli.terminal import Command, safe


@click.command("export-trec", cls=Command)
@click.argument("run", type=RUN)
@click.option(
    "--output", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder for the files."
)
@click.option(
    "--ids",
    type=click.Choice(["gold", "document"]),
    default="gold",
    show_default=True,
    help="What a document id is: the gold that a hit was credited with, or the hit's file.",
)
def export_trec(run: Path, output: Path, ids: Literal["gold", "document"]) -> None:
    """Write the finished RUN as TREC files: qrels.txt, and a run file for each predictor."""
    from branchrank.workspace import Run

    for path in Run.load(run).export_trec(output, ids):
        click.echo(safe(str(path)))


@click.command("score-trec", cls=Command)
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False))
@click.argument("qrels", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--measure",
    "-m",
    "names",
    multiple=True,
    default=branchrank.library.TREC_MEASURES,
    show_default=True,
    help="A measure as ir-measures names it. Repeatable.",
)
@click.option("--by-query", is_flag=True, help="Print each query's values, too.")
def score_trec(runs: tuple[Path, ...], qrels: Path, names: tuple[str, ...], by_query: bool) -> None:
    """Score RUNS, TREC run files from anywhere, with QRELS, averaged over all judged queries."""
    for scored in branchrank.library.score_trec(runs, qrels, names):
        path = safe(str(scored.path))
        judged = len(next(iter(scored.by_query.values())))
        if scored.unmatched:
            click.echo(
                f"note: {path} has no document judged in {safe(str(qrels))} for {len(scored.unmatched)} of "
                f"{judged} queries (the first: {safe(scored.unmatched[0])}); if that is unexpected, compare "
                "how both spell ids",
                err=True,
            )
        for measure, mean in scored.means.items():
            if by_query:
                for query, value in scored.by_query[measure].items():
                    click.echo(f"{path}\t{safe(query)}\t{measure}\t{value:.4f}")
            click.echo(f"{path}\tall\t{measure}\t{mean:.4f}")
