"""``branchrank power``: compute which differences a benchmark can detect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
@click.option("--rate", type=SHARE, help="Expected hit rate, 0 to 1.  [default: 0.7]")
@click.option(
    "--disagreement",
    type=SHARE,
    help="Share of the questions on which exactly one of two predictors has a hit.  [default: 0.2]",
)
@click.option("--difference", type=SHARE, help="Difference in hit rate that you want to detect, from 0 to 1.")
@click.option(
    "--candidates",
    type=click.IntRange(1, 1000),
    help="Number of predictors that are compared with the baseline.  [default: 1]",
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
    help="Number of pages that contain the gold. Questions that share a page give less information.  "
    "[default: one page per question]",
)
@click.option(
    "--icc",
    type=SHARE,
    help="Correlation between questions on the same page, from 0 (independent) to 1 (identical).  "
    "[default: 0.1]",
)
@click.option(
    "--run",
    "run",
    type=click.Path(path_type=Path),
    help="Pilot run from which the defaults of --rate, --disagreement, --candidates, --sources and --icc "
    "are computed.",
)
@click.option(
    "--measure",
    default="",
    help="Hit rate to read from the pilot run, such as strict_hit@5.  [default: the run's primary measure]",
)
def power(questions: tuple[int, ...], run: Path | None, measure: str, **assumptions: Any) -> None:
    """Compute which differences in hit rate a benchmark with a given number of questions can detect.

    The command prints the smallest differences that the tests in a report can detect with 80% power, after
    Holm's correction for the number of candidates. If several questions share a page, the column "worth"
    shows how many independent questions would give the same information.
    """
    click.echo(str(branchrank.library.power(questions, run=run, measure=measure, **assumptions)))
