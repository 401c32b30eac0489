"""``branchrank verify`` and ``report``: check a run's files, or write its report again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from branchrank.cli.latex import latex_option, write_latex
from branchrank.cli.naming import given_names, naming_options
from branchrank.cli.runs import RUN
from branchrank.cli.terminal import Command, safe, say, shown_path


@click.command("verify", cls=Command)
@click.argument("run", type=RUN)
@click.option(
    "--rerun",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Ask N questions again, drawn by the run's seed, and compare.",
)
@click.option(
    "--corpus",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the corpus is now. Default: where it was when the run was made.",
)
@click.option(
    "--seal",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A copy of the file that sealed the run's plan.",
)
@naming_options
@click.pass_context
def verify(
    ctx: click.Context, /, run: Path, rerun: int, corpus: Path | None, seal: Path | None, **named: Any
) -> None:
    """Compute every printed number of RUN again, and look for contradictions within RUN; print each finding,
    and exit with 1 if there is any.

    --rerun retrieves again over the workspace's index, which must be the run's. Classes, endpoints, models
    and the cassette of an LLM (--llm-replay) must be named here; systems that need others are not asked
    again.

    Digests find damage and careless edits, not someone who rewrites the digests too.
    """
    from branchrank import library

    verified = library.verify(
        run, rerun=rerun, corpus=corpus, seal=seal, named=given_names(**named), notify=say
    )
    for note in verified.notes:
        click.echo(safe(note), err=True)
    for finding in verified.findings:
        click.echo(safe(str(finding)))
    if verified.rerun is not None:
        click.echo("\n".join(map(safe, str(verified.rerun).split("\n"))))
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
@latex_option
def report(run: Path, no_text: bool, corpus: Path | None, latex: Path | None) -> None:
    """Write report.md and report.html of RUN again.

    The table of --latex has the measures that the run was asked for by name, else those of the report.
    """
    from branchrank.library import run_table
    from branchrank.run import Run

    loaded = Run.load(run)
    for path in loaded.report(with_text=not no_text, corpus=corpus, notice=say):
        click.echo(shown_path(path))
    if latex is not None:
        write_latex(latex, run_table(loaded))
