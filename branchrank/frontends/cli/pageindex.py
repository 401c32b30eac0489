"""``branchrank pageindex``: build, show, check, summarize, import or export the PageIndex tree."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from branchrank.core.errors import InputError
from branchrank.core.io.printable import safe_line
from branchrank.core.records import Node
from branchrank.frontends.cli.labeling import summarize
from branchrank.frontends.cli.options import DATA_DIR, FILE, flag
from branchrank.frontends.cli.search import open_workspace
from branchrank.frontends.cli.terminal import CommandGroup, print_notes, safe

if TYPE_CHECKING:
    from branchrank.documents.tree.navigate import Tree


@click.group("pageindex", cls=CommandGroup)
def command() -> None:
    """Build, show, check, summarize, import or export the PageIndex tree."""


command.add_command(summarize)


@command.command("build")
@DATA_DIR
@flag("--output", "File to write the nodes to. Default: pageindex/nodes.jsonl in the workspace.", kind=FILE)
def build(data_dir: Path, output: Path | None) -> None:
    """Build the tree of the workspace's corpus, and write its nodes to a nodes.jsonl file.

    The command needs no embedding model. `branchrank index` builds the tree, too.
    """
    with open_workspace(data_dir) as workspace:
        made = workspace.tree_tools.build(output)
    print_notes(made.notes)
    click.echo(f"{made.path}: {made.nodes} nodes")


@command.command("show")
@click.argument("node", required=False)
@DATA_DIR
@flag("--depth", "Number of levels to print.", 3, click.IntRange(1))
def show(node: str | None, data_dir: Path, depth: int) -> None:
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


@command.command("check")
@DATA_DIR
@click.argument("nodes", required=False, type=FILE)
def check(nodes: Path | None, data_dir: Path) -> None:
    """Check the lines and links in the file NODES (by default the workspace's tree) against the corpus."""
    with open_workspace(data_dir) as workspace:
        tree = workspace.tree_tools.load(nodes) if nodes is not None else workspace.tree
        found = workspace.tree_tools.check(tree)
    for problem in found:
        click.echo(safe(problem))
    if found:
        raise InputError(f"the tree has {len(found)} problems", remedy="branchrank pageindex build")
    click.echo(f"{len(tree.nodes)} nodes: all links and lines are correct")


@command.command("export")
@click.argument("source")
@click.argument("output", type=FILE)
@DATA_DIR
@click.option("--summaries/--no-summaries", default=True, help="Include summaries.")
@click.option("--text/--no-text", default=True, help="Include the text of each section.")
def export(source: str, output: Path, data_dir: Path, summaries: bool, text: bool) -> None:
    """Write the tree of the document SOURCE to the file OUTPUT, in PageIndex's JSON format for Markdown."""
    with open_workspace(data_dir) as workspace:
        tree = workspace.tree if summaries else None
        workspace.tree_tools.export(source, output, tree=tree, with_text=text)
    click.echo(f"{output}: the tree of {safe(source)}")


@command.command("import")
@click.argument("json_file", type=FILE)
@click.argument("source")
@click.argument("output", type=FILE)
@DATA_DIR
def import_(json_file: Path, source: str, output: Path, data_dir: Path) -> None:
    """Convert JSON_FILE, PageIndex's output for the document SOURCE, to the nodes.jsonl file OUTPUT.

    Line numbers are recomputed from SOURCE. The command prints a note about each part of SOURCE that is not
    in JSON_FILE.
    """
    with open_workspace(data_dir) as workspace:
        made = workspace.tree_tools.import_json(json_file, source, output)
    print_notes(made.notes)
    click.echo(f"{output}: {made.nodes} nodes")
