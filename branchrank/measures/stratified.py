"""Paired comparisons over several datasets, with a macro average, its interval and a stratified test.

1. The macro difference is the mean of the datasets' mean differences. Every dataset has the same weight,
   regardless of its number of questions.
2. The test is a sign-flip test by page (:mod:`branchrank.measures.significance`), stratified by dataset. The
   sum of a page's differences is divided by (number of datasets * number of questions in the page's dataset),
   so that the total over all pages is the macro difference. The test therefore detects differences that are
   consistent across the datasets, and is not affected by how hard each dataset is.
3. The confidence interval for the macro difference combines the datasets' intervals, which are independent of
   each other. Let d be the datasets' differences, l and u the bounds of their intervals, and w the weights.
   The lower bound is sum(w * d) - sqrt(sum((w * (d - l))**2)), and the upper bound is sum(w * d) +
   sqrt(sum((w * (u - d))**2)) (MOVER, Zou and Donner 2008). The interval for a system's macro average is also
   computed with MOVER, from the system's mean on each dataset.
4. The comparisons of all candidates form one family. Tests use Holm's correction, and intervals use
   Bonferroni's. The intervals are adjusted to agree with the tests
   (:func:`~branchrank.measures.intervals.compatible`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np

from branchrank.measures.intervals import LEVEL, Interval, compatible, difference_interval, mean_interval
from branchrank.measures.power import ALPHA
from branchrank.measures.significance import (
    DRAWS,
    ROUNDING,
    Floats,
    cluster_sums,
    holm,
    non_zero,
    p_floor,
    sign_flip,
)
from branchrank.measures.verdicts import DELTA, Scores, Verdict, verdict_of
from branchrank.records import Record


class Stratum(NamedTuple):
    """The scores and gold pages for one dataset.

    ``scores`` maps system -> question id -> score in 0..1. ``pages`` maps question id -> source of the gold.
    """

    scores: Mapping[str, Scores]
    pages: Mapping[str, str]


class StratifiedComparison(Record, frozen=True, kw_only=True):
    """The comparison of one candidate with the baseline on one measure, over all datasets.

    ``difference`` is the macro difference (candidate - baseline). ``ci_low`` and ``ci_high`` are the bounds
    of the interval for the macro difference. The interval is adjusted for the number of comparisons,
    ``family``. The bounds are ``None`` if a dataset has too few pages for an interval. ``differences``
    contains the mean difference on each dataset, in the order of the datasets. ``wins``, ``ties`` and
    ``losses`` count questions over all datasets.
    """

    measure: str
    baseline: str
    candidate: str
    difference: float
    ci_low: float | None
    ci_high: float | None
    p: float
    p_adjusted: float
    test: str
    differences: tuple[float, ...]
    wins: int
    ties: int
    losses: int
    p_floor: float
    family: int
    alpha: float
    delta: float
    verdict: Verdict


def macro_interval(
    estimates: Sequence[float], intervals: Sequence[Interval | None], level: float = LEVEL
) -> Interval | None:
    """Return the interval for the mean of independent ``estimates``.

    The result is ``None`` if the interval of any estimate is ``None``, or if there are no estimates.

    >>> found = macro_interval([0.2, 0.4], [Interval(low=0.1, high=0.3), Interval(low=0.3, high=0.5)])
    >>> round(found.low, 4), round(found.high, 4)
    (0.2293, 0.3707)
    """
    known = [each for each in intervals if each is not None]
    if not known or len(known) < len(intervals):
        return None
    mean = sum(estimates) / len(estimates)
    below = sqrt(sum((value - each.low) ** 2 for value, each in zip(estimates, known, strict=True)))
    above = sqrt(sum((each.high - value) ** 2 for value, each in zip(estimates, known, strict=True)))
    return Interval(low=mean - below / len(known), high=mean + above / len(known), level=level)


def macro_average(strata: Sequence[Stratum], system: str) -> tuple[float, Interval | None]:
    """Return a system's macro average (the mean of the per-dataset means) with a 95% interval."""
    means, intervals = [], []
    for stratum in strata:
        values = [stratum.scores[system][key] for key in stratum.pages]
        means.append(sum(values) / len(values))
        intervals.append(mean_interval(values, list(stratum.pages.values())))
    return sum(means) / len(means), macro_interval(means, intervals)


def compare_strata(
    strata: Sequence[Stratum],
    *,
    measure: str,
    baseline: str,
    delta: float = DELTA,
    alpha: float = ALPHA,
    seed: int = 0,
    draws: int = DRAWS,
) -> tuple[StratifiedComparison, ...]:
    """Compare each system with the baseline over all datasets.

    The comparisons are in the order in which the first dataset lists the systems. Each stratum must have at
    least one question, and all strata must have scores for the same systems.
    """
    candidates = [name for name in strata[0].scores if name != baseline]
    found = [_gaps(strata, baseline, candidate) for candidate in candidates]
    tests = [sign_flip(np.concatenate(_weighted(each, strata)), seed=seed, draws=draws) for each in found]
    adjusted = holm([test.p for test in tests])
    family = len(candidates)
    compared = []
    for candidate, gaps, test, p in zip(candidates, found, tests, adjusted, strict=True):
        means = [float(each.mean()) for each in gaps]
        difference = sum(means) / len(means)
        each_interval = [
            difference_interval(each, list(stratum.pages.values()), level=1 - alpha / family)
            for each, stratum in zip(gaps, strata, strict=True)
        ]
        interval = macro_interval(means, each_interval, 1 - alpha / family)
        interval = compatible(interval, difference, rejected=p < alpha)
        moved = [
            cluster_sums(np.abs(each), list(stratum.pages.values()))
            for each, stratum in zip(gaps, strata, strict=True)
        ]
        floor = p_floor(len(non_zero(np.concatenate(moved))))
        whole = np.concatenate(gaps)
        wins, losses = int((whole > 0).sum()), int((whole < 0).sum())
        compared.append(
            StratifiedComparison(
                measure=measure,
                baseline=baseline,
                candidate=candidate,
                difference=difference,
                ci_low=None if interval is None else interval.low,
                ci_high=None if interval is None else interval.high,
                p=test.p,
                p_adjusted=p,
                test=f"stratified {test.test}",
                differences=tuple(means),
                wins=wins,
                ties=len(whole) - wins - losses,
                losses=losses,
                p_floor=floor,
                family=family,
                alpha=alpha,
                delta=delta,
                verdict=verdict_of(p, difference, interval, floor, family, alpha, delta),
            )
        )
    return tuple(compared)


def _gaps(strata: Sequence[Stratum], baseline: str, candidate: str) -> list[Floats]:
    """Return the differences per question (candidate - baseline) for each dataset.

    Differences whose absolute value is below 1e-9 become 0.
    """
    found = []
    for stratum in strata:
        a, b = stratum.scores[baseline], stratum.scores[candidate]
        gaps = np.array([b[key] - a[key] for key in stratum.pages], dtype=np.float64)
        gaps[np.abs(gaps) < ROUNDING] = 0.0
        found.append(gaps)
    return found


def _weighted(gaps: Sequence[Floats], strata: Sequence[Stratum]) -> list[Floats]:
    """Return each dataset's page sums, multiplied by (size of the largest dataset) / (size of this dataset).

    The sums are multiplied by a factor of at least 1 and never scaled down, because :func:`sign_flip` treats
    sums below 1e-9 as 0.
    """
    largest = max(map(len, gaps))
    return [
        cluster_sums(each, list(stratum.pages.values())) * (largest / len(each))
        for each, stratum in zip(gaps, strata, strict=True)
    ]
