"""Find the parent, the children and the siblings of a node in the tree, and the sections at given lines.

1. Nodes are in pre-order, so a subtree is a range of rows (:mod:`branchrank.tree.rows`).
2. A tree is built from a list of nodes in memory, or opened from a file whose nodes are decoded one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec
import numpy as np

from branchrank.records import Node, Span
from branchrank.tree.rows import NodeList, NodeTable, TreeRows


class Tree:
    """A tree of nodes in which :func:`branchrank.tree.check.find_problems` finds no problems."""

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
        self._open(table, TreeRows.of(np.array(depths, dtype=np.int32), table.source_rows, table.line_starts))

    @classmethod
    def opened(cls, table: NodeTable, rows: TreeRows) -> Tree:
        """Return a tree of the nodes in ``table``. ``rows`` contains the nodes' parents and children."""
        tree = cls.__new__(cls)
        tree._open(table, rows)
        return tree

    def _open(self, table: NodeTable, rows: TreeRows) -> None:
        self.table = table
        self.rows = rows

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
        return Tree(
            msgspec.structs.replace(
                node if node.source in sources else _as_folder(node),
                children=tuple(child for child in node.children if child in kept),
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

    def siblings(self, identifier: str) -> tuple[Node, ...]:
        """Return the children of a node's parent, in order, without the node itself."""
        parent = self.parent(identifier)
        if parent is None:
            return ()
        return tuple(child for child in self.children(parent.id) if child.id != identifier)

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


def _as_folder(node: Node) -> Node:
    """Return a copy of a node without its source, text and lines, so that the copy can't become a hit."""
    return msgspec.structs.replace(
        node, source="", text="", line_start=None, line_end=None, own_line_end=None
    )
