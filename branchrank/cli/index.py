"""``branchrank index``: make a workspace of a documentation folder and build its index."""

from __future__ import annotations

from pathlib import Path

import click

import branchrank
from branchrank.cli.options import data_dir_option, given_flags, settings_options
from branchrank.cli.terminal import Command, safe, say
from branchrank.settings import Bm25Settings, CacheSettings, EngineSettings, IndexSettings

OWN_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command("index", cls=Command, resumes=True)
@click.argument("corpus", required=False)
@data_dir_option
@click.option("--exclude", multiple=True, help="Glob of sources to leave out. Repeatable.")
@click.option("--chunks", type=OWN_FILE, help="Your own chunks.jsonl to index.")
@click.option("--nodes", type=OWN_FILE, help="Your own nodes.jsonl to use as the tree.")
@click.option("--quiet", is_flag=True, help="No progress.")
@settings_options(IndexSettings, Bm25Settings, CacheSettings, EngineSettings)
def command(
    corpus: str | None,
    data_dir: Path,
    exclude: tuple[str, ...],
    chunks: Path | None,
    nodes: Path | None,
    quiet: bool,
) -> None:
    """Index CORPUS, a folder or a corpus's name, into a workspace.

    The documents of a BEIR folder are unpacked into the workspace first, one file each.
    The corpus and the flags given are stored in the workspace's branchrank.toml, if they are valid. Without
    CORPUS the workspace's own is indexed again; unchanged documents cost no embedding.
    """
    with branchrank.Workspace.build(
        corpus,
        data_dir,
        exclude=exclude or None,
        chunks=chunks,
        nodes=nodes,
        settings=given_flags(),
        notify=say,
        progress=not quiet,
    ) as workspace:
        _print_built(data_dir, workspace)


def _print_built(data_dir: Path, workspace: branchrank.Workspace) -> None:
    index = workspace.index
    manifest, report = index.manifest, index.report
    for note in report.notes:
        click.echo(f"note: {safe(note)}", err=True)
    done = (
        f"{report.embedded} texts embedded with {manifest.embedder.name}, {report.reused} reused; "
        f"{sum(report.seconds.values()):.1f} s"
    )
    click.echo(
        f"{data_dir}: {manifest.documents} documents, {manifest.nodes} nodes, {manifest.chunks} chunks; "
        f"{done if index.is_new else 'up to date'}"
    )
