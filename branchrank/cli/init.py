"""``branchrank init``: write the starter files for a benchmark on your own documents."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from branchrank.cli.options import DEFAULT_DATA_DIR, data_dir_option
from branchrank.cli.terminal import Command, safe, say
from branchrank.errors import CorpusError


@click.command("init", cls=Command)
@click.argument("folder", required=False)
@data_dir_option
def command(folder: str | None, data_dir: Path) -> None:
    """Set up a benchmark on the documents in FOLDER (by default docs or doc in the working directory).

    The command writes branchrank.toml to the workspace, and writes questions.jsonl and experiment.toml to the
    working directory. The file questions.jsonl contains three example questions about the documents, and
    experiment.toml compares three systems. Existing files are not changed.
    """
    from branchrank import library

    try:
        made = library.init(folder, data_dir)
    except CorpusError as error:
        if folder is not None or not sys.stdin.isatty():
            raise
        say(error.message)
        made = library.init(click.prompt("Folder of the documents", err=True), data_dir)
    click.echo(safe(f"{made.documents} documents in {made.corpus}"))
    for path in made.written:
        click.echo(safe(f"written: {path}"))
    for path in made.kept:
        click.echo(safe(f"kept, already exists: {path}"))
    place = "" if data_dir == DEFAULT_DATA_DIR else f" --data-dir {shlex.quote(str(data_dir))}"
    click.echo("\nnext:")
    for line in (
        f'branchrank retrieve{place} "something that you always have to look up"',
        f"branchrank questions add questions.jsonl{place}",
        "branchrank run experiment.toml",
    ):
        click.echo(safe(f"  {line}"))
    click.echo(
        "\nThe first command builds the index. Replace the examples in questions.jsonl with questions that"
    )
    click.echo("your readers ask: only their questions show which system is better for you.")
