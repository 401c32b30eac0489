"""The parents and children of a tree as arrays, which can be memory-mapped from a file.

1. The row of a node is its position in pre-order, so a subtree is a range of rows.
2. The array ``families`` contains all rows sorted by parent, then by source, then by first line. The children
   of a node are therefore next to each other in ``families``, and children from the same file are in line
   order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from branchrank.records import Node

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
        self.ties = _column(range(len(nodes)))
        self.ties[[self._rows[identifier] for identifier in sorted(nodes)]] = _column(range(len(nodes)))
        self._sources = {"": -1}
        for node in self._nodes:
            self._sources.setdefault(node.source, len(self._sources) - 1)
        self.source_rows = _column([self._sources[node.source] for node in self._nodes])
        self.line_starts = _column([node.line_start or 0 for node in self._nodes])
        self.line_ends = _column([node.own_line_end or 0 for node in self._nodes])

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


def _column(values: Sequence[int]) -> Rows:
    return np.array(values, dtype=np.int32)
