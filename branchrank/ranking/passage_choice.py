"""Passage choice: which chunk of a section is returned for it.

Each signal (cosine similarity, BM25) of the node's chunks is scaled to 0..1 between its smallest and its
largest value, and the largest sum wins; ties go to the earlier chunk. Ranks would not do: sections have a
few chunks only, and the reciprocal ranks of two signals that disagree tie.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from branchrank.ranking.fusion import convex
from branchrank.ranking.lists import ranked


def best_passage(chunks: Sequence[str], *signals: Mapping[str, float]) -> str:
    """The chunk id, of a node's ``chunks`` in line order, that answers the query best.

    Each signal maps chunk ids to scores; a chunk that a signal lacks scores 0 there. Raises ``ValueError``
    when ``chunks`` is empty.
    """
    if not chunks:
        raise ValueError("a node without chunks has no passage")
    lists = {
        str(number): ranked({chunk: signal.get(chunk, 0.0) for chunk in chunks})
        for number, signal in enumerate(signals)
    }
    fused = dict(convex(lists))
    return max(chunks, key=lambda chunk: fused.get(chunk, 0.0))
