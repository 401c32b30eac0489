"""Passage choice: which chunk of a section is returned for it.

The chunks of one node are ranked by cosine similarity and by BM25; the largest sum of reciprocal
ranks wins (RRF with k = 0, so that a first place counts most); ties go to the earlier chunk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from branchrank.ranking.fusion import rrf
from branchrank.ranking.lists import ranked


def best_passage(chunks: Sequence[str], *branches: Mapping[str, float]) -> str:
    """The chunk id, of a node's ``chunks`` in line order, that answers the query best.

    Each branch maps chunk ids to scores; a chunk that a branch lacks, or scores 0 or less, has no rank
    there. Raises ``ValueError`` when ``chunks`` is empty.
    """
    if not chunks:
        raise ValueError("a node without chunks has no passage")
    lists = {
        str(number): ranked({chunk: branch[chunk] for chunk in chunks if branch.get(chunk, 0.0) > 0})
        for number, branch in enumerate(branches)
    }
    fused = dict(rrf(lists, k=0))
    return max(chunks, key=lambda chunk: fused.get(chunk, 0.0))
