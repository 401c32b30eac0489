"""``branchrank tune``: tune the systems in an experiment file on mined questions."""

from __future__ import annotations

from pathlib import Path

import click

from branchrank.bench.tuning import BUDGET, FOLDS, tune, write_tuned
from branchrank.cli.options import given_flags, settings_options
from branchrank.cli.terminal import Command, safe, say
from branchrank.settings import BenchmarkSettings, EngineSettings


@click.command("tune", cls=Command)
@click.argument("experiment", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--on",
    "questions_file",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="The question file to tune on, such as the output of `branchrank questions mine`.",
)
@click.option(
    "--folds",
    type=click.IntRange(2, 100),
    default=FOLDS,
    show_default=True,
    help="Number of cross-validation folds.",
)
@click.option(
    "--budget",
    type=click.IntRange(2, 1000),
    default=BUDGET,
    show_default=True,
    help="Number of combinations of values to try for each system.",
)
@click.option("--write", is_flag=True, help="Add the tuned systems to EXPERIMENT.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
@settings_options(EngineSettings)
@settings_options(
    BenchmarkSettings,
    only=frozenset({"benchmark.sample_size", "benchmark.sample_seed", "benchmark.primary"}),
)
def command(
    experiment: Path, questions_file: Path, folds: int, budget: int, write: bool, quiet: bool
) -> None:
    """Tune the BM25 weight, MaxSim weight, k1 and b of each system in EXPERIMENT by cross-validation.

    All questions about the same document are in one fold. The command prints the expected gain of each system
    with a 95% interval, and the TOML tables of the tuned systems. With --write, the tuned systems are added
    to EXPERIMENT. The original systems are kept.
    """
    tuning = tune(
        experiment,
        questions_file,
        folds=folds,
        budget=budget,
        flags=given_flags(),
        notify=say,
        progress=not quiet,
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
        write_tuned(experiment, tuning)
        say(f"the tuned systems were added to {experiment}")
