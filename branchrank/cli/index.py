"""``branchrank index``: make a workspace of a documentation folder and build its index."""

from __future__ import annotations

from pathlib import Path

import click

from branchrank.cli.options import data_dir_option, given_flags, resolved_settings, settings_options
from branchrank.cli.terminal import Command, progress_bars, safe, say
from branchrank.settings import Bm25Settings, CacheSettings, IndexSettings

OWN_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command("index", cls=Command)
@click.argument("corpus", required=False)
@data_dir_option
@click.option("--exclude", multiple=True, help="Glob of sources to leave out. Repeatable.")
@click.option("--chunks", type=OWN_FILE, help="Your own chunks.jsonl to index.")
@click.option("--nodes", type=OWN_FILE, help="Your own nodes.jsonl to use as the tree.")
@click.option("--quiet", is_flag=True, help="No progress.")
@settings_options(IndexSettings, Bm25Settings, CacheSettings)
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
    The corpus and the flags given are kept in the workspace's branchrank.toml, if they are right. Without
    CORPUS the workspace's own is indexed again; unchanged documents cost no embedding.
    """
    from branchrank.corpus.beir import is_beir, unpack_beir
    from branchrank.corpus.named import locate_corpus
    from branchrank.index import build_index
    from branchrank.index.workspace_folder import Workspace, configure, kept_if_right

    resolved_settings(data_dir)  # a wrong value is refused before it is kept
    root = locate_corpus(corpus) if corpus is not None else None
    if root is not None and is_beir(root):
        root = unpack_beir(root, data_dir / "beir" / root.resolve().name)
    with kept_if_right(data_dir):
        configure(
            data_dir,
            corpus=root,
            exclude=exclude or None,
            chunks=chunks,
            nodes=nodes,
            settings=given_flags(),
        )
        workspace = Workspace(data_dir, resolved_settings(data_dir), notify=say)
        with progress_bars(quiet) as progress:
            index = build_index(workspace, progress=progress)
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
