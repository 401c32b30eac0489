"""``branchrank index``: create a workspace for a documentation folder and build its index."""

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
@click.option("--exclude", multiple=True, help="Exclude documents that match this glob pattern. Repeatable.")
@click.option(
    "--chunks",
    type=OWN_FILE,
    help="Index the chunks in this chunks.jsonl instead of splitting the documents into chunks.",
)
@click.option("--nodes", type=OWN_FILE, help="Use this nodes.jsonl as the tree instead of building one.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
@settings_options(IndexSettings, Bm25Settings, CacheSettings, EngineSettings)
def command(
    corpus: str | None,
    data_dir: Path,
    exclude: tuple[str, ...],
    chunks: Path | None,
    nodes: Path | None,
    quiet: bool,
) -> None:
    """Build the index of CORPUS (a folder or a corpus name) in a workspace.

    The corpus and the flags are stored in the workspace's branchrank.toml. If you omit CORPUS, the corpus of
    the workspace is indexed again, and only changed documents are embedded. If CORPUS is a BEIR folder, each
    of its documents is first written to a file in the workspace.
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
