"""``branchrank power``: what a benchmark can detect, before it is run."""

from __future__ import annotations

import click

import branchrank
from branchrank.cli.terminal import Command

SHARE = click.FloatRange(0, 1)


@click.command("power", cls=Command)
@click.option(
    "--questions",
    type=click.IntRange(1, 1_000_000),
    multiple=True,
    default=branchrank.library.POWER_QUESTIONS,
    show_default=True,
    help="Number of questions. Repeatable.",
)
@click.option("--rate", type=SHARE, default=0.7, show_default=True, help="Hit rate that you expect.")
@click.option(
    "--disagreement",
    type=SHARE,
    default=0.2,
    show_default=True,
    help="Share of the questions that the two predictors answer differently.",
)
@click.option(
    "--difference", type=SHARE, help="Difference in hit rate that you want to see; adds two columns."
)
@click.option(
    "--candidates",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Predictors compared with the baseline.",
)
@click.option(
    "--alpha",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    help="Family-wise error rate.",
)
def power(
    questions: tuple[int, ...],
    rate: float,
    disagreement: float,
    difference: float | None,
    candidates: int,
    alpha: float,
) -> None:
    """Power analysis: which differences in hit rate so many questions can detect, before any query is run.

    For exact McNemar at 80% power, one question per source; Holm's correction for the candidates.
    """
    analysis = branchrank.library.power(
        questions,
        rate=rate,
        disagreement=disagreement,
        difference=difference,
        candidates=candidates,
        alpha=alpha,
    )
    click.echo(str(analysis))
