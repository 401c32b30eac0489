"""Fusion of the ranked lists of a system's branches, and of the rankings before and after reranking."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from branchrank.ranking.fusion import SHARE, convex, dbsf, rrf, score
from branchrank.ranking.lists import RankedList
from branchrank.records import Scored
from branchrank.spec import Branch, Fuse, System
from branchrank.systems.branches import branch_kind, label


def fuse(
    lists: Mapping[str, Sequence[Scored]],
    slot: Fuse,
    weights: Mapping[str, float],
    shares: Collection[str] = (),
) -> RankedList:
    """Fuse ranked lists with a system's ``fuse`` settings. If ``unit_interval`` is set, scores are in 0..1.

    ``shares`` contains the names of the branches with unbounded scores, such as BM25. Score fusion divides
    each unbounded score by twice the branch's best score.
    """
    if slot.method == "convex":
        return convex(lists, weights)
    if slot.method == "dbsf":
        return dbsf(lists, weights)
    if slot.method == "none":
        (only,) = lists.values()
        fused, scale = RankedList.of(only), 1.0
    elif slot.method == "score":
        most = sum(weight * (SHARE if name in shares else 1.0) for name, weight in weights.items())
        fused, scale = score(lists, weights, shares=shares), 1.0 / (most or 1.0)
    else:
        fused, scale = rrf(lists, slot.k, weights), (slot.k + 1) / (sum(weights.values()) or 1.0)
    if not slot.unit_interval:
        return fused
    # Clip the scores, because rounding can give scores above 1 and a cosine can be negative.
    return RankedList(fused.ids, tuple(max(0.0, min(1.0, value * scale)) for value in fused.scores))


def shared_branches(system: System) -> frozenset[str]:
    """Return the names of the branches with unbounded scores, except branches with ``expand`` set."""
    return frozenset(label(branch) for branch in system.searched if _is_open(branch))


def _is_open(branch: Branch) -> bool:
    return branch.expand is None and branch_kind(branch.kind).scale == "open"
