"""``branchrank explain``: show the candidates of one question after every stage."""

from __future__ import annotations

from pathlib import Path

import click

from branchrank.cli.runs import RUN
from branchrank.cli.terminal import Command


@click.command("explain", cls=Command)
@click.argument("run", type=RUN)
@click.argument("question_id", metavar="QUESTION")
@click.option("--predictor", "predictors", multiple=True, help="Show only this predictor. Repeatable.")
@click.option(
    "--top",
    type=click.IntRange(0, 100),
    default=3,
    show_default=True,
    help="Number of candidates to show per stage.",
)
def explain(run: Path, question_id: str, predictors: tuple[str, ...], top: int) -> None:
    """Show the gold's rank after every stage, the stage that dropped the gold, and the first candidates."""
    from branchrank.run import Run

    click.echo(str(Run.load(run).explain(question_id, predictors, top=top)))
