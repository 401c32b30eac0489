"""``branchrank pageindex`` and ``pageindex_common.py``: the PageIndex tree that predictors share."""

from __future__ import annotations

from pathlib import Path

import click

from branchrank.cli.generation import summarise
from branchrank.cli.options import data_dir_option, opened_index, resolved_settings
from branchrank.cli.terminal import Group, safe
from branchrank.errors import InputError
from branchrank.printable import safe_line
from branchrank.records import Node
from branchrank.tree.navigate import Tree


@click.group("pageindex", cls=Group)
def command() -> None:
    """Build, show, check, summarise, import and export the PageIndex tree."""


command.add_command(summarise)


def _tree(data_dir: Path) -> Tree:
    return opened_index(data_dir, resolved_settings(data_dir)).tree


@command.command("build")
@data_dir_option
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where to write nodes.jsonl. Default: pageindex/nodes.jsonl of the workspace, with its index.",
)
def build(data_dir: Path, output: Path | None) -> None:
    """Build the tree of the workspace's corpus."""
    if output is None:
        tree = _tree(data_dir)
        click.echo(f"{data_dir / 'pageindex' / 'nodes.jsonl'}: {len(tree.nodes)} nodes")
        return
    from branchrank.corpus.loading import load_corpus
    from branchrank.index.workspace_folder import Workspace
    from branchrank.tree.build import build_nodes
    from branchrank.tree.store import write_nodes

    workspace = Workspace(data_dir, resolved_settings(data_dir))
    corpus = load_corpus(workspace.corpus_root, exclude=workspace.exclude)
    nodes, notes = build_nodes(corpus.documents, workspace.corpus_name)
    for note in (*corpus.notes, *notes):
        click.echo(f"note: {safe(note)}", err=True)
    write_nodes(output, nodes)
    click.echo(f"{output}: {len(nodes)} nodes")


@command.command("show")
@click.argument("node", required=False)
@data_dir_option
@click.option("--depth", type=click.IntRange(1), default=3, show_default=True, help="Levels to print.")
def show(node: str | None, data_dir: Path, depth: int) -> None:
    """Print the subtree of NODE (an id, or a file's path), or of the root."""
    tree = _tree(data_dir)
    start = _find(tree, node) if node else tree.root
    _print(tree, start, depth, 0)


def _find(tree: Tree, name: str) -> Node:
    if name in tree.nodes:
        return tree.node(name)
    raise InputError(
        f"the tree has no node {name!r}", remedy="`branchrank pageindex show` prints the first levels"
    )


def _print(tree: Tree, node: Node, depth: int, level: int) -> None:
    span = "" if node.line_start is None else f"  {node.line_start}-{node.own_line_end}-{node.line_end}"
    click.echo(f"{'  ' * level}{safe_line(node.title)}  [{safe_line(node.id)}]{span}")
    if level < depth:
        for child in tree.children(node.id):
            _print(tree, child, depth, level + 1)


@command.command("check")
@data_dir_option
@click.argument("nodes", required=False, type=click.Path(path_type=Path, dir_okay=False))
def check(nodes: Path | None, data_dir: Path) -> None:
    """Check spans and links of the workspace's tree, or of the file NODES, against the corpus."""
    from branchrank.corpus.loading import load_corpus
    from branchrank.index.workspace_folder import Workspace
    from branchrank.tree.check import check_nodes
    from branchrank.tree.store import load_nodes

    workspace = Workspace(data_dir, resolved_settings(data_dir))
    tree = load_nodes(nodes) if nodes is not None else _tree(data_dir)
    documents = load_corpus(workspace.corpus_root, exclude=workspace.exclude).documents
    found = check_nodes(
        list(tree.nodes.values()), {document.source: document.line_count for document in documents}
    )
    for problem in found:
        click.echo(safe(problem))
    if found:
        raise InputError(f"the tree has {len(found)} problems", remedy="branchrank pageindex build")
    click.echo(f"{len(tree.nodes)} nodes: links and spans are right")


@command.command("export")
@click.argument("source")
@click.argument("output", type=click.Path(path_type=Path, dir_okay=False))
@data_dir_option
@click.option("--summaries/--no-summaries", default=True, help="Write summaries.")
@click.option("--text/--no-text", default=True, help="Write the text of each section.")
def export(source: str, output: Path, data_dir: Path, summaries: bool, text: bool) -> None:
    """Write the tree of the file SOURCE as the JSON that PageIndex writes for Markdown."""
    from branchrank.artifacts import write_bytes
    from branchrank.corpus.reading import read_document
    from branchrank.tree.pageindex_json import encode_document, export_document

    content = _content(data_dir, source)
    written = export_document(
        read_document(source, content),
        content,
        summaries={node.id: node.summary for node in _tree(data_dir).sections} if summaries else None,
        with_text=text,
    )
    write_bytes(output, encode_document(written))
    click.echo(f"{output}: the tree of {safe(source)}")


@command.command("import")
@click.argument("json_file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("source")
@click.argument("output", type=click.Path(path_type=Path, dir_okay=False))
@data_dir_option
def import_(json_file: Path, source: str, output: Path, data_dir: Path) -> None:
    """Turn PageIndex's JSON for the corpus's file SOURCE into nodes.jsonl at OUTPUT.

    Spans are computed again from the source; what the format dropped is reported.
    """
    from branchrank.index.workspace_folder import Workspace
    from branchrank.tree.pageindex_json import import_document, import_nodes
    from branchrank.tree.store import write_nodes

    try:
        payload = json_file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {json_file}: {error.strerror}") from error
    imported = import_document(payload, source, _content(data_dir, source))
    nodes, notes = import_nodes([imported], Workspace(data_dir, resolved_settings(data_dir)).corpus_name)
    for note in notes:
        click.echo(f"note: {safe(note)}", err=True)
    write_nodes(output, nodes)
    click.echo(f"{output}: {len(nodes)} nodes")


def _content(data_dir: Path, source: str) -> bytes:
    """The bytes of a file of the workspace's corpus."""
    from branchrank.index.workspace_folder import Workspace
    from branchrank.safe_open import read_beneath

    root = Workspace(data_dir, resolved_settings(data_dir)).corpus_root
    try:
        return read_beneath(root, source)
    except OSError as error:
        raise InputError(
            f"the corpus has no file {source!r}: {error.strerror}", remedy="branchrank pageindex show"
        ) from error
