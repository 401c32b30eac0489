"""The neighbors of the nodes in a tree, and the share of a node's score that each neighbor gets."""

from __future__ import annotations

import numpy as np

from branchrank.tree.navigate import Tree
from branchrank.tree.rows import Rows

PARENT_SHARE = 0.75
CHILD_SHARE = 0.7
SIBLING_SHARE = 0.6

Places = np.ndarray[tuple[int], np.dtype[np.intp]]
Scores = np.ndarray[tuple[int], np.dtype[np.float64]]


class Neighborhood:
    """Finds a node's parent, children and nearest siblings (at most ``siblings``) in the same file.

    Only files and sections have neighbors. If two siblings are the same number of lines away from the node,
    the later sibling is preferred. Neighbors are computed only for the requested nodes, so the computation
    time does not depend on the size of the tree.
    """

    def __init__(self, tree: Tree, siblings: int) -> None:
        self._rows = tree.rows
        self._sources: Rows = tree.table.source_rows
        self._lines: Rows = tree.table.line_starts
        self._siblings = siblings
        # Offsets of later siblings come first, so that a stable sort prefers later siblings.
        self._steps = np.array([*range(1, siblings + 1), *range(-1, -siblings - 1, -1)], dtype=np.intp)

    def files(self, rows: Places) -> Places:
        """Return the row of each node's file, or the node's own row if the node has no file."""
        sources, parents = self._sources, self._rows.parents
        found = rows.copy()
        while True:
            above = parents[found]
            below_file = (above >= 0) & (sources[above] == sources[found]) & (sources[found] >= 0)
            if not below_file.any():
                return found
            found[below_file] = above[below_file]

    def passed(self, frontier: Places, scores: Scores) -> tuple[Places, Scores]:
        """Return the neighbors of the rows in ``frontier``, and the score that each neighbor gets.

        ``scores`` contains the score of each row in ``frontier``. A neighbor of several rows occurs several
        times in the result.
        """
        parents = self._rows.parents[frontier]
        known = (parents >= 0) & (self._sources[parents] >= 0) & (self._sources[frontier] >= 0)
        above, givers = parents[known], scores[known]
        children, counts = self._children(frontier)
        beside, sharing = self._nearest(frontier[known], above)
        return np.concatenate([above, children, beside]).astype(np.intp), np.concatenate(
            [PARENT_SHARE * givers, CHILD_SHARE * np.repeat(scores, counts), SIBLING_SHARE * givers[sharing]]
        )

    def _children(self, frontier: Places) -> tuple[Rows, Places]:
        """Return the children of all rows in ``frontier``, and the number of children of each row."""
        starts = self._rows.children[frontier]
        counts = np.where(self._sources[frontier] >= 0, self._rows.children[frontier + 1] - starts, 0)
        ends = np.cumsum(counts)
        places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + counts, counts)
        return self._rows.families[places], counts

    def _nearest(self, rows: Places, parents: Rows) -> tuple[Rows, Places]:
        """Return the nearest siblings of all ``rows``.

        Also return, for each sibling, the index in ``rows`` of the row that it is a sibling of.
        """
        if not len(rows) or not self._siblings:
            return np.empty(0, dtype=np.int32), np.empty(0, dtype=np.intp)
        families = self._rows.families
        others = self._rows.places[rows][:, np.newaxis] + self._steps
        outside = (others < 0) | (others >= len(families))
        others[outside] = 0
        others = families[others]
        outside |= self._rows.parents[others] != parents[:, np.newaxis]
        outside |= self._sources[others] != self._sources[rows][:, np.newaxis]
        distances = np.abs(self._lines[others].astype(np.int64) - self._lines[rows][:, np.newaxis])
        distances[outside] = np.iinfo(np.int64).max
        first = np.argsort(distances, axis=1, kind="stable")[:, : self._siblings]
        real = ~np.take_along_axis(outside, first, axis=1)
        return np.take_along_axis(others, first, axis=1)[real], np.nonzero(real)[0]
