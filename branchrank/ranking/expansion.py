"""Tree expansion: a node's neighbours receive a share of its evidence.

1. Expansion starts from the seeds with their evidence.
2. At each of ``depth`` steps, every node reached in the previous step passes on its score: its parent gets
   0.75 of it, each child 0.7, and each of the ``siblings`` nearest siblings 0.6.
3. The files of the seeds are sorted by their best evidence; the file nodes of the first ``file_roots`` files
   get 0.5 of it.
4. A node keeps the largest score that it receives, so the result does not depend on the order of processing.

Root and folder nodes pass on no score and are never in the result.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from branchrank.ranking.lists import RankedList
from branchrank.ranking.neighbourhood import neighbourhood
from branchrank.records import Scored
from branchrank.tree.navigate import Tree

FILE_ROOT_SHARE = 0.5


def expand(
    seeds: Sequence[Scored], tree: Tree, *, depth: int = 1, siblings: int = 2, file_roots: int = 5
) -> RankedList:
    """Rank the seeds and their neighbours.

    A seed keeps its own score unless a larger one reaches it. No score is larger than the best seed's.
    """
    around = neighbourhood(tree, siblings)
    nodes = around.nodes
    start = RankedList.of(seeds)
    started = np.array([nodes.places[identifier] for identifier in start.ids], dtype=np.intp)
    scores = np.zeros(len(nodes.ids))
    scores[started] = start.scores
    frontier = started
    for _ in range(depth):
        before = scores.copy()
        reached, passed = around.passed(frontier, before)
        np.maximum.at(scores, reached, passed)
        frontier = np.flatnonzero(scores > before)
    for file, score in _best_files(nodes.files[started].tolist(), start.scores)[:file_roots]:
        scores[file] = max(scores[file], FILE_ROOT_SHARE * score)
    held = scores > 0.0
    held[started] = True
    found = np.flatnonzero(held)
    # Places are sorted by id, so a stable sort breaks ties by key.
    order = found[np.argsort(-scores[found], kind="stable")]
    return RankedList(tuple(map(nodes.ids.__getitem__, order.tolist())), tuple(scores[order].tolist()))


def _best_files(files: Sequence[int], scores: Sequence[float]) -> list[tuple[int, float]]:
    """The place of each file and its best score, best first; ties in the order of places."""
    best: dict[int, float] = {}
    for file, score in zip(files, scores, strict=True):
        best[file] = max(best.get(file, score), score)
    return sorted(best.items(), key=lambda entry: (-entry[1], entry[0]))
