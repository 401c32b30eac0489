"""``branchrank datasets``: compare systems on several datasets in one table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import click

from branchrank.cli.latex import latex_option
from branchrank.cli.terminal import Command, safe
from branchrank.errors import UsageError

Form = Literal["text", "markdown", "csv"]


@click.command("datasets", cls=Command)
@click.argument("runs", nargs=-1, required=True, metavar="[NAME=]RUN...")
@click.option(
    "--primary", default="", help="Measure to compare, such as nDCG@10. Default: the runs' primary measure."
)
@click.option(
    "--baseline",
    default="",
    help="System with which the other systems are compared. Default: the first run's baseline.",
)
@click.option(
    "--delta",
    type=click.FloatRange(0, 1, min_open=True),
    help="Largest difference that counts as equivalent. Default: the first run's delta.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "csv"]),
    default="text",
    show_default=True,
    help="Format of the table.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the table to this file instead of printing it.",
)
@latex_option
def datasets(
    runs: tuple[str, ...],
    primary: str,
    baseline: str,
    delta: float | None,
    form: Form,
    output: Path | None,
    latex: Path | None,
) -> None:
    """Compare systems over several datasets by their macro average, with an interval and a stratified test.

    Give one RUN for each dataset. NAME is the heading of the dataset's column. By default, the heading is the
    name of the run's experiment or corpus. Only systems that are in every run are compared.
    """
    from branchrank import library

    named = [_named(run) for run in runs]
    if any(name for name, _ in named) and not all(name for name, _ in named):
        raise UsageError(
            "some runs have a name (NAME=RUN) and others don't",
            remedy="write NAME=RUN for every run, or for none",
        )
    names = [name for name, _ in named if name]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(
            f"the name {twice[0]!r} is used for two runs", remedy="give each run a different name"
        )
    found = library.compare_datasets(
        dict(named) if named[0][0] else [run for _, run in named],
        measure=primary,
        baseline=baseline,
        delta=delta,
    )
    if latex is not None:
        click.echo(f"written: {safe(str(found.write(latex, 'latex')))}", err=True)
    if output is not None:
        click.echo(f"written: {found.write(output, form)}")
    elif form == "text":
        found.print(None if sys.stdout.isatty() else 400)
    else:
        click.echo(found.text(form), nl=False)


def _named(run: str) -> tuple[str, str]:
    """Split ``NAME=RUN`` into name and directory. The name is empty if ``run`` is an existing path."""
    name, equals, directory = run.partition("=")
    return (name, directory) if equals and not Path(run).exists() else ("", run)
