"""``branchrank export-trec`` and ``score-trec``: TREC runs and qrels, out and in."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import click

from branchrank.cli.terminal import Command, safe

MEASURES = ("Success@1", "Success@5", "RR", "nDCG@10", "R@100", "AP")


@click.command("export-trec", cls=Command)
@click.argument("run", type=click.Path(path_type=Path, file_okay=False))
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
def export_trec(run: Path, output: Path, ids: str) -> None:
    """Write the finished RUN as TREC files: qrels.txt, and a run file for each predictor."""
    from branchrank.runs import trec_files
    from branchrank.runs.loading import load_run

    loaded = load_run(run)
    chosen = cast(trec_files.DocumentIds, ids)
    for path in trec_files.export_trec(output, loaded.outcome.rows, loaded.questions, chosen):
        click.echo(safe(str(path)))


@click.command("score-trec", cls=Command)
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False))
@click.argument("qrels", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--measure",
    "-m",
    "names",
    multiple=True,
    default=MEASURES,
    show_default=True,
    help="A measure as ir-measures names it. Repeatable.",
)
@click.option("--by-query", is_flag=True, help="Print each query's values, too.")
def score_trec(runs: tuple[Path, ...], qrels: Path, names: tuple[str, ...], by_query: bool) -> None:
    """Score RUNS, TREC run files from anywhere, with QRELS, averaged over all judged queries."""
    from branchrank.measures.measures import mean, parse_measure
    from branchrank.questions.qrels import read_qrels
    from branchrank.runs.trec_files import read_run, score_run, unmatched

    measures = [parse_measure(name) for name in names]
    judged = read_qrels(qrels)
    for path in runs:
        run = read_run(path)
        if missed := unmatched(run, judged):
            click.echo(
                f"note: {path} has no document judged in {qrels} for {len(missed)} of {len(judged)} queries "
                f"(the first: {safe(missed[0])}); if that is unexpected, compare how both spell ids",
                err=True,
            )
        for measure, scores in zip(measures, score_run(run, judged, measures), strict=True):
            if by_query:
                for query, value in scores.items():
                    click.echo(f"{path}\t{safe(query)}\t{measure}\t{value:.4f}")
            click.echo(f"{path}\tall\t{measure}\t{mean(scores):.4f}")
