"""The one place that fuses ranked lists: branches of a system, or a reranker with the stage before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from branchrank.ranking.fusion import convex, dbsf, rrf
from branchrank.ranking.lists import RankedList
from branchrank.records import Scored
from branchrank.spec import Fuse


def fuse(lists: Mapping[str, Sequence[Scored]], slot: Fuse, weights: Mapping[str, float]) -> RankedList:
    """Fuse the branches as the slot says. With ``unit_interval`` scores lie in 0..1."""
    if slot.method == "convex":
        return convex(lists, weights)
    if slot.method == "dbsf":
        return dbsf(lists, weights)
    if slot.method == "none":
        (only,) = lists.values()
        fused, scale = RankedList.of(only), 1.0
    else:
        fused, scale = rrf(lists, slot.k, weights), (slot.k + 1) / (sum(weights.values()) or 1.0)
    if not slot.unit_interval:
        return fused
    # Rounding must not push a score past 1, and a cosine may be negative.
    return RankedList(fused.ids, tuple(max(0.0, min(1.0, score * scale)) for score in fused.scores))
