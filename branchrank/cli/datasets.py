"""``branchrank datasets``: runs of the same systems over several datasets, as one table."""

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
@click.option("--primary", default="", help="The measure, such as nDCG@10. Default: the runs' own.")
@click.option("--baseline", default="", help="The system to compare with. Default: the first run's baseline.")
@click.option(
    "--delta",
    type=click.FloatRange(0, 1, min_open=True),
    help="Largest difference that counts as none. Default: the first run's.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "csv"]),
    default="text",
    show_default=True,
    help="How to print it.",
)
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="Write it to a file instead.")
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
    """Compare systems over several datasets: the macro average with its interval, and a stratified test.

    Each RUN is over a dataset of its own; NAME is the name of its column (default: that of its experiment or
    corpus). Only systems that every run has are compared.
    """
    from branchrank import library

    named = [_named(run) for run in runs]
    if any(name for name, _ in named) and not all(name for name, _ in named):
        raise UsageError("some runs have a name and some have none", remedy="write NAME=RUN for each")
    names = [name for name, _ in named if name]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"two runs are named {twice[0]!r}", remedy="give each dataset a name of its own")
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
    """The name and the directory of ``NAME=RUN``; an existing directory is not a name."""
    name, equals, directory = run.partition("=")
    return (name, directory) if equals and not Path(run).exists() else ("", run)
