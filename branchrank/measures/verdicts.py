"""Paired comparisons of predictors, with their verdicts.

1. For each question, subtract the baseline's score from the candidate's score.
2. Test the differences (:mod:`branchrank.measures.significance`). The test is the exact McNemar test if all
   scores are 0 or 1 and each cluster has one question, and a sign-flip test by cluster otherwise. Adjust the
   p-values with Holm's correction over all candidates.
3. Compute an interval for the mean difference (:mod:`branchrank.measures.intervals`) at the level 1 - alpha /
   family, where ``family`` is the number of comparisons. At this level, the probability that all intervals
   contain their true differences is at least 1 - alpha (Bonferroni; Dunn 1961). If the adjusted test is
   significant, an interval that includes 0 is truncated at 0. If the adjusted test is not significant, an
   interval that excludes 0 is extended to include 0. The test and the interval therefore never contradict
   each other (:func:`~branchrank.measures.intervals.compatible`).
4. The verdict is ``better`` or ``worse`` if the adjusted p is below alpha. If the adjusted p is not below
   alpha and the whole interval is strictly between -delta and delta, the verdict is ``equivalent within
   delta`` (two one-sided tests at alpha / 2 each, which is stricter than the customary alpha). All other
   comparisons have the verdict ``too few questions to tell`` if even a unanimous result would not be
   significant, and ``inconclusive`` otherwise. A result is unanimous if the same predictor scores higher in
   every cluster in which the two predictors' scores differ. A cluster counts as different if the scores
   differ on at least one of its questions, even if its wins and losses cancel out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Literal

import numpy as np

from branchrank.errors import UsageError
from branchrank.measures import power
from branchrank.measures.clustering import (
    LEAST_PAGES,
    PageTotals,
    design_effect,
    effective_pages,
    intraclass_correlation,
    page_totals,
    t_penalty,
    working_degrees,
)
from branchrank.measures.effects import Odds, cohens_d, matched_odds
from branchrank.measures.intervals import Interval, compatible, difference_interval
from branchrank.measures.significance import (
    DRAWS,
    ROUNDING,
    Floats,
    Significance,
    cluster_sums,
    holm,
    mcnemar,
    non_zero,
    p_floor,
    paired_t,
    sign_flip,
)
from branchrank.records import Record

Verdict = Literal["better", "worse", "equivalent within delta", "inconclusive", "too few questions to tell"]
Decision = Literal["pass", "fail", "undecided"]

DELTA = 0.02
PILOT_BELOW = 50

Scores = Mapping[str, float]


class Comparison(Record, frozen=True, kw_only=True):
    """The comparison of a candidate with a baseline on one measure, for the same ``n`` questions.

    ``mean_a`` is the baseline's mean, ``mean_b`` is the candidate's mean, and ``difference`` is ``mean_b -
    mean_a``. ``ci_low`` and ``ci_high`` are the bounds of the confidence interval for the difference. The
    bounds are ``None`` if the gold is on too few pages. ``family`` is the number of comparisons that Holm's
    correction covers. The probability that the intervals of all ``family`` comparisons contain their true
    differences is at least 1 - ``alpha``. ``p`` is the p-value from ``test``, and ``p_adjusted`` is ``p``
    after Holm's correction over ``family`` comparisons. ``p_mcnemar`` is the p-value from McNemar's test, or
    ``None`` if any score is neither 0 nor 1. ``p_t`` is the p-value from the paired t-test. Reports show
    ``p_mcnemar`` and ``p_t``, but the verdict depends on neither of them. ``wins``, ``ties`` and ``losses``
    count the questions on which the candidate's score is higher than, equal to or lower than the baseline's
    score. ``mde`` is the smallest true difference that ``n`` questions with the observed disagreement (or
    standard deviation) can detect with 80% power. ``questions_needed`` is the number of questions needed to
    detect the observed difference with 80% power. ``mde`` and ``questions_needed`` account for clustering and
    for the strictest step of Holm's correction. ``mde`` is ``None`` if ``n`` questions can't detect any
    difference, and ``questions_needed`` is ``None`` if 20,000 questions are not enough. ``p_floor`` is the
    smallest possible p-value, which results if the same predictor wins in every cluster in which the scores
    differ. ``odds_ratio`` with its bounds ``odds_low`` and ``odds_high`` (for hit rates) and ``d_z`` (for
    other measures) are effect sizes (:mod:`branchrank.measures.effects`).
    """

    measure: str
    baseline: str
    candidate: str
    n: int
    clusters: int
    mean_a: float
    mean_b: float
    difference: float
    ci_low: float | None
    ci_high: float | None
    p: float
    p_adjusted: float
    test: str
    p_mcnemar: float | None
    p_t: float | None
    wins: int
    ties: int
    losses: int
    mde: float | None
    questions_needed: int | None
    p_floor: float
    family: int
    alpha: float
    delta: float
    verdict: Verdict
    odds_ratio: float | None = None
    odds_low: float | None = None
    odds_high: float | None = None
    d_z: float | None = None

    @property
    def differing(self) -> int:
        """The number of questions on which the two predictors score differently."""
        return self.wins + self.losses


class _Pair(Record, frozen=True, kw_only=True):
    """A comparison before the correction for multiple comparisons."""

    baseline: str
    candidate: str
    mean_a: float
    mean_b: float
    differences: Floats
    hits: bool
    interval: Interval | None
    result: Significance


def compare_predictors(
    scores: Mapping[str, Scores],
    clusters: Mapping[str, str],
    *,
    baseline: str,
    measure: str,
    delta: float = DELTA,
    alpha: float = power.ALPHA,
    seed: int = 0,
    draws: int = DRAWS,
) -> tuple[Comparison, ...]:
    """Compare every other predictor with the baseline, in the order of ``scores``.

    ``scores`` maps predictor -> question id -> score in 0..1, and ``clusters`` maps question id -> gold
    source. Holm's correction covers all candidates. If an LLM predictor has repeats, average their scores
    before calling this function (:mod:`branchrank.measures.repeats`).

    Raises :class:`UsageError` for a missing baseline, a negative delta or a score outside 0..1. Also raises
    :class:`UsageError` if there are no questions, or if a predictor is not scored on exactly the questions of
    ``clusters``.
    """
    _check(scores, clusters, baseline, delta)
    return compare_pairs(
        [((baseline, scores[baseline]), (name, of)) for name, of in scores.items() if name != baseline],
        clusters,
        measure=measure,
        delta=delta,
        alpha=alpha,
        seed=seed,
        draws=draws,
    )


def compare_pairs(
    pairs: Sequence[tuple[tuple[str, Scores], tuple[str, Scores]]],
    clusters: Mapping[str, str],
    *,
    measure: str,
    delta: float = DELTA,
    alpha: float = power.ALPHA,
    seed: int = 0,
    draws: int = DRAWS,
) -> tuple[Comparison, ...]:
    """Compare each candidate with its own baseline; Holm's correction covers all the pairs.

    Each pair consists of a baseline and a candidate, both as ``(name, scores)``. Raises :class:`UsageError`
    under the same conditions as :func:`compare_predictors`.
    """
    for (baseline, a), (candidate, b) in pairs:
        _check({baseline: a, candidate: b}, clusters, baseline, delta)
    ids = sorted(clusters)
    sources = [clusters[each] for each in ids]
    found = [
        _pair(
            baseline,
            candidate,
            np.array([a[each] for each in ids], dtype=np.float64),
            np.array([b[each] for each in ids], dtype=np.float64),
            sources,
            seed,
            draws,
            level=1 - alpha / len(pairs),
        )
        for (baseline, a), (candidate, b) in pairs
    ]
    adjusted = holm([pair.result.p for pair in found])
    return tuple(
        _comparison(pair, p, sources, measure, len(found), alpha, delta)
        for pair, p in zip(found, adjusted, strict=True)
    )


def _check(scores: Mapping[str, Scores], clusters: Mapping[str, str], baseline: str, delta: float) -> None:
    if baseline not in scores:
        raise UsageError(
            f"the baseline {baseline!r} is not among the predictors {', '.join(scores)}",
            remedy="choose the baseline from these predictors",
        )
    if not clusters:
        raise UsageError("there are no questions", remedy="run the benchmark on at least one question")
    if delta < 0:
        raise UsageError(f"delta is negative ({delta})", remedy="give a delta of 0 or more")
    for name, of in scores.items():
        unpaired = sorted(of.keys() ^ clusters.keys())
        if unpaired:
            raise UsageError(
                f"predictor {name!r} is not scored on the same questions as the others: {len(unpaired)} are "
                f"missing or extra, such as {unpaired[0]!r}",
                remedy="score every predictor on the same questions, with 0 for a failed query",
            )
        outside = [each for each, value in of.items() if not 0 <= value <= 1]
        if outside:
            raise UsageError(
                f"predictor {name!r} has the score {of[outside[0]]} on question {outside[0]!r}, outside 0..1",
                remedy="choose a measure whose values are in 0..1",
            )


def _pair(
    baseline: str,
    candidate: str,
    a: Floats,
    b: Floats,
    sources: Sequence[str],
    seed: int,
    draws: int,
    level: float,
) -> _Pair:
    differences = b - a
    differences[np.abs(differences) < ROUNDING] = 0.0
    sums = cluster_sums(differences, sources)
    hits = bool(np.isin(np.concatenate([a, b]), (0.0, 1.0)).all())
    if hits and len(sums) == len(differences):
        result = mcnemar(int((differences > 0).sum()), int((differences < 0).sum()))
    else:
        result = sign_flip(sums, seed=seed, draws=draws)
        if len(sums) < len(differences):
            result = Significance(p=result.p, test=f"cluster {result.test}")
    return _Pair(
        baseline=baseline,
        candidate=candidate,
        mean_a=float(a.mean()),
        mean_b=float(b.mean()),
        differences=differences,
        hits=hits,
        interval=difference_interval(differences, sources, level=level),
        result=result,
    )


def _comparison(
    pair: _Pair,
    p_adjusted: float,
    sources: Sequence[str],
    measure: str,
    family: int,
    alpha: float,
    delta: float,
) -> Comparison:
    n = len(pair.differences)
    wins, losses = int((pair.differences > 0).sum()), int((pair.differences < 0).sum())
    moved = cluster_sums(
        np.abs(pair.differences), sources
    )  # absolute values, so that wins and losses don't cancel out
    floor = p_floor(len(non_zero(moved)))
    difference = float(pair.differences.mean())
    interval = compatible(pair.interval, difference, rejected=p_adjusted < alpha)
    mde, needed = _sizing(pair, sources, alpha / family)
    odds: Odds | None = None
    if pair.hits:
        odds = matched_odds(pair.differences, sources, level=1 - alpha / family, rejected=p_adjusted < alpha)
    return Comparison(
        measure=measure,
        baseline=pair.baseline,
        candidate=pair.candidate,
        n=n,
        clusters=len(moved),
        mean_a=pair.mean_a,
        mean_b=pair.mean_b,
        difference=difference,
        ci_low=None if interval is None else interval.low,
        ci_high=None if interval is None else interval.high,
        p=pair.result.p,
        p_adjusted=p_adjusted,
        test=pair.result.test,
        p_mcnemar=mcnemar(wins, losses).p if pair.hits else None,
        p_t=paired_t(pair.differences),
        wins=wins,
        ties=n - wins - losses,
        losses=losses,
        mde=mde,
        questions_needed=needed,
        p_floor=floor,
        family=family,
        alpha=alpha,
        delta=delta,
        verdict=verdict_of(p_adjusted, difference, interval, floor, family, alpha, delta),
        odds_ratio=None if odds is None else odds.ratio,
        odds_low=None if odds is None else odds.low,
        odds_high=None if odds is None else odds.high,
        d_z=None if pair.hits else cohens_d(pair.differences),
    )


def verdict_of(
    p_adjusted: float,
    difference: float,
    interval: Interval | None,
    floor: float,
    family: int,
    alpha: float,
    delta: float,
) -> Verdict:
    """Return the verdict of a comparison (step 4 of the module's docstring).

    ``floor`` is the smallest p-value that the comparison can have, and ``family`` is the number of
    comparisons that Holm's correction covers.
    """
    if p_adjusted < alpha:
        return "better" if difference > 0 else "worse"
    if interval and -delta < interval.low and interval.high < delta:
        return "equivalent within delta"
    return "too few questions to tell" if floor * family >= alpha else "inconclusive"


def _sizing(pair: _Pair, sources: Sequence[str], alpha: float) -> tuple[float | None, int | None]:
    """Return the smallest detectable difference and the number of questions needed, for a power of 80%."""
    totals = page_totals(pair.differences, sources)
    if totals.shared and effective_pages(totals.sizes) < LEAST_PAGES:
        return None, None
    n, difference = len(pair.differences), abs(float(pair.differences.mean()))
    effective = _planned_questions(totals, 1 - alpha)
    if pair.hits:
        disagreement = int(np.count_nonzero(pair.differences)) / n
        mde = power.detectable_hit_difference(max(1, int(effective)), disagreement, alpha)
        needed = power.questions_for_hit_difference(disagreement, difference, alpha)
    else:
        sd = float(np.std(pair.differences, ddof=1)) if n > 1 else 0.0
        mde = power.detectable_mean_difference(effective, sd, alpha) if sd else None
        needed = power.questions_for_mean_difference(sd, difference, alpha)
    needed = None if needed is None else ceil(needed * n / effective)
    return mde, needed if needed is None or needed <= power.MOST_QUESTIONS else None


def _planned_questions(totals: PageTotals, level: float) -> float:
    """Return the expected effective number of questions in a new sample from the same pages."""
    if not totals.shared:
        return totals.n
    degrees = working_degrees(totals.sizes, intraclass_correlation(totals))
    return totals.n / float(design_effect(totals)) * float(t_penalty(level, degrees))


class Gate(Record, frozen=True, kw_only=True):
    """The outcome of a regression check, and its ``reason`` with the difference and the interval."""

    outcome: Decision
    reason: str
    comparison: Comparison


def gate(comparison: Comparison, delta: float, *, identical: bool = False) -> Gate:
    """Check that the candidate's loss against the baseline is smaller than ``delta``.

    ``delta`` must be 0 or more.

    ``identical`` is true if the candidate and the baseline returned the same hits. The check passes if
    ``identical`` is true, or if the interval's lower bound is above -delta. The check fails if the interval's
    upper bound is below -delta. The check is undecided in all other cases, including too few pages for an
    interval. If delta is 0 and either bound of the interval is exactly 0, the verdict decides: the check
    passes for ``better`` and fails for ``worse``.

    The check can be undecided even if no score changed. If no score changed on n questions, a loss of up to
    about z**2 / n still can't be excluded, where z is the normal quantile.
    """
    low, high = comparison.ci_low, comparison.ci_high
    interval = "too few pages" if low is None or high is None else f"{low:+.4f}, {high:+.4f}"
    figures = (
        f"{comparison.measure}: candidate - baseline = {comparison.difference:+.4f} "
        f"[{interval}], delta {delta:g}, n = {comparison.n}"
    )
    outcome: Decision
    if identical:
        outcome, why = "pass", "the hits are the same for every question"
    elif low is None or high is None:
        outcome, why = "undecided", "the gold is on too few pages to compute an interval"
    elif low > -delta or comparison.verdict == "better":
        outcome, why = "pass", "the lower bound is above -delta"
    elif high < -delta or (delta == 0 and comparison.verdict == "worse"):
        outcome, why = "fail", "the upper bound is below -delta"
    elif comparison.differing == 0:
        outcome = "undecided"
        why = (
            "the answers changed but no score did, and "
            f"{comparison.n} questions are too few to rule out a loss as large as delta"
        )
    else:
        outcome, why = "undecided", "the interval includes -delta"
    return Gate(outcome=outcome, reason=f"{why}; {figures}", comparison=comparison)
