"""Find the parent and the children of a node in the tree, and the sections at given lines. Check a tree.

A tree is built from a list of nodes in memory, or opened from a file whose nodes are decoded one by one. The
parents and children are arrays, which can be memory-mapped from a file.

1. The row of a node is its position in pre-order, so a subtree is a range of rows.
2. The array ``families`` contains all rows sorted by parent, then by source, then by first line. The children
   of a node are therefore next to each other in ``families``, and children from the same file are in line
   order.

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

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from branchrank.core.records import BREADCRUMB_SEPARATOR, Node, Span

Rows = NDArray[np.int32]


class TreeRows(NamedTuple):
    """The parents and children of ``n`` nodes, as arrays.

    All arrays have the shape ``(n,)``, except ``children``, which has the shape ``(n + 1,)``.

    ``depths`` contains the depth of each node, which is 0 for the root. ``parents`` contains the row of each
    node's parent, and -1 for the root. The subtree of row ``r`` consists of the rows from ``r`` to ``ends[r]
    - 1``. ``families`` contains all rows sorted by parent, source and first line. ``places`` contains the
    position of each row in ``families``. The children of row ``r`` are the entries of ``families`` from
    position ``children[r]`` to position ``children[r + 1] - 1``.
    """

    depths: Rows
    parents: Rows
    ends: Rows
    families: Rows
    places: Rows
    children: Rows

    @classmethod
    def of(cls, depths: Rows, sources: Rows, lines: Rows) -> TreeRows:
        """Compute the arrays from the depth, source number and first line of each node in pre-order."""
        count = len(depths)
        parents = np.full(count, -1, dtype=np.int32)
        ends = np.full(count, count, dtype=np.int32)
        above = np.empty(0, dtype=np.intp)
        for depth in range(int(depths.max(initial=-1)) + 1):
            rows = np.flatnonzero(depths == depth)
            if depth:
                parents[rows] = above[np.searchsorted(above, rows) - 1]
            higher = np.append(np.flatnonzero(depths <= depth), count)
            ends[rows] = higher[np.searchsorted(higher, rows) + 1]
            above = rows
        families = np.lexsort((lines, sources, parents)).astype(np.int32)
        places = np.empty_like(families)
        places[families] = np.arange(count, dtype=np.int32)
        children = np.searchsorted(parents[families], np.arange(count + 1)).astype(np.int32)
        return cls(depths, parents, ends, families, places, children)

    def children_of(self, row: int) -> list[int]:
        """Return the rows of a node's children, in pre-order."""
        found: list[int] = np.sort(self.families[self.children[row] : self.children[row + 1]]).tolist()
        return found


class NodeTable(Protocol):
    """The nodes of a tree in pre-order, with the columns from which :class:`TreeRows` is computed.

    ``source_rows`` contains an integer for each node. Nodes with the same source have the same integer, and
    nodes without a source have -1. ``line_starts`` and ``line_ends`` contain the first and the last line of
    each node's own span, or 0 for a node without lines. ``ties`` contains each node's position in the list of
    nodes sorted by id.
    """

    @property
    def ids(self) -> Sequence[str]: ...

    @property
    def ties(self) -> Rows: ...

    @property
    def source_rows(self) -> Rows: ...

    @property
    def line_starts(self) -> Rows: ...

    @property
    def line_ends(self) -> Rows: ...

    @property
    def mapping(self) -> Mapping[str, Node]:
        """A mapping from id to node that contains every node of the tree, in pre-order."""

    def at(self, row: int) -> Node:
        """Return the node in row ``row``."""

    def row(self, identifier: str) -> int:
        """Return the row of a node. Raises ``KeyError`` if the id is unknown."""

    def in_source(self, source: str) -> Rows:
        """Return the rows of all nodes that belong to the file ``source``."""

    def stream(self) -> Iterator[Node]:
        """Yield every node in pre-order, without keeping the nodes in memory."""


class NodeList:
    """A :class:`NodeTable` in memory. ``nodes`` maps ids to nodes, and must be in pre-order."""

    def __init__(self, nodes: dict[str, Node]) -> None:
        self.mapping: Mapping[str, Node] = MappingProxyType(nodes)
        self.ids = tuple(nodes)
        self._nodes = tuple(nodes.values())
        self._rows = {identifier: row for row, identifier in enumerate(nodes)}
        self.ties = np.empty(len(nodes), dtype=np.int32)
        self.ties[[self._rows[identifier] for identifier in sorted(nodes)]] = range(len(nodes))
        self._sources = {"": -1}
        for node in self._nodes:
            self._sources.setdefault(node.source, len(self._sources) - 1)
        self.source_rows = np.array([self._sources[node.source] for node in self._nodes], dtype=np.int32)
        self.line_starts = np.array([node.line_start or 0 for node in self._nodes], dtype=np.int32)
        self.line_ends = np.array([node.own_line_end or 0 for node in self._nodes], dtype=np.int32)

    def at(self, row: int) -> Node:
        """Return the node in row ``row``."""
        return self._nodes[row]

    def row(self, identifier: str) -> int:
        """Return the row of a node. Raises ``KeyError`` if the id is unknown."""
        return self._rows[identifier]

    def in_source(self, source: str) -> Rows:
        """Return the rows of all nodes that belong to the file ``source``."""
        return np.flatnonzero(self.source_rows == self._sources.get(source, -2)).astype(np.int32)

    def stream(self) -> Iterator[Node]:
        """Return an iterator over every node in pre-order."""
        return iter(self._nodes)


