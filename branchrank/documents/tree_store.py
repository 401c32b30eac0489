"""Read the file ``nodes.jsonl``, which contains the nodes of a tree, one per line, and check the tree.

A tree is valid if all of the following are true.

1. Every node has a unique id. Exactly one node, the root, has no parent. Every parent and every child of a
   node is a node in the tree. A node's list of children contains exactly the nodes whose parent is this node.
2. The depth of a node is one more than the depth of its parent. Because of this rule, a valid tree can't
   contain a cycle.
3. Files and sections have a source and line numbers. The root and folders have no source and no line numbers.
4. A file's node starts at line 1 of the file. The lines of a file or section before its first subsection are
   called its own span. The first subsection starts on the line after its parent's own span. Each subsection
   after the first starts on the line after the end of the previous subsection. The last subsection ends on
   the last line of the file or section. Every line of a file is therefore in exactly one node's own span.
5. A breadcrumb consists of the document's title and the titles of all headings down to the node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from branchrank.core.errors import ArtifactError
from branchrank.core.io.text_files import read_jsonl
from branchrank.core.records import BREADCRUMB_SEPARATOR, Node
from branchrank.documents.tree_nodes import Tree

_REMEDY = "build it again: branchrank index CORPUS, or branchrank pageindex build"


def load_nodes(path: Path | str) -> Tree:
    """Read a tree, and check that it is valid.

    Raises :class:`ArtifactError` if the file can't be read or does not contain a valid tree. The message
    contains the line number of the invalid node (not counting blank lines).
    """
    nodes = list(read_jsonl(Path(path), Node, error=ArtifactError, remedy=_REMEDY))
    if not nodes:
        raise ArtifactError(f"the file {path} contains no nodes", remedy=_REMEDY)
    for index, message in find_problems(nodes):
        raise ArtifactError(f"{path}:{index + 1}: {nodes[index].id!r}: {message}", remedy=_REMEDY)
    return Tree(nodes)


#: The position of an invalid node in the list of nodes, and a message.
Problem = tuple[int, str]


def check_nodes(nodes: Sequence[Node], line_counts: Mapping[str, int] | None = None) -> list[str]:
    """Return a message for every problem, or an empty list if the tree is valid.

    ``line_counts`` maps each source to the number of lines in the file. If ``line_counts`` is given, the node
    of every file must end at the last line of the file.
    """
    if not nodes:
        return ["there are no nodes, but a tree must have a root"]
    problems = find_problems(nodes, line_counts)
    return [f"{nodes[position].id!r}: {message}" for position, message in problems]


def find_problems(nodes: Sequence[Node], line_counts: Mapping[str, int] | None = None) -> Iterator[Problem]:
    """Yield every problem found in a tree's nodes.

    Lines, sources and breadcrumbs are checked only if all parents, children and depths are valid.
    """
    yield from (broken := list(_link_problems(nodes)))
    by_id = {node.id: node for node in nodes}
    for index, node in enumerate([] if broken else nodes):
        yield from ((index, message) for message in _node_problems(node, by_id))
        if line_counts is not None and node.kind == "file":
            counted = line_counts.get(node.source)
            if counted is None:
                yield index, "the corpus has no such document"
            elif counted != node.line_end:
                yield index, f"the node ends at line {node.line_end}, but the file has {counted} lines"


def _link_problems(nodes: Sequence[Node]) -> Iterator[Problem]:
    index_of: dict[str, int] = {}
    parent_of: dict[str, str] = {}
    for index, node in enumerate(nodes):
        if index_of.setdefault(node.id, index) != index:
            yield index, f"the id {node.id!r} is used twice"
        for child in node.children:
            if parent_of.setdefault(child, node.id) != node.id:
                yield index, f"the child {child!r} is also a child of {parent_of[child]!r}"
        if len(set(node.children)) != len(node.children):
            yield index, "the same child is listed twice"
    roots = [index for index, node in enumerate(nodes) if node.parent_id is None]
    if not roots:
        yield 0, "every node has a parent, but a tree needs one root without a parent"
    for index in roots[1:]:
        yield index, f"the node has no parent, but {nodes[roots[0]].id!r} is already the root"
    for index, node in enumerate(nodes):
        for child in node.children:
            if child not in index_of:
                yield index, f"the child {child!r} does not exist"
        if node.parent_id is None:
            if node.id in parent_of:
                yield index, f"the root is listed as a child of {parent_of[node.id]!r}"
        elif node.parent_id not in index_of:
            yield index, f"the parent {node.parent_id!r} does not exist"
        elif parent_of.get(node.id) != node.parent_id:
            yield index, f"the parent {node.parent_id!r} does not list this node as a child"
        elif node.depth != nodes[index_of[node.parent_id]].depth + 1:
            yield index, f"the depth {node.depth} is not one more than the depth of the parent"


def _node_problems(node: Node, by_id: Mapping[str, Node]) -> Iterator[str]:
    parent = by_id[node.parent_id] if node.parent_id is not None else None
    if (node.kind == "root") != (parent is None):
        yield "only the root can be without a parent"
    if parent is None and node.depth != 0:
        yield f"the root has depth {node.depth}, not 0"
    if node.kind in ("root", "folder"):
        if node.source or (node.line_start, node.line_end, node.own_line_end) != (None, None, None):
            yield f"a {node.kind} can't have a source or lines"
        return
    start, end, own_end = node.line_start, node.line_end, node.own_line_end
    if not node.source or start is None or end is None or own_end is None:
        yield f"a {node.kind} needs a source and lines"
        return
    if not (1 <= start <= end and start - (node.kind == "file") <= own_end <= end):
        yield f"the lines {start}-{end} are not possible for a node whose own span ends at line {own_end}"
        return
    if node.kind == "file":
        if node.id != node.source:
            yield f"the id of a file must be its source, {node.source!r}"
        if start != 1:
            yield f"a file must start at line 1, not {start}"
        breadcrumb = node.title
    else:
        if parent is None or parent.source != node.source:
            yield "a section must have a parent with the same source"
            return
        breadcrumb = f"{parent.breadcrumb}{BREADCRUMB_SEPARATOR}{node.title}"
    if node.breadcrumb != breadcrumb:
        yield f"the breadcrumb is {node.breadcrumb!r}, not {breadcrumb!r}"
    yield from _span_problems(node, own_end, by_id)


def _span_problems(node: Node, own_end: int, by_id: Mapping[str, Node]) -> Iterator[str]:
    """Yield a message if a node's own span and subsections leave a gap, overlap or end at the wrong line."""
    last = own_end
    for child_id in node.children:
        child = by_id[child_id]
        if child.kind != "section" or child.line_end is None:
            continue
        if child.line_start != last + 1:
            yield f"the section {child_id!r} starts at line {child.line_start}, not {last + 1}"
        last = child.line_end
    if last != node.line_end:
        yield f"the node ends at line {node.line_end}, but its own text and sections end at line {last}"
