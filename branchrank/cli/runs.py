"""``branchrank list`` and ``show``: the runs in a folder, and the table of one."""

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
    help="Only questions of this slice: gold, kind, difficulty, overlap, content, size or depth.",
)


@click.command("list", cls=Command)
@click.option(
    "--reports",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the runs are. Default: reports, and that of the demo in branchrank-demo.",
)
def list_runs(reports: Path | None) -> None:
    """List the runs, oldest first: directory, status, questions, predictors."""
    from branchrank import library

    folders = (DEFAULT_REPORTS, DEMO_FOLDER / DEFAULT_REPORTS) if reports is None else (reports,)
    runs = [run for folder in folders for run in library.list_runs(folder)]
    if not runs:
        say(f"there are no runs in {folders[0]}; --reports names the folder that holds them")
    for run in runs:
        click.echo(str(run))


@click.command("show", cls=Command)
@click.argument("run", type=RUN)
@WHERE
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Also write report.md and report.html into this directory.",
)
def show_run(run: Path, where: tuple[str, ...], output: Path | None) -> None:
    """Print a run's table again, from its rows.

    With --where, everything is computed from the questions of a slice alone, the report under --output too.
    """
    from branchrank.run import Run

    shown = Run.load(run).where(*where)
    shown.print()
    if output is not None:
        for path in shown.report(into=output):
            click.echo(f"written: {safe(str(path))}")
