"""``branchrank resume``: go on with an interrupted run."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from branchrank.cli.terminal import Command
from branchrank.errors import RunError


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
