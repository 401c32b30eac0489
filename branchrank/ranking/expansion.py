"""Tree expansion, which gives the neighbors of a found node a share of the node's score.

1. The seeds of the expansion are the nodes that a search found, with their scores.
2. In each of ``depth`` steps, every node with a new or increased score passes shares of the score to its
   neighbors. The parent gets 0.75 of the score, each child gets 0.7, and each of the nearest siblings (at
   most ``siblings``) gets 0.6.
3. The files that contain seeds are ranked by their best seeds. In each of the best files (at most
   ``file_roots`` files), the file's node gets half the score of the file's best seed.
4. A node that gets several scores keeps the largest one, so the result does not depend on the order of
   processing.

The root and the folders of the tree do not pass scores to other nodes. The result contains only nodes with
lines outside their subsections, because only these nodes can be hits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from branchrank.ranking.lists import RankedList
from branchrank.ranking.neighborhood import Neighborhood, Places, Scores
from branchrank.records import Scored
from branchrank.tree.navigate import Tree
from branchrank.tree.rows import Rows

FILE_ROOT_SHARE = 0.5


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
    for file, score in best[:file_roots]:
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
