"""``branchrank resume``: resume an interrupted run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from branchrank.cli.naming import access_options
from branchrank.cli.options import given_flags, settings_options
from branchrank.cli.terminal import Command, import_from_here
from branchrank.settings import EngineSettings


@click.command("resume", cls=Command, resumes=True)
@click.argument("run", type=click.Path(path_type=Path, file_okay=False))
@access_options
@settings_options(EngineSettings)
@click.option("--quiet", is_flag=True, help="Show no progress.")
def command(run: Path, quiet: bool, **access: Any) -> None:
    """Resume an interrupted RUN and keep its finished rows.

    Hosts, models, files and classes that RUN names are used only with --trust, because RUN may come from
    another person. Without --trust, the error lists them. RUN stores no credentials: set a URL with a
    password in the environment variable of its setting. A run cannot be resumed if its corpus, questions,
    index or settings have changed.
    """
    from branchrank.cli.benchmarking import run_and_report
    from branchrank.library import RunAccess, plan_from_run

    if access["trust"]:
        import_from_here()
    plan = plan_from_run(run, RunAccess(engine=given_flags(), **access))
    run_and_report(plan, quiet=quiet, resume=run)
