"""``branchrank resume``: resume an interrupted run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from branchrank.cli.naming import given_names, naming_options
from branchrank.cli.options import settings_options
from branchrank.cli.terminal import Command
from branchrank.settings import EngineSettings


@click.command("resume", cls=Command, resumes=True)
@click.argument("run", type=click.Path(path_type=Path, file_okay=False))
@naming_options
@settings_options(EngineSettings)
@click.option("--quiet", is_flag=True, help="Show no progress.")
def command(run: Path, quiet: bool, **named: Any) -> None:
    """Resume an interrupted RUN and keep its finished rows.

    Settings whose values are numbers or fixed choices are read from RUN. You must pass hosts, models, files
    and classes as flags, because reading them from RUN would be a security risk. If a flag is missing, the
    error shows the complete command. A run cannot be resumed if its corpus, questions, index or settings have
    changed.
    """
    from branchrank.cli.benchmarking import run_and_report
    from branchrank.library import plan_from_run

    run_and_report(plan_from_run(run, given_names(**named)), quiet=quiet, resume=run)
