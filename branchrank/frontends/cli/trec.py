"""``branchrank export-trec``, ``score-trec`` and ``compare-trec``: write and read TREC runs and qrels."""

from __future__ import annotations

import contextlib
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import click

import branchrank
from branchrank.core.errors import InputError
from branchrank.core.io.text_files import text_lines
from branchrank.core.records import SEED
from branchrank.frontends.cli.options import (
    FILE,
    FOLDER,
    LATEX,
    OPEN_SHARE,
    POSITIVE_SHARE,
    RUN,
    flag,
    switch,
    write_latex,
)
from branchrank.frontends.cli.terminal import Command, safe, say
from branchrank.runs.exchange import TREC_MEASURES
from branchrank.scoring.comparison import DELTA
from branchrank.scoring.measures import BEIR_MEASURES
from branchrank.scoring.power import ALPHA


@click.command("export-trec", cls=Command)
@click.argument("run", type=RUN)
@flag("--output", "The folder to write the files to.", kind=FOLDER, required=True)
@flag(
    "--ids",
    "The document id to write for a hit: the id of the gold that the hit matches (`gold`), or the path "
    "of the hit's file (`document`).",
    "gold",
    click.Choice(["gold", "document"]),
)
def export_trec(run: Path, output: Path, ids: Literal["gold", "document"]) -> None:
    """Export the finished run RUN as TREC files (qrels.txt, and one run file per predictor).

    The nDCG of these files differs from the report, because they have grades for pages, or rank documents.
    """
    from branchrank.run import Run

    loaded = Run.load(run)
    for path in loaded.export_trec(output, ids):
        click.echo(safe(str(path)))
    if loaded.primary.mode != "graded":
        why = "they rank documents instead of passages"
        if ids == "gold":
            why = "pages have grade 1; in ir-measures, nDCG(gains={1: 0})@5 is the report's strict nDCG@5"
        say(f"note: nDCG of these files differs from the report: {why}")


@click.command("score-trec", cls=Command)
@click.argument("qrels", type=FILE)
@click.argument("runs", nargs=-1, required=True, type=FILE)
@flag("--measure -m names", "Measure, by its name in ir-measures. Repeatable.", TREC_MEASURES, multiple=True)
@switch("--by-query", "Also print the value of each measure for each query.")
def score_trec(qrels: Path, runs: tuple[Path, ...], names: tuple[str, ...], by_query: bool) -> None:
    """Score RUNS (TREC run files from any program) with QRELS, and print means over the judged queries."""
    if _is_run(qrels) and not _is_run(runs[-1]):
        qrels, runs = runs[-1], (qrels, *runs[:-1])
        say(f"the qrels come first: branchrank score-trec {qrels} {' '.join(map(str, runs))}")
    for scored in branchrank.library.score_trec(runs, qrels, names):
        path = safe(str(scored.path))
        judged = len(next(iter(scored.by_query.values())))
        if scored.unmatched:
            click.echo(
                f"note: for {len(scored.unmatched)} of {judged} queries (the first: "
                f"{safe(scored.unmatched[0])}), {path} has no document that is judged in {safe(str(qrels))}; "
                "if this is unexpected, check that both files use the same document ids",
                err=True,
            )
        for measure, mean in scored.means.items():
            if by_query:
                for query, value in scored.by_query[measure].items():
                    click.echo(f"{path}\t{safe(query)}\t{measure}\t{value:.4f}")
            click.echo(f"{path}\tall\t{measure}\t{mean:.4f}")


def _is_run(path: Path) -> bool:
    """Return whether the first line of a file has the columns of a TREC run. A pipe can only be read once."""
    with contextlib.suppress(OSError, InputError):
        return path.is_file() and any(len(line.split()) == 6 for _, line in islice(text_lines(path), 1))
    return False


@click.command("compare-trec", cls=Command)
@click.argument("qrels", type=FILE)
@click.argument("runs", nargs=-1, required=True, type=FILE)
@flag("--measure -m names", "Measure, by its name in ir-measures. Repeatable.", BEIR_MEASURES, multiple=True)
@flag("--baseline", "Run to compare all other runs with. Default: the first of RUNS.")
@switch("--all-pairs", "Compare every pair of runs.")
@switch(
    "--missing-is-zero",
    "Score judged queries that are missing from a run as 0, instead of reporting an error.",
)
@flag("--delta", "Largest difference that counts as equivalent.", DELTA, POSITIVE_SHARE)
@flag("--alpha", "Family-wise error rate for all comparisons of the same measure.", ALPHA, OPEN_SHARE)
@flag("--seed", "Random seed for the tests.", SEED, click.IntRange(min=0))
@LATEX
def compare_trec(
    qrels: Path, runs: tuple[Path, ...], names: tuple[str, ...], latex: Path | None, **options: Any
) -> None:
    """Compare RUNS (TREC run files from any program) on the queries that are judged in QRELS.

    Each run is compared with the baseline by a paired test over the queries. For each measure, Holm's
    correction is applied to the p-values of all comparisons. Documents with equal scores in a run are sorted
    by descending document id, as in trec_eval.
    """
    chosen = branchrank.library.CompareOptions(measures=names, **options)
    table = branchrank.library.compare_trec(qrels, runs, chosen)
    click.echo(str(table))
    write_latex(latex, table)
