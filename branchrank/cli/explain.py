"""``branchrank explain``: one question of a run, stage by stage."""

from __future__ import annotations

from pathlib import Path

import click

from branchrank.cli.runs import RUN
from branchrank.cli.terminal import Command


@click.command("explain", cls=Command)
@click.argument("run", type=RUN)
@click.argument("question_id", metavar="QUESTION")
@click.option("--predictor", "predictors", multiple=True, help="Only this predictor. Repeatable.")
@click.option(
    "--top", type=click.IntRange(0, 100), default=3, show_default=True, help="Entries shown per stage."
)
def explain(run: Path, question_id: str, predictors: tuple[str, ...], top: int) -> None:
    """Show the gold's rank through every stage, the stage that lost it, and each stage's first entries."""
    from branchrank.run import Run

    click.echo(str(Run.load(run).explain(question_id, predictors, top=top)))
