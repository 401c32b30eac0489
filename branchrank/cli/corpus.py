"""``branchrank corpus``: documentation sets by name."""

from __future__ import annotations

import click

from branchrank.cli.terminal import Group, progress_bars


@click.group("corpus", cls=Group)
def command() -> None:
    """Fetch and list corpora by name. A folder works everywhere a name does."""


@command.command("add")
@click.argument("name")
@click.option("--quiet", is_flag=True, help="No progress.")
def add(name: str, quiet: bool) -> None:
    """Fetch the corpus NAME, check it, and keep its documents. Nothing fetched is executed.

    ir:ID is a dataset of the package ir-datasets, such as ir:beir/scifact/test.
    """
    from branchrank.library import add_corpus

    with progress_bars(quiet) as progress:
        path = add_corpus(name, progress=progress)
    click.echo(f"{name}: {path}")


@command.command("list")
def show() -> None:
    """List the corpora that can be fetched, and the folders of those that were fetched."""
    from branchrank.library import list_corpora

    for corpus in list_corpora():
        click.echo(f"{corpus.name}: {corpus.description} ({corpus.place or 'not fetched'})")
