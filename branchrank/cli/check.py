"""``branchrank check``: compare every file in the index with the digest that the build stored."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from branchrank.cli.options import data_dir_option, given_flags, settings_options
from branchrank.cli.querying import open_workspace
from branchrank.cli.terminal import Command
from branchrank.settings import IndexSettings


@click.command("check", cls=Command)
@data_dir_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@settings_options(IndexSettings, only=frozenset({"index.embedder", "index.vector_store"}))
def command(data_dir: Path, as_json: bool) -> None:
    """Check every file of the index against the digest that was recorded when the index was built.

    Other commands read a file again only if its size or timestamps have changed since the last check. Only
    `branchrank check` finds damage that leaves the size and timestamps unchanged, such as a bad sector.
    """
    with open_workspace(data_dir, given_flags(), quiet=True) as workspace:
        found = workspace.check()
    if as_json:
        click.echo(msgspec.json.encode(found))
        return
    click.echo(f"{found.directory}: {found.files} files, {found.bytes:,} bytes, no damage found")
