"""The tree in memory: the parent, children and siblings of a node, and the sections at given lines.

1. Nodes are sorted into pre-order once, so a subtree is a slice.
2. The own spans of one source partition its lines, so the sections that overlap a span are consecutive in
   line order and are found by bisection.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from branchrank.records import Node, Span


class _SourceSections(NamedTuple):
    """The nodes of one source in line order, and their first lines."""

    starts: list[int]
    nodes: list[Node]


class Tree:
    """A valid tree: nodes without problems according to :func:`branchrank.tree.check.find_problems`."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        by_id = {node.id: node for node in nodes}
        self.root: Node = next(node for node in by_id.values() if node.parent_id is None)
        ordered: dict[str, Node] = {}
        waiting = [self.root.id]
        while waiting:
            identifier = waiting.pop()
            node = by_id[identifier]
            ordered[identifier] = node
            waiting.extend(reversed(node.children))
        self._nodes = ordered

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Every node by id, in pre-order."""
        return MappingProxyType(self._nodes)

    @cached_property
    def sections(self) -> tuple[Node, ...]:
        """Every node that has lines (files and their sections), in pre-order."""
        return tuple(node for node in self._nodes.values() if node.line_start is not None)

    def only(self, sources: Collection[str]) -> Tree:
        """The part of the tree with these sources. Pages of other sources above them are kept as folders."""
        kept = {node.id for node in self.sections if node.source in sources} | {self.root.id}
        for node in reversed(self._pre_order):
            if node.id in kept and node.parent_id is not None:
                kept.add(node.parent_id)
        return Tree(
            msgspec.structs.replace(
                node if node.source in sources else _as_folder(node),
                children=tuple(child for child in node.children if child in kept),
            )
            for node in self._pre_order
            if node.id in kept
        )

    def node(self, identifier: str) -> Node:
        """The node with this id. All methods that take an id raise ``KeyError`` if it is unknown."""
        return self._nodes[identifier]

    def parent(self, identifier: str) -> Node | None:
        """The node's parent, ``None`` for the root."""
        parent_id = self._nodes[identifier].parent_id
        return None if parent_id is None else self._nodes[parent_id]

    def children(self, identifier: str) -> tuple[Node, ...]:
        """The node's children, in order."""
        return tuple(self._nodes[child] for child in self._nodes[identifier].children)

    def siblings(self, identifier: str) -> tuple[Node, ...]:
        """The other children of the node's parent, in order."""
        parent = self.parent(identifier)
        if parent is None:
            return ()
        return tuple(self._nodes[child] for child in parent.children if child != identifier)

    def height(self, identifier: str) -> int:
        """The number of levels below the node, 0 for a leaf."""
        return self._heights[identifier]

    def file_node(self, source: str) -> Node | None:
        """The node of a whole file, ``None`` if the source is not in the tree."""
        node = self._nodes.get(source)
        return node if node is not None and node.kind == "file" else None

    def overlapping(self, span: Span) -> tuple[Node, ...]:
        """The nodes whose own span shares lines with ``span``: most shared lines first, ties by id."""
        sections = self._by_source.get(span.source)
        if sections is None:
            return ()
        found: list[tuple[int, str, Node]] = []
        first = max(0, bisect_right(sections.starts, span.line_start) - 1)
        for node in sections.nodes[first : bisect_right(sections.starts, span.line_end)]:
            own = node.own_span
            assert own is not None
            if shared := own.overlap(span):
                found.append((-shared, node.id, node))
        return tuple(node for _, _, node in sorted(found, key=lambda entry: entry[:2]))

    @cached_property
    def _pre_order(self) -> tuple[Node, ...]:
        return tuple(self._nodes.values())

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {identifier: position for position, identifier in enumerate(self._nodes)}

    @cached_property
    def _heights(self) -> dict[str, int]:
        heights: dict[str, int] = {}
        for node in reversed(self._pre_order):
            heights[node.id] = max((heights[child] + 1 for child in node.children), default=0)
        return heights

    @cached_property
    def _by_source(self) -> dict[str, _SourceSections]:
        by_source: dict[str, _SourceSections] = {}
        for node in self.sections:
            own = node.own_span
            assert own is not None
            if own.lines < 1:
                continue
            entry = by_source.setdefault(node.source, _SourceSections([], []))
            entry.starts.append(own.line_start)
            entry.nodes.append(node)
        return by_source


def _as_folder(node: Node) -> Node:
    """The node without lines, so that it is never a hit."""
    return msgspec.structs.replace(
        node, source="", text="", line_start=None, line_end=None, own_line_end=None
    )
