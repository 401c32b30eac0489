"""Tree expansion: a node's neighbours inherit a share of its evidence.

1. Start from the seeds with their evidence.
2. At each of ``depth`` steps every node reached in the step before passes its score on: its parent
   gets 0.75 of it, each child 0.7, each of the ``siblings`` nearest siblings 0.6.
3. The files of the seeds, best evidence first, give their first ``file_roots`` file nodes 0.5 of it.
4. A node keeps the largest score that reaches it, so the result doesn't depend on any order.

Root and folder nodes pass nothing on and are never in the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from branchrank.ranking.lists import ranked
from branchrank.records import Node, Scored
from branchrank.tree.navigate import Tree

PARENT_SHARE = 0.75
CHILD_SHARE = 0.7
SIBLING_SHARE = 0.6
FILE_ROOT_SHARE = 0.5


def expand(
    seeds: Sequence[Scored], tree: Tree, *, depth: int = 1, siblings: int = 2, file_roots: int = 5
) -> list[Scored]:
    """Seeds and their neighbours, ranked; scores are at most the largest seed's. Seeds keep theirs."""
    scores = {seed.key: seed.score for seed in seeds}
    frontier = dict(scores)
    for _ in range(depth):
        reached: dict[str, float] = {}
        for key, score in frontier.items():
            for neighbour, share in _neighbours(tree, key, siblings):
                passed = share * score
                if passed > scores.get(neighbour, 0.0):
                    scores[neighbour] = reached[neighbour] = passed
        frontier = reached
    for source, score in _best_files(seeds, tree, file_roots):
        root = tree.file_node(source)
        if root is not None:
            scores[root.id] = max(scores.get(root.id, 0.0), FILE_ROOT_SHARE * score)
    return ranked(scores)


@lru_cache(maxsize=1 << 16)
def _neighbours(tree: Tree, key: str, siblings: int) -> tuple[tuple[str, float], ...]:
    """A node's neighbours with their shares; questions meet the same nodes again and again."""
    return tuple(_walk(tree, key, siblings))


def _walk(tree: Tree, key: str, siblings: int) -> Iterator[tuple[str, float]]:
    parent = tree.parent(key)
    if parent is not None and parent.source:
        yield parent.id, PARENT_SHARE
    for child in tree.children(key):
        if child.source:
            yield child.id, CHILD_SHARE
    if siblings and parent is not None and parent.source:
        for sibling in _nearest(tree.node(key), tree.siblings(key), siblings):
            yield sibling.id, SIBLING_SHARE


def _nearest(node: Node, siblings: Sequence[Node], count: int) -> list[Node]:
    """The ``count`` siblings in the same file that stand closest to the node, the following one first."""
    here = node.line_start or 0
    near = [sibling for sibling in siblings if sibling.source == node.source]
    near.sort(key=lambda sibling: (abs((sibling.line_start or 0) - here), -(sibling.line_start or 0)))
    return near[:count]


def _best_files(seeds: Sequence[Scored], tree: Tree, limit: int) -> list[Scored]:
    """The files of the seeds with their best seed's score, best first, ties by path."""
    best: dict[str, float] = {}
    for seed in seeds:
        source = tree.node(seed.key).source
        best[source] = max(best.get(source, seed.score), seed.score)
    return ranked(best, limit)
