"""Score nodes of the tree: by the chunks that a vector search found, then by the scores of their neighbors.

The evidence of a node is computed from the best chunks of a vector search (the shortlist).

1. A node's own span is the node's lines without the lines of its subsections. A chunk counts towards every
   node whose own span overlaps the chunk. In a BranchRank index, each chunk overlaps exactly one node's own
   span.
2. A chunk that does not overlap any node's own span counts towards the node of the chunk's file.
3. A node's evidence is the score ``0.6 * proximity + 0.3 * rank + 0.1 * count``, which is between 0 and 1.
4. ``proximity`` is the largest cosine similarity between the query and the node's chunks, on the scale that
   all models share. A negative similarity counts as 0. ``rank`` is ``11 / (r + 10)``, where ``r`` is the best
   rank of the node's chunks. ``count`` is ``1 - 1 / n``, where ``n`` is the number of the node's chunks in
   the shortlist.

The expansion gives the neighbors of a found node a share of the node's score.

1. The seeds of the expansion are the nodes that a search found, with their scores.
2. In each of ``depth`` steps, every node with a new or increased score passes shares of the score to its
   neighbors. The parent gets 0.75 of the score, each child gets 0.7, and each of the nearest siblings (at
   most ``siblings``) gets 0.6.
3. The files that contain seeds are ranked by their best seeds. In each of the best files (at most
   ``file_roots`` files), the file's node gets half the score of the file's best seed. With ``depth`` 0, no
   node is added.
4. A node that gets several scores keeps the largest one, so the result does not depend on the order of
   processing.

The root and the folders of the tree do not pass scores to other nodes. The result contains only nodes with
lines outside their subsections, because only these nodes can be hits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from branchrank.core.ranked_lists import RankedList, ranked
from branchrank.core.records import Scored
from branchrank.documents.tree_nodes import Rows, Tree

PROXIMITY_WEIGHT = 0.6
RANK_WEIGHT = 0.3
COUNT_WEIGHT = 0.1
RANK_OFFSET = 10
PARENT_SHARE = 0.75
CHILD_SHARE = 0.7
SIBLING_SHARE = 0.6
FILE_ROOT_SHARE = 0.5

Places = np.ndarray[tuple[int], np.dtype[np.intp]]
Scores = np.ndarray[tuple[int], np.dtype[np.float64]]


def evidence(shortlist: Sequence[Scored], nodes_of: Callable[[str], Sequence[str]]) -> RankedList:
    """Rank nodes by their evidence, which is between 0 and 1.

    ``shortlist`` contains chunk ids with their cosine similarities, best first. ``nodes_of`` maps a chunk id
    to the ids of the nodes that the chunk counts towards.
    """
    best_rank: dict[str, int] = {}
    best_similarity: dict[str, float] = {}
    count: dict[str, int] = {}
    for rank, (chunk, similarity) in enumerate(shortlist, start=1):
        for node in nodes_of(chunk):
            best_rank.setdefault(node, rank)
            best_similarity[node] = max(similarity, best_similarity.get(node, -1.0))
            count[node] = count.get(node, 0) + 1
    return ranked(
        {
            node: PROXIMITY_WEIGHT * min(1.0, max(0.0, best_similarity[node]))
            + RANK_WEIGHT * (1 + RANK_OFFSET) / (rank + RANK_OFFSET)
            + COUNT_WEIGHT * (1 - 1 / count[node])
            for node, rank in best_rank.items()
        }
    )


def expand(
    seeds: Sequence[Scored], tree: Tree, *, depth: int = 1, siblings: int = 2, file_roots: int = 5
) -> RankedList:
    """Rank the seeds and their neighbors in the tree.

    A seed keeps its score unless it gets a larger score from a neighbor. No score in the result is larger
    than the best seed's score.
    """
    around = Neighborhood(tree, siblings)
    start = RankedList.of(seeds)
    started = np.array([tree.table.row(identifier) for identifier in start.ids], dtype=np.intp)
    order = np.argsort(started)
    rows, scores = started[order], np.array(start.scores, dtype=np.float64)[order]
    frontier = np.ones(len(rows), dtype=bool)
    for _ in range(depth):
        rows, scores, frontier = _step(around, rows, scores, frontier)
    found = dict(zip(rows.tolist(), scores.tolist(), strict=True))
    ties = tree.table.ties
    best = _best_files(around.files(started).tolist(), start.scores, ties)
    for file, score in best[: file_roots if depth else 0]:
        found[file] = max(found.get(file, 0.0), FILE_ROOT_SHARE * score)
    seeded = set(started.tolist())
    held = {row: score for row, score in found.items() if score > 0.0 or row in seeded}
    rows, scores = np.array(list(held), dtype=np.intp), np.array(list(held.values()))
    own = (tree.table.line_starts[rows] > 0) & (tree.table.line_ends[rows] >= tree.table.line_starts[rows])
    rows, scores = rows[own], scores[own]
    order = np.lexsort((ties[rows], -scores))
    identifiers = tree.table.ids
    return RankedList(tuple(identifiers[row] for row in rows[order].tolist()), tuple(scores[order].tolist()))


def _step(
    around: Neighborhood, rows: Places, scores: Scores, frontier: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> tuple[Places, Scores, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Run one expansion step. Return the scored rows, their scores, and which scores increased."""
    reached, passed = around.passed(rows[frontier], scores[frontier])
    joined = np.unique(np.concatenate([rows, reached]))
    before = np.zeros(len(joined))
    before[np.searchsorted(joined, rows)] = scores
    after = before.copy()
    np.maximum.at(after, np.searchsorted(joined, reached), passed)
    return joined, after, after > before


def _best_files(files: Sequence[int], scores: Sequence[float], ties: Rows) -> list[tuple[int, float]]:
    """Return, for each file, its row and the best score of its seeds, best file first."""
    best: dict[int, float] = {}
    for file, score in zip(files, scores, strict=True):
        best[file] = max(best.get(file, score), score)
    return sorted(best.items(), key=lambda entry: (-entry[1], ties[entry[0]]))


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
