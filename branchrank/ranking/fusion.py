"""Fusion: several ranked lists into one.

``rrf``     sum over branches of weight / (k + rank)          Cormack, Clarke & Büttcher, SIGIR 2009
``convex``  sum of weight * min-max normalised score          Bruch, Gai & Ingber, TOIS 2023
``dbsf``    sum of weight * score placed in mean +- 3 sd      distribution-based score fusion

A branch of weight 0 contributes nothing: a key that only it holds is not in the result. A key that a
branch doesn't hold gets nothing from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from branchrank.ranking.lists import ranked
from branchrank.records import Scored

Branches = Mapping[str, Sequence[Scored]]
Weights = Mapping[str, float]

RRF_K = 60


def rrf(branches: Branches, k: float = RRF_K, weights: Weights | None = None) -> list[Scored]:
    """Reciprocal rank fusion: ``score(d) = sum_i w_i / (k + rank_i(d))``, ranks from 1.

    ``weights`` default to 1. A key that one branch repeats counts once, at its best rank.
    Raises ``ValueError`` for a negative weight or ``k <= -1``.
    """
    if k <= -1:
        raise ValueError(f"k must be above -1, not {k}")
    return _fuse(branches, weights, lambda entries: [1.0 / (k + rank) for rank in range(1, len(entries) + 1)])


def convex(branches: Branches, weights: Weights | None = None) -> list[Scored]:
    """Weighted sum of scores, each branch's min-max normalised to 0..1 (all-equal scores become 1)."""
    return _fuse(branches, weights, _min_max)


def dbsf(branches: Branches, weights: Weights | None = None) -> list[Scored]:
    """Weighted sum of scores, each mapped by ``(s - (mean - 3 sd)) / (6 sd)`` and clipped to 0..1."""
    return _fuse(branches, weights, _three_sigma)


def _fuse(
    branches: Branches, weights: Weights | None, normalise: Callable[[Sequence[Scored]], list[float]]
) -> list[Scored]:
    fused: dict[str, float] = {}
    for name in sorted(branches):
        weight = 1.0 if weights is None else weights.get(name, 1.0)
        if weight < 0 or math.isnan(weight):
            raise ValueError(f"the weight of branch {name!r} must be at least 0, not {weight}")
        if weight == 0:
            continue
        entries = _distinct(branches[name])
        for entry, share in zip(entries, normalise(entries), strict=True):
            fused[entry.key] = fused.get(entry.key, 0.0) + weight * share
    return ranked(fused)


def _distinct(entries: Sequence[Scored]) -> Sequence[Scored]:
    if len({entry[0] for entry in entries}) == len(entries):
        return entries
    first: dict[str, Scored] = {}
    for entry in entries:
        first.setdefault(entry.key, entry)
    return list(first.values())


def _min_max(entries: Sequence[Scored]) -> list[float]:
    if not entries:
        return []
    low = min(entry.score for entry in entries)
    high = max(entry.score for entry in entries)
    if high == low:
        return [1.0] * len(entries)
    return [(entry.score - low) / (high - low) for entry in entries]


def _three_sigma(entries: Sequence[Scored]) -> list[float]:
    if not entries:
        return []
    mean = math.fsum(entry.score for entry in entries) / len(entries)
    deviation = math.sqrt(math.fsum((entry.score - mean) ** 2 for entry in entries) / len(entries))
    if deviation == 0:
        return [0.5] * len(entries)
    shares = ((entry.score - mean + 3 * deviation) / (6 * deviation) for entry in entries)
    return [min(1.0, max(0.0, share)) for share in shares]
