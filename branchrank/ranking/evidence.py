"""Score nodes by the best chunks from a vector search (the shortlist).

1. A node's own span is the node's lines without the lines of its subsections. A chunk counts towards every
   node whose own span overlaps the chunk. In a BranchRank index, each chunk overlaps exactly one node's own
   span.
2. A chunk that does not overlap any node's own span counts towards the node of the chunk's file.
3. A node's evidence is the score ``0.6 * proximity + 0.3 * rank + 0.1 * count``, which is between 0 and 1.
4. ``proximity`` is the largest cosine similarity between the query and the node's chunks. A negative
   similarity counts as 0. ``rank`` is ``11 / (r + 10)``, where ``r`` is the best rank of the node's chunks.
   ``count`` is ``1 - 1 / n``, where ``n`` is the number of the node's chunks in the shortlist.
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
