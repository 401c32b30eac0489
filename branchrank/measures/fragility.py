"""Fragility: how few gold labels decide a result.

Suppose that a question's gold was wrong and that the other predictor had found the right answer: then its
difference changes sign. Relabelling the questions in this way, those that favour the leader most first,
shrinks the lead with the fewest labels, since the total falls by twice each difference and the null
distribution of the sign-flip test stays as it is (with one question per cluster; with larger clusters the
count is an upper bound).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from branchrank.measures.power import ALPHA
from branchrank.measures.significance import cluster_sums, sign_flip
from branchrank.measures.verdicts import Scores
from branchrank.records import Record


class Fragility(Record, frozen=True, kw_only=True):
    """The fewest relabelled questions that end a lead.

    ``leader`` is the predictor with the higher mean, ``None`` when they tie. ``unsettle`` are the questions
    after whose relabelling the test no longer rejects (empty when it doesn't now); ``overturn`` those after
    which the leader no longer leads. If several questions weigh the same, the first ids are taken;
    ``candidates`` counts all the questions that favour the leader.
    """

    leader: str | None
    unsettle: tuple[str, ...]
    overturn: tuple[str, ...]
    candidates: int


def fragility(
    a: tuple[str, Scores],
    b: tuple[str, Scores],
    clusters: Mapping[str, str],
    *,
    alpha: float = ALPHA,
    seed: int = 0,
) -> Fragility:
    """Fragility of the lead between two named predictors scored on the questions of ``clusters``.

    The test is the sign-flip by cluster (McNemar's where clusters are single), unadjusted: pass alpha
    divided by the number of candidates for a verdict corrected by Holm.
    """
    ids = sorted(clusters)
    differences = np.array([b[1][each] - a[1][each] for each in ids])
    total = float(differences.sum())
    if abs(total) < 1e-9:
        return Fragility(leader=None, unsettle=(), overturn=(), candidates=0)
    if total < 0:
        differences = -differences
    favouring = sorted(
        (i for i in range(len(ids)) if differences[i] > 0), key=lambda i: (-differences[i], ids[i])
    )
    sources = [clusters[each] for each in ids]
    unsettled: int | None = None
    overturned = 0
    remaining = differences.copy()
    while True:
        if unsettled is None and sign_flip(cluster_sums(remaining, sources), seed=seed).p >= alpha:
            unsettled = overturned
        if remaining.sum() <= 1e-9:
            break
        remaining[favouring[overturned]] *= -1
        overturned += 1
    chosen = tuple(ids[i] for i in favouring)
    return Fragility(
        leader=b[0] if total > 0 else a[0],
        unsettle=chosen[: overturned if unsettled is None else unsettled],
        overturn=chosen[:overturned],
        candidates=len(favouring),
    )
