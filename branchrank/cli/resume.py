"""``branchrank resume``: an interrupted run."""

from __future__ import annotations

from pathlib import Path

import click

from branchrank.cli.options import given_flags, settings_options
from branchrank.cli.terminal import Command, import_from_here
from branchrank.settings import PARTS, reaching_settings


@click.command("resume", cls=Command)
@click.argument("run", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="The workspace of the run. Default: data, if the run was made there.",
)
@click.option(
    "--questions",
    "questions_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The question file of a run that keeps no wording. Default: the run's copy or the workspace's.",
)
@click.option("--predictor", "predictors", multiple=True, help="A class module:Class of the run. Repeatable.")
@click.option("--api-endpoint", default="", help="The URL of the run's predictor api.")
@click.option(
    "--allow",
    "allowed",
    multiple=True,
    help="A host, model or file that a system or an index of the run's experiment file names. Repeatable.",
)
@click.option("--quiet", is_flag=True, help="No progress.")
@settings_options(*PARTS, only=frozenset(reaching_settings()))
def command(
    run: Path,
    data_dir: Path | None,
    questions_file: Path | None,
    predictors: tuple[str, ...],
    api_endpoint: str,
    allowed: tuple[str, ...],
    quiet: bool,
) -> None:
    """Resume an interrupted RUN: every finished row is kept.

    Numbers and choices come from the run. A host, a model, a file or a class does not: name here what the
    run used; nothing else is contacted, opened or imported. Without one of them, the error prints the whole
    command.
    A run whose corpus, questions, index or settings have changed is refused.
    """
    from branchrank.cli.benchmarking import run_and_report
    from branchrank.library import Named, plan_from_run

    if any(":" in name for name in predictors):
        import_from_here()
    named = Named(
        data_dir=data_dir,
        questions=questions_file,
        predictors=predictors,
        api_endpoint=api_endpoint,
        settings=given_flags(),
        allowed=allowed,
    )
    run_and_report(plan_from_run(run, named), quiet=quiet, resume=run)
