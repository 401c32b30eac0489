"""Build, adopt and check indexes: the commands ``index``, ``adopt``, ``check`` and ``calibrate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import branchrank
from branchrank.core.io.printable import printable_json
from branchrank.frontends.cli.options import DATA_DIR, FILE, JSON, QUIET, flag, given_flags, settings_options
from branchrank.frontends.cli.search import open_workspace
from branchrank.frontends.cli.terminal import Command, print_notes, say

if TYPE_CHECKING:
    from branchrank.index.adoption import Adoption

OWN_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command("index", cls=Command, resumes=True)
@click.argument("corpus", required=False)
@DATA_DIR
@flag("--exclude", "Exclude documents that match this glob pattern. Repeatable.", multiple=True)
@click.option("--code/--no-code", default=None, help="Also index source code, such as .py files.")
@flag(
    "--chunks",
    "Index the chunks in this chunks.jsonl instead of splitting the documents into chunks.",
    kind=OWN_FILE,
)
@flag("--nodes", "Use this nodes.jsonl as the tree instead of building one.", kind=OWN_FILE)
@QUIET
@settings_options("index", "bm25", "cache", "engine")
def index(corpus: str | None, data_dir: Path, exclude: tuple[str, ...], quiet: bool, **files: Any) -> None:
    """Build the index of CORPUS (a folder or a corpus name) in a workspace.

    The corpus and the flags are stored in the workspace's branchrank.toml. If you omit CORPUS, the corpus of
    the workspace is indexed again, and only changed documents are embedded. If CORPUS is a BEIR folder, each
    of its documents is first written to a file in the workspace.
    """
    options = {**files, "exclude": exclude or None}  # without --exclude, the stored patterns are kept
    with branchrank.Workspace.build(
        corpus, data_dir, settings=given_flags(), notify=say, progress=not quiet, **options
    ) as workspace:
        _print_built(data_dir, workspace, quiet)


def _print_built(data_dir: Path, workspace: branchrank.Workspace, quiet: bool) -> None:
    from branchrank.index.corpus_language import language_notes
    from branchrank.runs.words import plural

    index = workspace.index
    manifest, report = index.manifest, index.report
    print_notes(report.notes, quiet=quiet)
    print_notes(language_notes(index))
    done = (
        f"{plural(report.embedded, 'text')} embedded with {manifest.embedder.name}, {report.reused} reused; "
        f"{sum(report.seconds.values()):.1f} s"
    )
    click.echo(
        f"{data_dir}: {plural(manifest.documents, 'document')}, {plural(manifest.nodes, 'node')}, "
        f"{plural(manifest.chunks, 'chunk')}; {done if index.is_new else 'up to date'}"
    )
    if manifest.embedder.sent:
        click.echo(f"sent to {manifest.embedder.model}: {manifest.embedder.sent}")


_SHOWN = 5
_FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)


@click.command("adopt", cls=Command)
@click.argument("folder", type=_FOLDER)
@DATA_DIR
@flag(
    "--corpus",
    "Folder or corpus name of the documents that the chunks come from. "
    "Default: the corpus in the branchrank.toml of the workspace or of FOLDER.",
    kind=str,
)
@flag("--collection", "Name of the Chroma collection to use, if chroma/ contains several.")
@QUIET
@settings_options("index", "bm25", "cache", "engine")
def adopt(folder: Path, data_dir: Path, quiet: bool, **chosen: Any) -> None:
    """Create a workspace from chunks.jsonl, chroma/ and pageindex/nodes.jsonl in FOLDER.

    FOLDER is not changed. For each chunk without line numbers, the command searches the documents for the
    chunk's text. To check the vectors in chroma/, the command embeds 20 chunks again with --embedder. The
    stored vectors are reused if each new vector has a cosine of at least 0.999 to its stored vector.
    """
    with branchrank.Workspace.adopt(
        folder, data_dir, settings=given_flags(), notify=say, progress=not quiet, **chosen
    ) as workspace:
        adoption = workspace.adoption
        assert adoption is not None
        _print_adopted(data_dir, adoption, workspace.index.manifest.documents)


def _print_adopted(data_dir: Path, adoption: Adoption, documents: int) -> None:
    from branchrank.runs.words import plural

    print_notes(f"left out {reason}" for reason in adoption.left_out[:_SHOWN])
    if len(adoption.left_out) > _SHOWN:
        print_notes([f"left out {len(adoption.left_out) - _SHOWN} more"])
    lines = f"{adoption.by_lines} located by line numbers, {adoption.anchored} by text"
    if adoption.unconfirmed:
        lines += f", {adoption.unconfirmed} by line numbers although the text differs"
    counts = f"{plural(documents, 'document')}, {plural(adoption.chunks, 'chunk')}"
    click.echo(f"{data_dir}: {counts}: {lines}")
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


@click.command("check", cls=Command)
@DATA_DIR
@JSON
@settings_options("index.embedder", "index.vector_store")
def check(data_dir: Path, as_json: bool) -> None:
    """Check every file of the index against its recorded digest, and the ids in its Chroma collection.

    Other commands read a file again only if its size or timestamps have changed since the last check. Only
    `branchrank check` finds damage that leaves the size and timestamps unchanged, such as a bad sector.
    """
    from branchrank.runs.words import plural

    with open_workspace(data_dir, quiet=True) as workspace:
        found = workspace.check()
    if as_json:
        click.echo(printable_json(found))
        return
    click.echo(f"{found.directory}: {plural(found.files, 'file')}, {found.bytes:,} bytes, no damage found")


@click.command("calibrate", cls=Command)
@DATA_DIR
@flag(
    "--questions questions_file",
    "The question file. Gold is not used. Default: the question file of the workspace.",
    kind=FILE,
)
@JSON
@QUIET
@settings_options("grep.vector_score_threshold", "index.embedder")
def calibrate(data_dir: Path, questions_file: Path | None, as_json: bool, quiet: bool) -> None:
    """Suggest a vector_score_threshold at which 95% of the questions keep their nearest chunk.

    Distances are squared L2 distances between unit vectors, from 0 to 4. Typical distances differ between
    embedding models, so the threshold should fit the model.
    """
    with open_workspace(data_dir, quiet=quiet) as workspace:
        found = workspace.calibrate(questions_file)
        threshold = found.threshold
        model = workspace.index.manifest.embedder.model
    if as_json:
        click.echo(printable_json(found))
        return
    median = found.best[len(found.best) // 2]
    click.echo(f"{len(found.best)} questions, {model}")
    click.echo(
        f"distance of the nearest chunk: minimum {found.best[0]:.3f}, median {median:.3f}, "
        f"maximum {found.best[-1]:.3f}"
    )
    click.echo(f"with the threshold {threshold:g}, {found.losing} questions get no chunk")
    click.echo(f"\n[grep]\nvector_score_threshold = {found.suggested:g}")
