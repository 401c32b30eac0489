"""``branchrank list``, ``show`` and ``resume``: runs that are there."""

from __future__ import annotations

import shlex
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


@click.command("resume", cls=Command)
@click.argument("run", type=click.Path(path_type=Path, file_okay=False))
@click.pass_context
def resume_run(ctx: click.Context, run: Path) -> None:
    """Take up an interrupted RUN: repeats its command, which keeps every finished row.

    Refused when the corpus, the questions, the index or a setting that can change a row has changed since.
    """
    from branchrank.cli.main import main
    from branchrank.runs.directory import check_resumable, read_run

    record = read_run(run)
    check_resumable(run, record.plan)
    if record.command_scrubbed:
        raise RunError(
            f"the command of {run} held a credential, which is not kept",
            remedy="give the command itself again: it takes the run up",
        )
    words = shlex.split(record.command)
    verb = {"benchmark_run.py": ["benchmark"]}.get(words[0], [])
    given = [word for word in words[1:] if word != "--fresh"]
    arguments = [*verb, *given, "--reports", str(run.resolve().parent), "--take-up", str(run.resolve())]
    click.echo(f"branchrank {shlex.join(arguments)}", err=True)
    ctx.exit(main.main(args=arguments, standalone_mode=False) or 0)
