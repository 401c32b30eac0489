"""``branchrank adopt``: make a workspace of chunks, vectors and nodes that another program made."""

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
    help="The documents that the chunks were cut from: a folder, or a corpus's name. "
    "Default: the corpus that branchrank.toml in DATA_DIR or in FOLDER names.",
)
@click.option("--collection", default="", help="The Chroma collection, where there are several.")
@click.option("--quiet", is_flag=True, help="No progress.")
@settings_options(IndexSettings, Bm25Settings, CacheSettings, EngineSettings)
def command(folder: Path, data_dir: Path, corpus: str | None, collection: str, quiet: bool) -> None:
    """Make a workspace of the chunks.jsonl, chroma/ and pageindex/nodes.jsonl in FOLDER.

    FOLDER is only read. Chunks without lines are looked for in the documents. The vectors are reused if 20
    chunks that are embedded again by --embedder agree with them at cosine 0.999.
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
    lines = f"{adoption.by_lines} by their lines, {adoption.anchored} by their text"
    if adoption.unconfirmed:
        lines += f", {adoption.unconfirmed} by lines that do not hold their text"
    click.echo(f"{data_dir}: {documents} documents, {adoption.chunks} chunks: {lines}")
    click.echo(f"left out: {len(adoption.left_out)} chunks, {adoption.nodes_left_out} nodes")
    if adoption.collection:
        click.echo(
            f"vectors: {adoption.reused} reused, {adoption.embedded} embedded; "
            f"{adoption.sampled} sampled ones agree at cosine {adoption.least_cosine:.4f} or more"
        )
    trees = {"own": "yours", "summaries": f"built; {adoption.nodes} of your nodes give their summaries"}
    click.echo(f"tree: {trees.get(adoption.tree, 'built')}")
