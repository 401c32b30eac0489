"""``branchrank beir``: questions from BEIR folders."""

from __future__ import annotations

from pathlib import Path

import click

from branchrank.cli.terminal import Group, safe


@click.group("beir", cls=Group)
def command() -> None:
    """Use BEIR folders: `branchrank index FOLDER` indexes one, `beir questions` makes its questions."""


@command.command("questions")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--split", default="test", show_default=True, help="The qrels: qrels/SPLIT.tsv.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="The question file to write.",
)
@click.option("--remove-query", is_flag=True, help="A query's own document (of the same id) is no hit of it.")
def questions(folder: Path, split: str, output: Path, remove_query: bool) -> None:
    """Make questions of the queries of FOLDER and their relevance judgements."""
    from branchrank import library

    made = library.import_beir(folder, output, split=split, remove_query=remove_query)
    for note in made.notes:
        click.echo(f"note: {safe(note)}", err=True)
    relevant = sum(len(question.gold) for question in made.questions)
    click.echo(f"{output}: {len(made.questions)} questions, {relevant} relevant documents")
