"""``branchrank adopt``: create a workspace from another program's chunks, vectors and nodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

import branchrank
from branchrank.cli.options import data_dir_option, given_flags, settings_options
from branchrank.cli.terminal import Command, safe, say
from branchrank.settings import Bm25Settings, CacheSettings, EngineSettings, IndexSettings

if TYPE_CHECKING:
    from branchrank.index.adoption import Adoption

_SHOWN = 5
_FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)


@click.command("adopt", cls=Command)
@click.argument("folder", type=_FOLDER)
@data_dir_option
@click.option(
    "--corpus",
    help="Folder or corpus name of the documents that the chunks come from. "
    "Default: the corpus in the branchrank.toml of the workspace or of FOLDER.",
)
@click.option(
    "--collection", default="", help="Name of the Chroma collection to use, if chroma/ contains several."
)
@click.option("--quiet", is_flag=True, help="Show no progress.")
@settings_options(IndexSettings, Bm25Settings, CacheSettings, EngineSettings)
def command(folder: Path, data_dir: Path, corpus: str | None, collection: str, quiet: bool) -> None:
    """Create a workspace from chunks.jsonl, chroma/ and pageindex/nodes.jsonl in FOLDER.

    FOLDER is not changed. For each chunk without line numbers, the command searches the documents for the
    chunk's text. To check the vectors in chroma/, the command embeds 20 chunks again with --embedder. The
    stored vectors are reused if each new vector has a cosine of at least 0.999 to its stored vector.
    """
    with branchrank.Workspace.adopt(
        folder,
        data_dir,
        corpus=corpus,
        collection=collection,
        settings=given_flags(),
        notify=say,
        progress=not quiet,
    ) as workspace:
        adoption = workspace.adoption
        assert adoption is not None
        _print_adopted(data_dir, adoption, workspace.index.manifest.documents)


def _print_adopted(data_dir: Path, adoption: Adoption, documents: int) -> None:
    for reason in adoption.left_out[:_SHOWN]:
        click.echo(f"note: left out {safe(reason)}", err=True)
    if len(adoption.left_out) > _SHOWN:
        click.echo(f"note: left out {len(adoption.left_out) - _SHOWN} more", err=True)
    lines = f"{adoption.by_lines} located by line numbers, {adoption.anchored} by text"
    if adoption.unconfirmed:
        lines += f", {adoption.unconfirmed} by line numbers although the text differs"
    click.echo(f"{data_dir}: {documents} documents, {adoption.chunks} chunks: {lines}")
    click.echo(f"left out: {len(adoption.left_out)} chunks, {adoption.nodes_left_out} nodes")
    if adoption.collection:
        click.echo(
            f"vectors: {adoption.reused} reused, {adoption.embedded} embedded; "
            f"the lowest cosine of {adoption.sampled} checked vectors is {adoption.least_cosine:.4f}"
        )
    trees = {
        "own": "yours",
        "summaries": f"built from the documents, with the summaries of {adoption.nodes} of your nodes",
    }
    click.echo(f"tree: {trees.get(adoption.tree, 'built')}")
