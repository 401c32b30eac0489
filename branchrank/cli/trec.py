"""``branchrank export-trec``, ``score-trec`` and ``compare-trec``: TREC runs and qrels, out and in."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

import branchrank
from branchrank.cli.latex import latex_option, write_latex
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
    from branchrank.run import Run

    for path in Run.load(run).export_trec(output, ids):
        click.echo(safe(str(path)))


FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("score-trec", cls=Command)
@click.argument("runs", nargs=-1, required=True, type=FILE)
@click.argument("qrels", type=FILE)
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


@click.command("compare-trec", cls=Command)
@click.argument("qrels", type=FILE)
@click.argument("runs", nargs=-1, required=True, type=FILE)
@click.option(
    "--measure",
    "-m",
    "names",
    multiple=True,
    default=branchrank.library.COMPARED_MEASURES,
    show_default=True,
    help="A measure as ir-measures names it. Repeatable.",
)
@click.option("--baseline", default="", help="The run that the others are compared with. Default: the first.")
@click.option("--all-pairs", is_flag=True, help="Compare every pair of runs.")
@click.option(
    "--missing-is-zero",
    is_flag=True,
    help="Score 0 for a judged query that a run lacks, instead of an error.",
)
@click.option(
    "--delta",
    type=click.FloatRange(0, 1, min_open=True),
    default=branchrank.library.DELTA,
    show_default=True,
    help="Largest difference that counts as none.",
)
@click.option(
    "--alpha",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=branchrank.library.ALPHA,
    show_default=True,
    help="Family-wise error rate of the comparisons of one measure.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=42, show_default=True, help="Seed of the tests' draws."
)
@latex_option
def compare_trec(
    qrels: Path,
    runs: tuple[Path, ...],
    names: tuple[str, ...],
    baseline: str,
    all_pairs: bool,
    missing_is_zero: bool,
    delta: float,
    alpha: float,
    seed: int,
    latex: Path | None,
) -> None:
    """Compare RUNS, TREC run files from anywhere, on the queries that QRELS judges.

    Each run is tested against the baseline, paired over the queries, corrected by Holm over the comparisons
    of each measure. Ties in a run are settled as trec_eval does: by document id, descending.
    """
    table = branchrank.library.compare_trec(
        qrels,
        runs,
        names,
        baseline=baseline,
        all_pairs=all_pairs,
        missing_is_zero=missing_is_zero,
        delta=delta,
        alpha=alpha,
        seed=seed,
    )
    click.echo(str(table))
    write_latex(latex, table)
