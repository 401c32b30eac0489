"""Read finished runs, and exchange them with other programs as TREC files.

The commands are ``list``, ``show``, ``explain``, ``verify``, ``report``, ``export-trec``, ``score-trec`` and
``compare-trec``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import click

import branchrank
from branchrank.core.records import SEED
from branchrank.frontends.cli.options import (
    ACCESS,
    FILE,
    FOLDER,
    LATEX,
    OPEN,
    OPEN_SHARE,
    POSITIVE_SHARE,
    RUN,
    VERBOSE,
    WHERE,
    RunFolder,
    flag,
    switch,
    write_latex,
)
from branchrank.frontends.cli.terminal import Command, browse, import_from_here, safe, say, shown_path
from branchrank.runs.directory import REPORT_HTML, RUN_FOLDERS
from branchrank.scoring.comparison import DELTA
from branchrank.scoring.measures import BEIR_MEASURES, TREC_MEASURES
from branchrank.scoring.power import ALPHA


@click.command("list", cls=Command)
@flag(
    "--reports",
    "The folder that contains the runs. Default: the folders reports and branchrank-demo/reports.",
    kind=FOLDER,
)
def list_runs(reports: Path | None) -> None:
    """List the runs, oldest first, with their directory, status, questions and predictors."""
    from branchrank import library

    folders = RUN_FOLDERS if reports is None else (reports,)
    runs = library.list_runs(*folders)
    if not runs:
        say(f"there are no runs in {folders[0]}; use --reports to give the folder that contains the runs")
    for run in runs:
        click.echo(str(run))


@click.command("show", cls=Command)
@click.argument("run", type=RUN)
@WHERE
@flag("--output", "Also write report.md and report.html to this folder.", kind=FOLDER)
@VERBOSE
def show_run(run: Path, where: tuple[str, ...], output: Path | None, verbose: bool) -> None:
    """Print the verdict, the results table and the next steps of RUN.

    With --where, the table and the report in --output are computed only from the questions that match.
    """
    from branchrank.run import Run

    shown = Run.load(run).where(*where)
    shown.print(verbose=verbose)
    if not where:
        click.echo(f"report: {shown_path(shown.directory / REPORT_HTML)}")
    if output is not None:
        for path in shown.report(into=output):
            click.echo(f"written: {safe(str(path))}")


@click.command("explain", cls=Command)
@click.argument("run", type=RUN)
@click.argument("question_id", metavar="QUESTION")
@flag("--predictor predictors", "Show only this predictor. Repeatable.", multiple=True)
@flag("--top", "Number of candidates to show per stage.", 3, click.IntRange(0, 100))
def explain(run: Path, question_id: str, predictors: tuple[str, ...], top: int) -> None:
    """Show the gold's rank after every stage, the stage that dropped the gold, and the first candidates."""
    from branchrank.run import Run

    click.echo(str(Run.load(run).explain(question_id, predictors, top=top)))


@click.command("verify", cls=Command)
@click.argument("run", type=RunFolder(verified=False))
@flag(
    "--rerun",
    "Answer a random sample of N questions again, and compare the hits with the run's hits.",
    0,
    click.IntRange(min=0),
    show_default=False,
    metavar="N",
)
@flag(
    "--seed",
    "Repeat the draw of an earlier --rerun, which printed this seed. Default: a different draw each time.",
    None,
    click.IntRange(min=0),
    metavar="N",
)
@flag("--corpus", "The folder of the corpus, if it has moved since the run.", kind=FOLDER)
@flag("--seal", "Check that the run's plan is equal to the sealed plan in this file.", kind=FILE)
@flag(
    "--llm-replay replay",
    "The run's LLM cassette, from which the LLM calls of a rerun are answered.",
    "",
    metavar="FILE",
)
@ACCESS
@click.pass_context
def verify(ctx: click.Context, /, run: Path, **asked: Any) -> None:
    """Recompute every number in the reports of RUN, and check that the files of RUN agree with each other.

    The command prints each problem, and exits with code 1 if there are any problems.

    With --rerun N, the run's systems answer N questions again. Half of them are drawn from the questions on
    which the leading system and its closest rival differ. The rerun needs the index that the run used.
    Systems with an LLM are run again only with the run's cassette (--llm-replay), and classes and endpoints
    only with --trust.

    The digests of a run detect damage and accidental edits, but not changes by someone who also rewrites the
    digests.
    """
    from branchrank import library

    names = ("data_dir", "questions", "trust", "replay", "pass_env")
    access = library.RunAccess(**{name: asked.pop(name) for name in names})
    if access.trust:
        import_from_here()
    verified = library.verify(run, access=access, notify=say, **asked)
    for note in verified.notes:
        click.echo(safe(note), err=True)
    for finding in verified.findings:
        click.echo(safe(str(finding)))
    if verified.rerun is not None:
        click.echo("\n".join(map(safe, str(verified.rerun).split("\n"))))
    if verified.findings:
        ctx.exit(1)
    click.echo(f"{safe(str(run))}: all numbers agree with the rows, timings and questions")


@click.command("report", cls=Command)
@click.argument("run", type=RUN)
@switch("--no-text", "Omit the text of the documents from report.html.")
@flag("--corpus", "The folder of the corpus, if it has moved since the run.", kind=FOLDER)
@LATEX
@OPEN
def report(run: Path, no_text: bool, corpus: Path | None, latex: Path | None, open_report: bool) -> None:
    """Regenerate report.md and report.html of RUN.

    The table that --latex writes shows the run's additional measures (--measure). If the run has no
    additional measures, the table shows the measures of the report.
    """
    from branchrank.library import run_table
    from branchrank.run import Run

    loaded = Run.load(run)
    for path in loaded.report(with_text=not no_text, corpus=corpus, notice=say):
        click.echo(shown_path(path))
    if latex is not None:
        write_latex(latex, run_table(loaded))
    if open_report:
        browse(loaded.directory / REPORT_HTML)


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

    Measures of these files differ from the report, because they have grades for pages, or rank documents.
    """
    from branchrank.run import Run

    loaded = Run.load(run)
    for path in loaded.export_trec(output, ids):
        click.echo(safe(str(path)))
    if loaded.primary.mode != "graded":
        why = "they rank documents instead of passages"
        if ids == "gold":
            why = (
                "pages have grade 1; the report's strict hit@1 is Success(rel=2)@1, and its strict nDCG@5 is "
                "nDCG(gains={1: 0})@5 in ir-measures"
            )
        say(f"note: measures of these files differ from the report: {why}")


@click.command("score-trec", cls=Command)
@click.argument("qrels", type=FILE)
@click.argument("runs", nargs=-1, required=True, type=FILE)
@flag("--measure -m names", "Measure, by its name in ir-measures. Repeatable.", TREC_MEASURES, multiple=True)
@switch("--by-query", "Also print the value of each measure for each query.")
def score_trec(qrels: Path, runs: tuple[Path, ...], names: tuple[str, ...], by_query: bool) -> None:
    """Score RUNS (TREC run files from any program) with QRELS, and print means over the judged queries."""
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
