"""``branchrank verify`` and ``report``: check a run's files, or write its report again."""

from __future__ import annotations

from pathlib import Path

import click

from branchrank.cli.runs import RUN
from branchrank.cli.terminal import Command, safe, say


@click.command("verify", cls=Command)
@click.argument("run", type=RUN)
@click.pass_context
def verify(ctx: click.Context, run: Path) -> None:
    """Compute every printed number of RUN again; name each that differs, and exit with 1 if any does.

    Digests find damage and careless edits, not someone who rewrites the digests too.
    """
    from branchrank import library

    verified = library.verify(run)
    for note in verified.notes:
        click.echo(safe(note), err=True)
    for finding in verified.findings:
        click.echo(safe(str(finding)))
    if verified.findings:
        ctx.exit(1)
    click.echo(f"{safe(str(run))}: every number follows from rows, timings and questions")


@click.command("report", cls=Command)
@click.argument("run", type=RUN)
@click.option("--no-text", is_flag=True, help="Leave the documents' text out of report.html.")
@click.option(
    "--corpus",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the corpus is now. Default: where it was when the run was made.",
)
def report(run: Path, no_text: bool, corpus: Path | None) -> None:
    """Write report.md and report.html of RUN again."""
    from branchrank.workspace import Run

    for path in Run.load(run).report(with_text=not no_text, corpus=corpus, notice=say):
        click.echo(safe(str(path)))
