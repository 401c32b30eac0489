"""``branchrank list`` and ``show``: list the runs in a folder, and print a run's table of results."""

from __future__ import annotations

from pathlib import Path

import click

from branchrank.cli.options import DEFAULT_REPORTS, DEMO_FOLDER
from branchrank.cli.terminal import Command, safe, say

RUN = click.Path(path_type=Path, file_okay=False)
WHERE = click.option(
    "--where",
    metavar="SLICE=VALUE",
    multiple=True,
    help="Use only questions whose SLICE has this VALUE. SLICE is gold, kind, difficulty, overlap, content, "
    "size or depth. Repeatable.",
)


@click.command("list", cls=Command)
@click.option(
    "--reports",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder that contains the runs. Default: the folders reports and branchrank-demo/reports.",
)
def list_runs(reports: Path | None) -> None:
    """List the runs, oldest first, with their directory, status, questions and predictors."""
    from branchrank import library

    folders = (DEFAULT_REPORTS, DEMO_FOLDER / DEFAULT_REPORTS) if reports is None else (reports,)
    runs = [run for folder in folders for run in library.list_runs(folder)]
    if not runs:
        say(f"there are no runs in {folders[0]}; use --reports to give the folder that contains the runs")
    for run in runs:
        click.echo(str(run))


@click.command("show", cls=Command)
@click.argument("run", type=RUN)
@WHERE
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Also write report.md and report.html to this folder.",
)
def show_run(run: Path, where: tuple[str, ...], output: Path | None) -> None:
    """Print the results table of RUN.

    With --where, the table and the report in --output are computed only from the questions that match.
    """
    from branchrank.run import Run

    shown = Run.load(run).where(*where)
    shown.print()
    if output is not None:
        for path in shown.report(into=output):
            click.echo(f"written: {safe(str(path))}")
