"""``branchrank verify`` and ``report``: check the files of a run, or regenerate its report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from branchrank.cli.latex import latex_option, write_latex
from branchrank.cli.naming import access_options
from branchrank.cli.runs import RUN
from branchrank.cli.terminal import Command, import_from_here, safe, say, shown_path


@click.command("verify", cls=Command)
@click.argument("run", type=RUN)
@click.option(
    "--rerun",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Answer a random sample of N questions again, and compare the hits with the run's hits. The sample "
    "is drawn with the run's seed.",
)
@click.option(
    "--corpus",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder of the corpus, if it has moved since the run.",
)
@click.option(
    "--seal",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Check that the run's plan is equal to the sealed plan in this file.",
)
@click.option(
    "--llm-replay",
    "replay",
    default="",
    metavar="FILE",
    help="The run's LLM cassette, from which the LLM calls of a rerun are answered.",
)
@access_options
@click.pass_context
def verify(
    ctx: click.Context, /, run: Path, rerun: int, corpus: Path | None, seal: Path | None, **access: Any
) -> None:
    """Recompute every number in the reports of RUN, and check that the files of RUN agree with each other.

    The command prints each problem, and exits with code 1 if there are any problems.

    With --rerun N, the run's systems answer N questions again. The rerun needs the index that the run used.
    Systems with an LLM are run again only with the run's cassette (--llm-replay), and classes and endpoints
    only with --trust.

    The digests of a run detect damage and accidental edits, but not changes by someone who also rewrites the
    digests.
    """
    from branchrank import library

    if access["trust"]:
        import_from_here()
    verified = library.verify(
        run, rerun=rerun, corpus=corpus, seal=seal, access=library.RunAccess(**access), notify=say
    )
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
@click.option("--no-text", is_flag=True, help="Omit the text of the documents from report.html.")
@click.option(
    "--corpus",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder of the corpus, if it has moved since the run.",
)
@latex_option
def report(run: Path, no_text: bool, corpus: Path | None, latex: Path | None) -> None:
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