class Tree:
    """A tree of nodes in which :func:`check_nodes` finds no problems."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        by_id = {node.id: node for node in nodes}
        root = next(node for node in by_id.values() if node.parent_id is None)
        ordered: dict[str, Node] = {}
        depths: list[int] = []
        waiting = [(root.id, 0)]
        while waiting:
            identifier, depth = waiting.pop()
            node = by_id[identifier]
            ordered[identifier] = node
            depths.append(depth)
            waiting.extend((child, depth + 1) for child in reversed(node.children))
        table = NodeList(ordered)
        self.table: NodeTable = table
        self.rows = TreeRows.of(np.array(depths, dtype=np.int32), table.source_rows, table.line_starts)

    @classmethod
    def opened(cls, table: NodeTable, rows: TreeRows) -> Tree:
        """Return a tree of the nodes in ``table``. ``rows`` contains the nodes' parents and children."""
        tree = cls.__new__(cls)
        tree.table, tree.rows = table, rows
        return tree

    @property
    def root(self) -> Node:
        """The root node, which represents the corpus."""
        return self.table.at(0)

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Every node by id, in pre-order."""
        return self.table.mapping

    @property
    def sections(self) -> Iterator[Node]:
        """Every file and every section of a file, in pre-order."""
        return (node for node in self.table.stream() if node.line_start is not None)

    def only(self, sources: Collection[str]) -> Tree:
        """Return the part of the tree that contains the files ``sources`` and their ancestors.

        An ancestor that belongs to a file outside ``sources`` is replaced with a copy that has no source,
        text or lines.
        """
        kept = {node.id for node in self.sections if node.source in sources} | {self.root.id}
        for node in reversed(list(self.table.stream())):
            if node.id in kept and node.parent_id is not None:
                kept.add(node.parent_id)
        hidden = {"source": "", "text": "", "line_start": None, "line_end": None, "own_line_end": None}
        return Tree(
            msgspec.structs.replace(
                node,
                children=tuple(child for child in node.children if child in kept),
                **({} if node.source in sources else hidden),
            )
            for node in self.table.stream()
            if node.id in kept
        )

    def node(self, identifier: str) -> Node:
        """Return the node with the id ``identifier``.

        All methods with the ``identifier`` argument raise ``KeyError`` for an unknown id.
        """
        return self.table.at(self.table.row(identifier))

    def parent(self, identifier: str) -> Node | None:
        """Return the parent of a node, or ``None`` for the root."""
        row = int(self.rows.parents[self.table.row(identifier)])
        return None if row < 0 else self.table.at(row)

    def children(self, identifier: str) -> tuple[Node, ...]:
        """Return the children of a node, in order."""
        return tuple(map(self.table.at, self.rows.children_of(self.table.row(identifier))))

    def height(self, identifier: str) -> int:
        """Return the number of levels below a node, which is 0 for a leaf."""
        row = self.table.row(identifier)
        depths = self.rows.depths[row : self.rows.ends[row]]
        return int(depths.max() - depths[0])

    def file_node(self, source: str) -> Node | None:
        """Return the node of the file ``source``, or ``None`` if the tree does not contain the file."""
        node = self.table.mapping.get(source)
        return node if node is not None and node.kind == "file" else None

    def of_sources(self, sources: Iterable[str]) -> Iterator[Node]:
        """Return the file nodes of ``sources`` and the nodes of their sections."""
        return (self.table.at(row) for source in sources for row in self.table.in_source(source).tolist())

    def overlapping(self, span: Span) -> tuple[Node, ...]:
        """Return the nodes whose own span shares lines with ``span``.

        Nodes whose own span shares more lines with ``span`` come first, and ties are sorted by node id.
        """
        rows = self.table.in_source(span.source)
        first = np.maximum(self.table.line_starts[rows], span.line_start)
        last = np.minimum(self.table.line_ends[rows], span.line_end)
        shared = last - first + 1
        found = shared > 0
        order = np.lexsort((self.table.ties[rows[found]], -shared[found]))
        return tuple(map(self.table.at, rows[found][order].tolist()))


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
