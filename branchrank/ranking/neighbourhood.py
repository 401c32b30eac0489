"""The neighbours of each node in a tree, and the share of its score that each neighbour gets.

1. The nodes are numbered in the order of their ids, once per tree. A node's number is its place.
2. The outgoing edges of a node are one row of a compressed sparse row matrix, so a step from any number of
   nodes takes a few array operations.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from branchrank.records import Node
from branchrank.tree.navigate import Tree

PARENT_SHARE = 0.75
CHILD_SHARE = 0.7
SIBLING_SHARE = 0.6

Places = np.ndarray[tuple[int], np.dtype[np.intp]]
Scores = np.ndarray[tuple[int], np.dtype[np.float64]]


class Numbered:
    """A tree as arrays indexed by the places of its nodes.

    ``ids`` are in ascending order, and ``places`` maps an id to its place. ``files`` holds the place of each
    node's file (for a node without a file, its own place). ``below`` and ``above`` hold every node whose
    parent is a file or section, and that parent, one family of siblings after the other, each family in the
    order of ``lines``. ``family`` is the number of each node's family.
    """

    def __init__(self, tree: Tree) -> None:
        self.ids = tuple(sorted(tree.nodes))
        self.places = {key: place for place, key in enumerate(self.ids)}
        self.files = _places(
            [self.places.get(tree.node(key).source, place) for key, place in self.places.items()]
        )
        families: dict[tuple[str, str], list[Node]] = {}
        for node in tree.sections:
            if node.parent_id is not None and tree.node(node.parent_id).source:
                families.setdefault((node.parent_id, node.source), []).append(node)
        children = [node for family in families.values() for node in sorted(family, key=_line)]
        sizes = [len(family) for family in families.values()]
        self.below = _places([self.places[node.id] for node in children])
        self.above = np.repeat(_places([self.places[parent] for parent, _ in families]), sizes)
        self.lines = np.array([_line(node) for node in children], dtype=np.int64)
        self.family = np.repeat(np.arange(len(sizes)), sizes)


class Neighbourhood:
    """The edges of a tree: to parents, to children, and to the nearest ``siblings`` in the same file.

    Only nodes with a source (files and sections) have edges. If two siblings are equally near in lines, the
    later one comes first.
    """

    def __init__(self, tree: Tree, siblings: int) -> None:
        self.nodes = nodes = _numbered(tree)
        beside, nearest = _nearest(nodes, siblings)
        leaving = np.concatenate([nodes.below, nodes.above, beside])
        order = np.argsort(leaving, kind="stable")
        self._targets = np.concatenate([nodes.above, nodes.below, nearest])[order]
        self._shares = np.repeat(
            [PARENT_SHARE, CHILD_SHARE, SIBLING_SHARE], [len(nodes.below), len(nodes.above), len(beside)]
        )[order]
        self._starts = np.searchsorted(leaving[order], np.arange(len(nodes.ids) + 1))

    def passed(self, frontier: Places, scores: Scores) -> tuple[Places, Scores]:
        """Return the neighbours of the places in ``frontier``, one per edge, and the score passed to each.

        ``scores``, shape ``(nodes,)``, contains the scores of all places.
        """
        starts = self._starts[frontier]
        lengths = self._starts[frontier + 1] - starts
        ends = np.cumsum(lengths)
        edges = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + lengths, lengths)
        return self._targets[edges], self._shares[edges] * np.repeat(scores[frontier], lengths)


@lru_cache(maxsize=32)
def neighbourhood(tree: Tree, siblings: int) -> Neighbourhood:
    """The neighbourhood of a tree; it is computed once per tree."""
    return Neighbourhood(tree, siblings)


@lru_cache(maxsize=8)
def _numbered(tree: Tree) -> Numbered:
    return Numbered(tree)


def _nearest(nodes: Numbered, count: int) -> tuple[Places, Places]:
    """Pairs of a node and one of its ``count`` nearest siblings, as two arrays."""
    size = len(nodes.below)
    if not size or not count:
        return _places([]), _places([])
    # Later siblings come first, so that a stable sort prefers them.
    steps = np.array([*range(1, count + 1), *range(-1, -count - 1, -1)])
    others = np.arange(size)[:, np.newaxis] + steps
    outside = (others < 0) | (others >= size)
    others[outside] = 0
    outside |= nodes.family[others] != nodes.family[:, np.newaxis]
    distances = np.abs(nodes.lines[others] - nodes.lines[:, np.newaxis])
    distances[outside] = np.iinfo(np.int64).max
    first = np.argsort(distances, axis=1, kind="stable")[:, :count]
    real = ~np.take_along_axis(outside, first, axis=1)
    nearest = np.take_along_axis(others, first, axis=1)
    return np.repeat(nodes.below, real.sum(axis=1)), nodes.below[nearest[real]]


def _places(values: list[int]) -> Places:
    return np.array(values, dtype=np.intp)


def _line(node: Node) -> int:
    return node.line_start or 0
