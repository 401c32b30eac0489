"""Before a benchmark: the commands ``tune`` (weights of systems) and ``power`` (numbers of questions)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import branchrank
from branchrank.frontends.cli.options import (
    FILE,
    OPEN_SHARE,
    QUIET,
    RUN,
    SHARE,
    NumberRange,
    flag,
    given_flags,
    settings_options,
    switch,
)
from branchrank.frontends.cli.terminal import Command, safe, say
from branchrank.runs.bench.tuning import BUDGET, FOLDS, write_tuned
from branchrank.runs.bench.tuning import tune as tuning_of


@click.command("tune", cls=Command)
@click.argument("experiment", type=FILE)
@flag(
    "--on questions_file",
    "The question file to tune on, such as the output of `branchrank questions mine`.",
    kind=FILE,
    required=True,
)
@flag("--folds", "Number of cross-validation folds.", FOLDS, click.IntRange(2, 100))
@flag("--budget", "Number of combinations of values to try for each system.", BUDGET, click.IntRange(2, 1000))
@switch("--write", "Add the tuned systems to EXPERIMENT.")
@switch("--force", "With --write, also add systems whose expected gain is below zero.")
@QUIET
@settings_options("engine", "benchmark.sample_size", "benchmark.sample_seed", "benchmark.primary")
def tune(
    experiment: Path, questions_file: Path, write: bool, force: bool, quiet: bool, **budget: Any
) -> None:
    """Tune the BM25 weight, MaxSim weight, k1 and b of each system in EXPERIMENT by cross-validation.

    All questions about the same document are in one fold. The command prints the expected gain of each system
    with a 95% interval, and the TOML tables of the tuned systems. With --write, the tuned systems are added
    to EXPERIMENT, with the digest of the questions. The original systems are kept.
    """
    tuning = tuning_of(
        experiment, questions_file, flags=given_flags(), notify=say, progress=not quiet, **budget
    )
    asked = f"{tuning.questions} questions about {tuning.sources} documents"
    click.echo(f"{asked}, {tuning.folds} folds, {tuning.measure}")
    for each in tuning.systems:
        changes = ", ".join(f"{name} {each.own[name]:g} -> {value:g}" for name, value in each.changes.items())
        click.echo(f"{safe(each.system)}: {changes or 'no change'}")
        click.echo(
            f"  {each.before:.3f} -> {each.validated:.3f} on documents not used for tuning: "
            f"{each.gain:+.3f} {each.interval_words}; "
            f"{each.agreeing} of {tuning.folds} folds chose these values; {each.points} combinations tried"
        )
    if not tuning.toml:
        click.echo("no changes: every system scores best with its current values")
        return
    click.echo(f"\n{safe(tuning.toml)}", nl=False)
    if write:
        write_tuned(experiment, tuning, force=force)
        say(f"the tuned systems were added to {experiment}")


@click.command("power", cls=Command)
@flag(
    "--questions",
    "Number of questions. Repeatable.",
    branchrank.library.POWER_QUESTIONS,
    click.IntRange(1, 1_000_000),
    multiple=True,
)
@flag("--rate", "Expected hit rate, 0 to 1.  [default: 0.7]", kind=SHARE)
@flag(
    "--disagreement",
    "Share of the questions on which exactly one of two predictors has a hit.  [default: 0.2]",
    kind=SHARE,
)
@flag("--difference", "Difference in hit rate that you want to detect, from 0 to 1.", kind=SHARE)
@flag(
    "--candidates",
    "Number of predictors that are compared with the baseline.  [default: 1]",
    kind=click.IntRange(1, 1000),
)
@flag("--alpha", "Family-wise error rate.", 0.05, OPEN_SHARE)
@flag(
    "--sources",
    "Number of pages that contain the gold. Questions that share a page give less information.  "
    "[default: one page per question]",
    kind=click.IntRange(1, 1_000_000),
)
@flag(
    "--page-variation",
    "Unevenness of the pages of --sources: variance of the questions per page, divided by the squared mean. "
    "0: even; 1.8: 25 pages that follow Zipf's law.",
    0.25,
    NumberRange(0, 1000),
)
@flag(
    "--icc",
    "Correlation between questions on the same page, from 0 (independent) to 1 (identical).  [default: 0.1]",
    kind=SHARE,
)
@flag(
    "--run",
    "Pilot run from which the defaults of --rate, --disagreement, --candidates, --sources and --icc "
    "are computed.",
    kind=RUN,
)
@flag(
    "--measure",
    "Hit rate to read from the pilot run, such as strict_hit@5.  [default: the run's primary measure]",
)
def power(questions: tuple[int, ...], run: Path | None, measure: str, **assumptions: Any) -> None:
    """Compute which differences in hit rate a benchmark with a given number of questions can detect.

    The command prints the smallest differences that the tests in a report can detect with 80% power, after
    Holm's correction for the number of candidates. If several questions share a page, the column "worth"
    shows how many independent questions would give the same information.
    """
    assumed = branchrank.library.Assumptions(**assumptions)
    click.echo(str(branchrank.library.power(questions, assumed, run=run, measure=measure)))
