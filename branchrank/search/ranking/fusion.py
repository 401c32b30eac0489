"""Combine several ranked lists into one, with the method that a system chooses (:func:`fuse`).

- :func:`rrf` sums ``weight / (k + rank)`` over the branches (Cormack, Clarke & Büttcher, SIGIR 2009).
- :func:`score` sums ``weight * score`` over the branches, after dividing each BM25 score by twice the best
  BM25 score for the query.
- The method ``convex`` sums ``weight * score`` over the branches, after min-max normalizing the scores to
  0..1 in each branch (Bruch, Gai & Ingber, TOIS 2023). If all scores of a branch are equal, each becomes 1.
- The method ``dbsf`` sums ``weight * score`` over the branches, after normalizing the scores by their mean
  and standard deviation. A score ``s`` becomes ``(s - (mean - 3 sd)) / (6 sd)``, clipped to 0..1.

The function ``score`` computes a convex combination with theoretical minima (Bruch, Gai & Ingber, TOIS 2023).
With theoretical minima, the lower end of a branch's scale is the lowest possible score (0), not the lowest
score among the query's candidates. Cosines are on the same scale for all queries, and the caller has
converted them to the scale of the default model (:class:`~branchrank.index.manifest.Spread`). BM25 scores
have no upper bound, so they are divided by the best BM25 score for the query. The fused score for a candidate
``d`` is ``w_dense * cosine(d) + 0.5 * w_bm25 * BM25(d) / max BM25``, where ``w_dense`` and ``w_bm25`` are the
weights of the two branches.

The factor 0.5 for the BM25 scores balances the two branches. The cosines of a query's candidates cover only
about half of the range 0..1, whereas the scaled BM25 scores cover the whole range. In our experiments, all
tested BM25 factors from 0.3 to 0.6 gave the same hit rates. With a BM25 factor of 1, the hit rates were as
low as with RRF.

A branch with a weight of 0 is ignored, so a key that occurs only in that branch is not in the result. A key
scores 0 in a branch that does not return the key.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

from branchrank.core.ranked_lists import RankedList, ranked
from branchrank.core.records import Scored
from branchrank.core.spec import Fuse

Branches = Mapping[str, Sequence[Scored]]
Weights = Mapping[str, float]

RRF_K = 60
#: In a branch with unbounded scores, such as BM25, the scores are scaled so that the best score has this
#: value.
SHARE = 0.5


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
    total = sum(weights.values()) or 1.0
    if slot.method in _NORMALIZED:
        fused, scale = _fuse(lists, weights, _NORMALIZED[slot.method]), 1.0 / total
    elif slot.method == "none":
        fused, scale = RankedList.of(max(lists.values(), key=len)), 1.0
    elif slot.method == "score":
        most = sum(weight * (SHARE if name in shares else 1.0) for name, weight in weights.items())
        fused, scale = score(lists, weights, shares=shares), 1.0 / (most or 1.0)
    else:
        fused, scale = rrf(lists, slot.k, weights), (slot.k + 1) / total
    if not slot.unit_interval:
        return fused
    # Clip the scores, because rounding can give scores above 1 and a cosine can be negative.
    return RankedList(fused.ids, tuple(max(0.0, min(1.0, value * scale)) for value in fused.scores))


def rrf(branches: Branches, k: float = RRF_K, weights: Weights | None = None) -> RankedList:
    """Fuse ranked lists with RRF: ``score(d) = sum_i w_i / (k + rank_i(d))``, where ranks start at 1.

    All ``weights`` default to 1. A key that occurs twice in a branch counts only once, at its better rank.
    """
    return _fuse(branches, weights, lambda scores: [1.0 / (k + rank) for rank in range(1, len(scores) + 1)])


def score(branches: Branches, weights: Weights | None = None, *, shares: Collection[str] = ()) -> RankedList:
    """Fuse ranked lists by the weighted sum of their scores.

    ``shares`` contains the names of the branches with unbounded scores, such as BM25. An unbounded score
    becomes ``0.5 * score / best score``, or 0 if the branch's best score is not positive. All ``weights``
    default to 1.

    >>> cosine = [Scored("a", 0.75), Scored("b", 0.5)]
    >>> words = [Scored("b", 12.0), Scored("a", 3.0)]
    >>> score(dict(dense=cosine, bm25=words), shares=["bm25"])
    RankedList([Scored(key='b', score=1.0), Scored(key='a', score=0.875)])
    """
    scaled = {
        name: _of_best(RankedList.of(ranking)) if name in shares else ranking
        for name, ranking in branches.items()
    }
    return _fuse(scaled, weights, list)


def _fuse(
    branches: Branches, weights: Weights | None, normalize: Callable[[Sequence[float]], list[float]]
) -> RankedList:
    fused: dict[str, float] = {}
    for name in sorted(branches):
        weight = 1.0 if weights is None else weights.get(name, 1.0)
        if weight == 0 or not branches[name]:
            continue
        ranking = _distinct(RankedList.of(branches[name]))
        for key, share in zip(ranking.ids, normalize(ranking.scores), strict=True):
            fused[key] = fused.get(key, 0.0) + weight * share
    return ranked(fused)


def _distinct(ranking: RankedList) -> RankedList:
    if len(set(ranking.ids)) == len(ranking):
        return ranking
    first: dict[str, float] = {}
    for entry in ranking:
        first.setdefault(entry.key, entry.score)
    return RankedList(tuple(first), tuple(first.values()))


def _of_best(ranking: RankedList) -> RankedList:
    best = max(ranking.scores, default=0.0)
    return RankedList(
        ranking.ids, tuple(SHARE * score / best if best > 0 else 0.0 for score in ranking.scores)
    )


def _min_max(scores: Sequence[float]) -> list[float]:
    low = min(scores)
    high = max(scores)
    if high == low:
        return [1.0] * len(scores)
    return [(score - low) / (high - low) for score in scores]


def _three_sigma(scores: Sequence[float]) -> list[float]:
    mean = math.fsum(scores) / len(scores)
    deviation = math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / len(scores))
    if deviation == 0:
        return [0.5] * len(scores)
    shares = ((score - mean + 3 * deviation) / (6 * deviation) for score in scores)
    return [min(1.0, max(0.0, share)) for share in shares]


#: The functions that normalize a branch's scores for the methods that sum normalized scores.
_NORMALIZED = {"convex": _min_max, "dbsf": _three_sigma}
