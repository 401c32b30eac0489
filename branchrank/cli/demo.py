"""``branchrank demo``: index the bundled sample and benchmark three systems on it."""

from __future__ import annotations

import shlex
import webbrowser
from pathlib import Path

import click

from branchrank.cli.options import DEMO_FOLDER
from branchrank.cli.terminal import Command, safe, say, shown_path


@click.command("demo", cls=Command, resumes=True)
@click.argument("folder", default=DEMO_FOLDER, type=click.Path(path_type=Path, file_okay=False))
@click.option("--open", "open_report", is_flag=True, help="Open the report in the browser.")
@click.option("--fresh", is_flag=True, help="Run the benchmark again even if a finished run exists.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
def command(folder: Path, open_report: bool, fresh: bool, quiet: bool) -> None:
    """Compare three systems on the bundled sample, and write all files to FOLDER (default: branchrank-demo).

    The sample has 31 documents and 161 questions. The command copies the sample into FOLDER, indexes the
    documents, and runs the predictors local, pageindex and hybrid. The demo needs neither an LLM nor the
    network. If the command is interrupted, run it again to resume. Existing files in FOLDER are not
    overwritten.
    """
    from branchrank import library

    run = library.demo(folder, fresh=fresh, notify=say, progress=not quiet)
    run.print()
    report = run.directory / "report.html"
    click.echo(f"report: {shown_path(report)}")
    place = shlex.quote(str(folder))
    click.echo("\nnext:")
    click.echo(safe(f'  branchrank retrieve --data-dir {place} "how do I compare two runs"'))
    click.echo("  branchrank init PATH/TO/YOUR/DOCS")
    if open_report and not webbrowser.open(report.as_uri()):
        say(f"no browser could be opened; the report is {shown_path(report)}")
