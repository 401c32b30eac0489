"""Build and check indexes and trees: ``index``, ``adopt``, ``check``, ``calibrate`` and ``pageindex``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import branchrank
from branchrank.core.errors import InputError
from branchrank.core.io.printable import printable_json, safe_line
from branchrank.core.io.progress import shown_progress
from branchrank.core.records import Node
from branchrank.frontends.cli.options import (
    DATA_DIR,
    FILE,
    JSON,
    LLM_OPTIONS,
    OUTPUT,
    QUIET,
    REQUIRED_URL,
    flag,
    given_flags,
    settings_options,
)
from branchrank.frontends.cli.search import open_workspace
from branchrank.frontends.cli.terminal import Command, CommandGroup, print_notes, safe, say

if TYPE_CHECKING:
    from branchrank.documents.tree_nodes import Tree
    from branchrank.index.adoption import Adoption
    from branchrank.search.llm.ledger import Spent

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
    from branchrank.index.stores.analyzer import language_notes, sample_text
    from branchrank.runs.words import plural

    index = workspace.index
    manifest, report = index.manifest, index.report
    print_notes(report.notes, quiet=quiet)
    print_notes(language_notes(index.manifest, index.bm25_settings.stemmer, sample_text(index.chunks)))
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
    click.echo(
        f"left out: {plural(len(adoption.left_out), 'chunk')}, {plural(adoption.nodes_left_out, 'node')}"
    )
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


@click.group("pageindex", cls=CommandGroup)
def tree() -> None:
    """Build, show, check, summarize, import or export the PageIndex tree."""


@tree.command("build")
@DATA_DIR
@flag("--output", "File to write the nodes to. Default: pageindex/nodes.jsonl in the workspace.", kind=FILE)
def build_tree(data_dir: Path, output: Path | None) -> None:
    """Build the tree of the workspace's corpus, and write its nodes to a nodes.jsonl file.

    The command needs no embedding model. `branchrank index` builds the tree, too.
    """
    with open_workspace(data_dir) as workspace:
        made = workspace.tree_tools.build(output)
    print_notes(made.notes)
    click.echo(f"{made.path}: {made.nodes} nodes")


@tree.command("show")
@click.argument("node", required=False)
@DATA_DIR
@flag("--depth", "Number of levels to print.", 3, click.IntRange(1))
def show_tree(node: str | None, data_dir: Path, depth: int) -> None:
    """Print the subtree of NODE (a node's id or a file's path). Without NODE, print the whole tree."""
    with open_workspace(data_dir) as workspace:
        tree = workspace.tree
    _print(tree, _find(tree, node) if node else tree.root, depth, 0)


def _find(tree: Tree, name: str) -> Node:
    if name in tree.nodes:
        return tree.node(name)
    raise InputError(
        f"the tree has no node {name!r}",
        remedy="`branchrank pageindex show` prints the ids of the nodes in the top levels",
    )


def _print(tree: Tree, node: Node, depth: int, level: int) -> None:
    span = f"  lines {node.line_start}-{node.own_line_end}" if node.has_lines else ""
    if span and node.line_end != node.own_line_end:
        span += f", with subsections to {node.line_end}"
    click.echo(f"{'  ' * level}{safe_line(node.title)}  [{safe_line(node.id)}]{span}")
    if level < depth:
        for child in tree.children(node.id):
            _print(tree, child, depth, level + 1)


@tree.command("check")
@DATA_DIR
@click.argument("nodes", required=False, type=FILE)
def check_tree(nodes: Path | None, data_dir: Path) -> None:
    """Check the lines and links in the file NODES (by default the workspace's tree) against the corpus."""
    from branchrank.documents.tree_build import load_nodes

    with open_workspace(data_dir) as workspace:
        tree = load_nodes(nodes) if nodes is not None else workspace.tree
        found = workspace.tree_tools.check(tree)
    for problem in found:
        click.echo(safe(problem))
    if found:
        raise InputError(f"the tree has {len(found)} problems", remedy="branchrank pageindex build")
    click.echo(f"{len(tree.nodes)} nodes: all links and lines are correct")


@tree.command("export")
@click.argument("source")
@click.argument("output", type=FILE)
@DATA_DIR
@click.option("--summaries/--no-summaries", default=True, help="Include summaries.")
@click.option("--text/--no-text", default=True, help="Include the text of each section.")
def export_tree(source: str, output: Path, data_dir: Path, summaries: bool, text: bool) -> None:
    """Write the tree of the document SOURCE to the file OUTPUT, in PageIndex's JSON format for Markdown."""
    with open_workspace(data_dir) as workspace:
        tree = workspace.tree if summaries else None
        workspace.tree_tools.export(source, output, tree=tree, with_text=text)
    click.echo(f"{output}: the tree of {safe(source)}")


@tree.command("import")
@click.argument("json_file", type=FILE)
@click.argument("source")
@click.argument("output", type=FILE)
@DATA_DIR
def import_tree(json_file: Path, source: str, output: Path, data_dir: Path) -> None:
    """Convert JSON_FILE, PageIndex's output for the document SOURCE, to the nodes.jsonl file OUTPUT.

    Line numbers are recomputed from SOURCE. The command prints a note about each part of SOURCE that is not
    in JSON_FILE.
    """
    with open_workspace(data_dir) as workspace:
        made = workspace.tree_tools.import_json(json_file, source, output)
    print_notes(made.notes)
    click.echo(f"{output}: {made.nodes} nodes")


@tree.command("summarize", resumes=True)
@OUTPUT
@DATA_DIR
@REQUIRED_URL
@LLM_OPTIONS
@settings_options("engine")
def summarize(output: Path, data_dir: Path, base_url: str, model: str, seed: int, quiet: bool) -> None:
    """Summarize every node of the workspace's tree with an LLM, and write the nodes to the file OUTPUT.

    To use the summaries, set `nodes` in branchrank.toml to OUTPUT. After you edit the corpus, run the same
    command again to summarize only the edited sections and their parent sections.
    """
    with (
        branchrank.Workspace.open(data_dir, settings=given_flags(), notify=say) as opened,
        shown_progress(not quiet) as bars,
    ):
        result, spent = opened.tree_tools.summarize(
            output, base_url=base_url, model=model, seed=seed, progress=bars
        )
    click.echo(cost(spent))
    click.echo(f"{output}: {len(result.nodes)} nodes, {len(result.failed)} kept their extractive summary")


def cost(spent: Spent) -> str:
    """Return the number of LLM calls and tokens, and their cost, as one line."""
    total, prices = spent.totals, spent.prices
    line = f"{total.calls} LLM calls ({total.cached_calls} from the cache), {total.tokens} tokens"
    if prices is None or total.cost is None:
        return line
    return f"{line}, {total.cost:.4f} {prices.currency} at the prices of {prices.date}"
