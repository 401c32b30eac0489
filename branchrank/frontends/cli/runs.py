"""Read finished runs: the commands ``list``, ``show``, ``explain``, ``verify`` and ``report``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from branchrank.frontends.cli.options import (
    ACCESS,
    FILE,
    FOLDER,
    LATEX,
    OPEN,
    RUN,
    VERBOSE,
    WHERE,
    flag,
    switch,
    write_latex,
)
from branchrank.frontends.cli.terminal import Command, browse, import_from_here, safe, say, shown_path
from branchrank.runs.directory import REPORT_HTML, RUN_FOLDERS


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
@click.argument("run", type=RUN)
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
