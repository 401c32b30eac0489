"""``branchrank run``: an experiment file, whole."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from branchrank.cli.options import TAKE_UP, given_flags, settings_options
from branchrank.cli.terminal import Command, say
from branchrank.settings import BenchmarkSettings, CacheSettings, LLMSettings


@click.command("run", cls=Command)
@click.argument("experiment", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--reports",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("reports"),
    show_default=True,
    help="Where the run's directory is made.",
)
@click.option("--fresh", is_flag=True, help="Start anew where an interrupted run of this plan exists.")
@TAKE_UP
@click.option("--dry-run", is_flag=True, help="Print the plan and its estimated LLM cost; run nothing.")
@click.option("--quiet", is_flag=True, help="No progress.")
@settings_options(BenchmarkSettings, LLMSettings, CacheSettings)
def command(
    experiment: Path, reports: Path, fresh: bool, take_up: Path | None, dry_run: bool, quiet: bool
) -> None:
    """Run the systems of EXPERIMENT, a TOML file. Every problem of the file is reported before any work."""
    from branchrank.bench.experiment import load_experiment
    from branchrank.cli.benchmarking import execute
    from branchrank.cli.job import Job, Lineup

    loaded = load_experiment(experiment, given_flags())
    for warning in loaded.settings.warnings:
        say(f"warning: {warning}")
    lineups = tuple(
        Lineup(
            index=name,
            settings=settings,
            systems=tuple(named.system for named in loaded.systems if named.index == name),
        )
        for name, settings in loaded.indexes.items()
    )
    execute(
        Job(
            data_dir=loaded.data_dir,
            questions_file=loaded.questions,
            reports=reports,
            experiment=loaded.name,
            split=loaded.split,
            command=shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
            settings=loaded.settings,
            lineups=tuple(lineup for lineup in lineups if lineup.systems),
            repeats=loaded.repeats,
            fresh=fresh,
            take_up=take_up,
            dry_run=dry_run,
            quiet=quiet,
        )
    )
