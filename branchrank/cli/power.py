"""``branchrank power``: what a benchmark can detect, before it is run."""

from __future__ import annotations

from pathlib import Path

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
@click.option("--rate", type=SHARE, help="Hit rate that you expect.  [default: 0.7]")
@click.option(
    "--disagreement",
    type=SHARE,
    help="Share of the questions that the two predictors answer differently.  [default: 0.2]",
)
@click.option("--difference", type=SHARE, help="Difference in hit rate that you want to confirm.")
@click.option(
    "--candidates",
    type=click.IntRange(1, 1000),
    help="Predictors compared with the baseline.  [default: 1]",
)
@click.option(
    "--alpha",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    help="Family-wise error rate.",
)
@click.option(
    "--sources",
    type=click.IntRange(1, 1_000_000),
    help="Pages that hold the gold of the questions. Questions of one page count as fewer.  "
    "[default: one page per question]",
)
@click.option(
    "--icc",
    type=SHARE,
    help="Correlation of the differences of one page: 0 independent, 1 all alike.  [default: 0.1]",
)
@click.option(
    "--run",
    "run",
    type=click.Path(path_type=Path),
    help="Pilot: take rate, disagreement, candidates, pages and their correlation from this run.",
)
@click.option(
    "--measure",
    default="",
    help="Hit rate of the pilot, such as strict_hit@5.  [default: its primary measure]",
)
def power(
    questions: tuple[int, ...],
    rate: float | None,
    disagreement: float | None,
    difference: float | None,
    candidates: int | None,
    alpha: float,
    sources: int | None,
    icc: float | None,
    run: Path | None,
    measure: str,
) -> None:
    """Power analysis: which differences in hit rate a number of questions can detect, before any query is
    run.

    For the tests of a report at 80% power, with Holm's correction for the candidates. "Worth" is the
    equivalent number of independent questions where questions share pages.
    """
    analysis = branchrank.library.power(
        questions,
        rate=rate,
        disagreement=disagreement,
        difference=difference,
        candidates=candidates,
        alpha=alpha,
        sources=sources,
        icc=icc,
        run=run,
        measure=measure,
    )
    click.echo(str(analysis))
