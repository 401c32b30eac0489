"""Score nodes by the evidence of a shortlist of chunks from vector search.

1. A chunk counts for every node whose own span it overlaps (exactly one node for BranchRank's own chunks).
2. A chunk that overlaps no node counts for its file's node.
3. A node's evidence, in 0..1, is

   ``0.6 * proximity + 0.3 * rank + 0.1 * count``

   with ``proximity = max(0, 1 - d / 2)`` for the smallest squared L2 distance ``d`` of its chunks (which
   is the cosine), ``rank = (1 + c) / (r + c)`` with ``c = 10`` for the best rank ``r`` of its chunks, and
   ``count = 1 - 1 / n`` for its ``n`` shortlisted chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from branchrank.ranking.lists import RankedList, ranked
from branchrank.records import Scored

PROXIMITY_WEIGHT = 0.6
RANK_WEIGHT = 0.3
COUNT_WEIGHT = 0.1
RANK_OFFSET = 10


def evidence(shortlist: Sequence[Scored], nodes_of: Callable[[str], Sequence[str]]) -> RankedList:
    """Rank nodes by the evidence of a dense shortlist.

    ``shortlist`` contains chunk ids with cosine similarities, best first; ``nodes_of`` maps a chunk id to the
    ids of the nodes that it counts for. Returns nodes with evidence in 0..1.
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
