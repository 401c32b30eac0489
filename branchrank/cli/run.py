"""``branchrank run``: run the systems of an experiment file."""

from __future__ import annotations

from pathlib import Path

import click

from branchrank.cli.options import given_flags, running_options, settings_options, typed_command
from branchrank.cli.terminal import Command
from branchrank.settings import BenchmarkSettings, CacheSettings, EngineSettings, LLMSettings


@click.command("run", cls=Command, resumes=True)
@click.argument("experiment", type=click.Path(path_type=Path, dir_okay=False))
@running_options
@settings_options(BenchmarkSettings, LLMSettings, CacheSettings, EngineSettings)
def command(
    experiment: Path, reports: Path, fresh: bool, dry_run: bool, seal: Path | None, quiet: bool
) -> None:
    """Run the systems of EXPERIMENT, a TOML file, and write a report.

    The whole file is checked before the run, and all problems are reported together.
    """
    from branchrank.cli.benchmarking import run_and_report
    from branchrank.library import plan_from_experiment

    plan = plan_from_experiment(experiment, given_flags(), reports=reports, command=typed_command())
    run_and_report(plan, quiet=quiet, fresh=fresh, dry_run=dry_run, seal=seal)
