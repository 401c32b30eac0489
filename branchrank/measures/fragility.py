"""The fragility of a result, which is the number of wrong gold labels that would change the result.

Suppose that a question's gold is wrong, and that the predictor with the lower score had in fact found the
correct answer. If the gold label is corrected, the question's difference in score changes its sign, so the
sum of the differences over all questions falls by twice the question's difference. The labels of the
questions that favor the leader most are corrected first, because correcting these labels reduces the sum of
the differences most. If every question is its own cluster, correcting labels does not change the null
distribution of the sign-flip test. If clusters have several questions, the computed number of labels to
correct is only an upper bound: correcting fewer labels may be enough to change the result.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from branchrank.measures.power import ALPHA
from branchrank.measures.significance import cluster_sums, sign_flip
from branchrank.measures.verdicts import Scores
from branchrank.records import Record


class Fragility(Record, frozen=True, kw_only=True):
    """The smallest sets of questions whose relabeling makes a lead disappear or lose its significance.

    ``leader`` is the predictor with the higher mean, or ``None`` if the means are equal. If the questions in
    ``unsettle`` are relabeled, the difference is no longer significant. ``unsettle`` is empty if the
    difference is not significant with the original labels. If the questions in ``overturn`` are relabeled,
    the leader's mean is no longer higher than the other predictor's mean. Questions with equal differences
    are sorted by id. ``candidates`` counts the questions that favor the leader.
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
    """Return the fragility of the better predictor's lead on the questions of ``clusters``.

    The test is a sign-flip test by cluster, without correction for multiple comparisons. For hit rates with
    one question per cluster, the sign-flip test is the same as the exact McNemar test. If the verdict uses
    Holm's correction, pass alpha divided by the number of candidates.
    """
    ids = sorted(clusters)
    differences = np.array([b[1][each] - a[1][each] for each in ids])
    total = float(differences.sum())
    if abs(total) < 1e-9:
        return Fragility(leader=None, unsettle=(), overturn=(), candidates=0)
    if total < 0:
        differences = -differences
    favoring = sorted(
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
        remaining[favoring[overturned]] *= -1
        overturned += 1
    chosen = tuple(ids[i] for i in favoring)
    return Fragility(
        leader=b[0] if total > 0 else a[0],
        unsettle=chosen[: overturned if unsettled is None else unsettled],
        overturn=chosen[:overturned],
        candidates=len(favoring),
    )
