"""``branchrank list``, ``show`` and ``resume``: runs that are there."""

from __future__ import annotations

from pathlib import Path

import click

from branchrank.cli.terminal import Command, safe, say
from branchrank.errors import RunError, UsageError

REPORTS = click.option(
    "--reports",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("reports"),
    show_default=True,
    help="Where the runs are.",
)


WHERE = click.option(
    "--where",
    metavar="SLICE=VALUE",
    multiple=True,
    help="Only questions of this slice: kind, difficulty, overlap, content, size or depth.",
)


@click.command("list", cls=Command)
@REPORTS
def list_runs(reports: Path) -> None:
    """List the runs, oldest first: directory, status, questions, predictors."""
    from branchrank.runs.directory import RUN_JSON, read_run

    directories = [path.parent for path in sorted(reports.glob(f"*/{RUN_JSON}"))]
    if not directories:
        say(f"there are no runs in {reports}; --reports names the folder that holds them")
    for directory in directories:
        shown = safe(str(directory))
        try:
            run = read_run(directory)
        except RunError as error:
            click.echo(f"{shown}  unreadable: {safe(error.message)}")
            continue
        predictors = ", ".join(predictor.name for predictor in run.predictors)
        click.echo(f"{shown}  {run.status}  {len(run.question_ids)} questions  {safe(predictors)}")


@click.command("show", cls=Command)
@click.argument("run", type=click.Path(path_type=Path, file_okay=False))
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
    from branchrank.report.terminal import print_summary
    from branchrank.runs.cutting import cut_run
    from branchrank.runs.loading import load_run

    loaded = cut_run(load_run(run), where)
    print_summary(loaded)
    if output is not None:
        from branchrank.report.writing import write_report
        from branchrank.runs.directory import RUN_JSON

        if (output / RUN_JSON).exists():
            raise UsageError(
                f"--output {output} is a run, whose report would be replaced", remedy="name another directory"
            )
        for path in write_report(loaded, into=output):
            click.echo(f"written: {path}")
