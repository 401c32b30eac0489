"""``branchrank corpus``: fetch corpora by name, and list the available corpora."""

from __future__ import annotations

import click

from branchrank.cli.terminal import Group
from branchrank.io.progress import shown_progress


@click.group("corpus", cls=Group)
def command() -> None:
    """Fetch corpora by name, and list the available corpora.

    Every command that takes a corpus name also takes a folder.
    """


@command.command("add")
@click.argument("name")
@click.option("--quiet", is_flag=True, help="Show no progress.")
def add(name: str, quiet: bool) -> None:
    """Download the corpus NAME, check its digest, and store its documents. No downloaded code is executed.

    NAME can also be ir:ID for a dataset from the ir-datasets package, such as ir:beir/scifact/test.
    """
    from branchrank.library import add_corpus

    with shown_progress(not quiet) as progress:
        path = add_corpus(name, progress=progress)
    click.echo(f"{name}: {path}")


@command.command("list")
def show() -> None:
    """List the available corpora, and the folder of each corpus that was fetched."""
    from branchrank.library import list_corpora

    for corpus in list_corpora():
        click.echo(f"{corpus.name}: {corpus.description} ({corpus.place or 'not fetched'})")
