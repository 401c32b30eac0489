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

   The tests and intervals say nothing about rare pages that the sample lacks, on which the leader would lose
   every question. ``better`` and ``worse`` are therefore replaced by ``inconclusive`` if more than ``delta``
   of all pages could be lost whole and have at most the observed share in 10% of the samples
   (:func:`~branchrank.measures.intervals.pages_lost`), and if these losses could cost the whole difference.
   ``equivalent within delta`` requires that fewer than ``delta`` of the pages could be lost whole, by either
   system, and have at most the observed share in a fraction of alpha / 2 of the samples. A verdict that texts
   without a place in the corpus could undo is also replaced (:mod:`branchrank.runs.comparisons`).
5. Over several datasets (:func:`compare_strata`), the difference is the mean of the datasets' mean
   differences, so that every dataset has the same weight. The test is a sign-flip test by page, stratified by
   dataset: the sum of a page's differences is divided by (number of datasets * number of questions in the
   page's dataset), so that the total over all pages is the macro difference. The interval combines the
   datasets' intervals, which are independent of each other. Let d be the datasets' differences, l and u the
   bounds of their intervals, and w the weights. The bounds are sum(w * d) - sqrt(sum((w * (d - l))**2)) and
   sum(w * d) + sqrt(sum((w * (u - d))**2)) (MOVER, Zou and Donner 2008). A system's macro average has the
   same kind of interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, log, sqrt
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import numpy as np
from msgspec.structs import replace

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
from branchrank.measures.intervals import (
    LEVEL,
    Interval,
    cohens_d,
    compatible,
    difference_interval,
    matched_odds,
    mean_interval,
    pages_lost,
)
from branchrank.measures.measures import mean
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

DELTA = 0.05
#: The probability with which a sample may miss the pages that would undo a verdict.
UNSEEN = 0.1
PILOT_BELOW = 50

Scores = Mapping[str, float]


class CompareOptions(Record, frozen=True, kw_only=True):
    """What is compared and how it is tested. Commands, the library and runs share this record.

    ``primary`` is the measure that is tested, and ``measures`` are measures for the table. ``predictor``
    selects one candidate, and ``baseline`` the systems with which the others are compared. An empty value
    stands for the default of the comparison. If ``all_pairs`` is true, every pair of systems is compared. If
    ``missing_is_zero`` is true, a judged query that is missing from a TREC run scores 0. ``delta`` is the
    largest difference that counts as equivalent, ``alpha`` is the family-wise error rate, and ``seed`` and
    ``draws`` belong to the sign-flip test.
    """

    primary: str = ""
    measures: tuple[str, ...] = ()
    predictor: str = ""
    baseline: str | tuple[str, ...] = ""
    all_pairs: bool = False
    missing_is_zero: bool = False
    delta: float = DELTA
    alpha: float = power.ALPHA
    seed: int = 42
    draws: int = DRAWS


DEFAULTS = CompareOptions()


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
    differ. ``unseen`` is the difference that rare pages could undo (step 4), or 0 if the adjusted p is at
    least alpha or these pages are at most ``delta``. ``rare_losses`` and ``rare_wins`` are the largest shares
    of pages that the candidate and the baseline may lose whole. ``identical`` is true if both systems
    returned the same hits. ``unplaced`` is the largest rise of a mean if texts without a place in the corpus
    were gold, or 0 if this could not change a conclusion. ``odds_ratio`` with its bounds ``odds_low`` and
    ``odds_high`` (for hit rates) and ``d_z`` (for other measures) are effect sizes
    (:mod:`branchrank.measures.intervals`).

    In a comparison over several datasets, ``difference`` and the means are macro averages, ``n`` and the
    counts are over all datasets, and ``differences`` contains the mean difference on each dataset. The effect
    sizes and the figures for planning (``mde``, ``questions_needed``) are ``None``. The bounds of the
    interval are ``None`` if any dataset has too few pages.
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
    p_mcnemar: float | None = None
    p_t: float | None = None
    wins: int
    ties: int
    losses: int
    mde: float | None = None
    questions_needed: int | None = None
    p_floor: float
    unseen: float = 0.0
    rare_losses: float = 1.0
    rare_wins: float = 1.0
    family: int
    alpha: float
    delta: float
    verdict: Verdict
    odds_ratio: float | None = None
    odds_low: float | None = None
    odds_high: float | None = None
    d_z: float | None = None
    differences: tuple[float, ...] = ()
    identical: bool = False
    unplaced: float = 0.0

    @property
    def differing(self) -> int:
        """The number of questions on which the two predictors score differently."""
        return self.wins + self.losses

    @property
    def is_significant(self) -> bool:
        """Whether the verdict is ``better`` or ``worse``."""
        return self.verdict in ("better", "worse")

    @property
    def excludes_loss(self) -> bool:
        """Whether a loss of ``delta`` or more by the candidate is excluded, also on rare pages."""
        return self.identical or self._excludes(self.ci_low, self.rare_losses)

    @property
    def excludes_gain(self) -> bool:
        """Whether a gain of ``delta`` or more by the candidate is excluded, also on rare pages."""
        return self.identical or self._excludes(
            None if self.ci_high is None else -self.ci_high, self.rare_wins
        )

    def _excludes(self, low: float | None, rare: float) -> bool:
        return low is not None and low > -self.delta and rare < self.delta and not self.unplaced

    @property
    def enough(self) -> tuple[int, int] | None:
        """About how many questions, and on how many pages, would decide with a power of 80%.

        They confirm the observed difference, or exclude one of delta if the observed difference is too small.
        The share of questions per page stays the same. ``None`` means unknown, or over 20,000 questions. If
        no question differs, they are those that exclude a difference of delta if no new question differs. The
        interval for n independent ties is ±z² / (n + z²), which gives the worth of the questions asked.
        """
        if not self.delta or self.identical or self.differences or self.unplaced:
            return None
        if self.ci_high is None and self.differing:
            return None
        needed = self.questions_needed or 0
        if not self.differing:
            z = NormalDist().inv_cdf(self.alpha / self.family / 2)
            scale = z * z if self.ci_high is None else self.n / (1 / self.ci_high - 1)
            needed = max(self.n, ceil(scale * (1 / self.delta - 1)))
        elif needed <= self.n and self.ci_low is not None and self.ci_high is not None:
            needed = max(self.n, ceil(self.n * ((self.ci_high - self.ci_low) / (2 * self.delta)) ** 2))
        unseen = (
            log(self.alpha / 2) if self.differing else self.clusters * log(max(1 - self.rare_losses, 1e-300))
        )
        least = ceil(unseen / log(1 - self.delta)) if self.delta < 1 else 1
        pages = max(least, ceil(needed * self.clusters / self.n))
        needed = max(needed, pages)
        return (needed, pages) if needed <= power.MOST_QUESTIONS else None


class Stratum(NamedTuple):
    """The scores and gold pages for one dataset.

    ``scores`` maps system -> question id -> score in 0..1. ``pages`` maps question id -> source of the gold.
    """

    scores: Mapping[str, Scores]
    pages: Mapping[str, str]


class _Tested(Record, frozen=True, kw_only=True):
    """A pair's differences, test and interval, before the correction for multiple comparisons.

    ``differences`` (n,) are in the order of ``pages``, which names the page (and dataset) of each question.
    ``hits`` is true if all scores are 0 or 1.
    """

    baseline: str
    candidate: str
    mean_a: float
    mean_b: float
    difference: float
    differences: Floats
    pages: Sequence[str]
    hits: bool
    interval: Interval | None
    result: Significance
    by_dataset: tuple[float, ...] = ()


def compare_pairs(
    pairs: Sequence[tuple[str, str]],
    scores: Mapping[str, Scores],
    clusters: Mapping[str, str],
    *,
    measure: str,
    options: CompareOptions = DEFAULTS,
) -> tuple[Comparison, ...]:
    """Compare each candidate with its own baseline; Holm's correction covers all the pairs.

    Each pair consists of the names of a baseline and a candidate. ``scores`` maps name -> question id ->
    score in 0..1. ``clusters`` maps question id -> gold source. If an LLM predictor has repeats, average
    their scores before calling this function.

    Raises :class:`UsageError` for a negative delta or a score outside 0..1. Also raises :class:`UsageError`
    if there are no questions, or if a predictor is not scored on exactly the questions of ``clusters``.
    """
    for name in (name for pair in pairs for name in pair):
        _check(name, scores[name], clusters, options.delta)
    stratum = Stratum(scores=scores, pages=dict(sorted(clusters.items())))
    return compare_strata([stratum], pairs, measure=measure, options=options)


def _check(name: str, of: Scores, clusters: Mapping[str, str], delta: float) -> None:
    if not clusters:
        raise UsageError("there are no questions", remedy="run the benchmark on at least one question")
    if delta < 0:
        raise UsageError(f"delta is negative ({delta})", remedy="give a delta of 0 or more")
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


def _differences(a: Floats, b: Floats) -> Floats:
    """Return b - a, in which differences below 1e-9 are 0."""
    differences = b - a
    differences[np.abs(differences) < ROUNDING] = 0.0
    return differences


def compare_strata(
    strata: Sequence[Stratum], pairs: Sequence[tuple[str, str]], *, measure: str, options: CompareOptions
) -> tuple[Comparison, ...]:
    """Compare each candidate with its baseline over all datasets; Holm's correction covers all the pairs.

    Each stratum must have at least one question, and all strata must have scores for the same systems.
    """
    tested = [_tested(pair, strata, options, 1 - options.alpha / len(pairs)) for pair in pairs]
    adjusted = holm([each.result.p for each in tested])
    return tuple(
        _comparison(each, p, len(pairs), measure, options) for each, p in zip(tested, adjusted, strict=True)
    )


def _tested(
    pair: tuple[str, str], strata: Sequence[Stratum], options: CompareOptions, level: float
) -> _Tested:
    """Test one pair on one dataset, or over several datasets."""
    one = len(strata) == 1
    scored = [[np.array([of[name][key] for key in keys]) for name in pair] for of, keys in strata]
    gaps = [_differences(baseline, candidate) for baseline, candidate in scored]
    pages = [list(stratum.pages.values()) for stratum in strata]
    # The sums are multiplied by a factor of at least 1, because sign_flip treats sums below 1e-9 as 0.
    largest = max(map(len, gaps))
    parts = list(zip(gaps, pages, strict=True))
    sums = np.concatenate([cluster_sums(each, where) * (largest / len(each)) for each, where in parts])
    differences = np.concatenate(gaps)
    hits = one and bool(np.isin(scored, (0.0, 1.0)).all())
    if hits and len(sums) == len(differences):
        result = mcnemar(int((differences > 0).sum()), int((differences < 0).sum()))
    else:
        result = sign_flip(sums, seed=options.seed, draws=options.draws)
        kind = ("cluster " if len(sums) < len(differences) else "") if one else "stratified "
        result = Significance(p=result.p, test=f"{kind}{result.test}")
    means = [float(each.mean()) for each in gaps]
    intervals = [difference_interval(each, where, level=level) for each, where in parts]
    mean_a, mean_b = (mean([float(each.mean()) for each in of]) for of in zip(*scored, strict=True))
    return _Tested(
        baseline=pair[0],
        candidate=pair[1],
        mean_a=mean_a,
        mean_b=mean_b,
        difference=mean(means),
        differences=differences,
        pages=pages[0] if one else [f"{place} {page}" for place, of in enumerate(pages) for page in of],
        hits=hits,
        interval=intervals[0] if one else macro_interval(means, intervals, level),
        result=result,
        by_dataset=() if one else tuple(means),
    )


def macro_average(strata: Sequence[Stratum], system: str) -> tuple[float, Interval | None]:
    """Return a system's macro average (the mean of the per-dataset means) with a 95% interval."""
    means, intervals = [], []
    for stratum in strata:
        values = [stratum.scores[system][key] for key in stratum.pages]
        means.append(mean(values))
        intervals.append(mean_interval(values, list(stratum.pages.values())))
    return mean(means), macro_interval(means, intervals)


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
    center = mean(estimates)
    below = sqrt(sum((value - each.low) ** 2 for value, each in zip(estimates, known, strict=True)))
    above = sqrt(sum((each.high - value) ** 2 for value, each in zip(estimates, known, strict=True)))
    return Interval(low=center - below / len(known), high=center + above / len(known), level=level)


def _comparison(
    tested: _Tested, p_adjusted: float, family: int, measure: str, options: CompareOptions
) -> Comparison:
    n = len(tested.differences)
    wins, losses = int((tested.differences > 0).sum()), int((tested.differences < 0).sum())
    # Absolute values, so that wins and losses on a page don't cancel out.
    moved = cluster_sums(np.abs(tested.differences), tested.pages)
    rejected = p_adjusted < options.alpha
    interval = compatible(tested.interval, tested.difference, rejected=rejected)
    sides = [page_totals(sign * tested.differences, tested.pages) for sign in (1, -1)]
    rare_losses, rare_wins = (pages_lost(side, options.alpha / 2)[1] for side in sides)
    observed, possible = pages_lost(sides[tested.difference < 0], UNSEEN)
    found = Comparison(
        measure=measure,
        baseline=tested.baseline,
        candidate=tested.candidate,
        n=n,
        clusters=len(moved),
        mean_a=tested.mean_a,
        mean_b=tested.mean_b,
        difference=tested.difference,
        ci_low=None if interval is None else interval.low,
        ci_high=None if interval is None else interval.high,
        p=tested.result.p,
        p_adjusted=p_adjusted,
        test=tested.result.test,
        wins=wins,
        ties=n - wins - losses,
        losses=losses,
        p_floor=p_floor(len(non_zero(moved))),
        unseen=possible - observed if rejected and possible > options.delta else 0.0,
        rare_losses=rare_losses,
        rare_wins=rare_wins,
        family=family,
        alpha=options.alpha,
        delta=options.delta,
        verdict="inconclusive",
        differences=tested.by_dataset,
        **({} if tested.by_dataset else _effects(tested, options.alpha / family, rejected)),
    )
    return replace(found, verdict=_verdict(found))


def _verdict(found: Comparison) -> Verdict:
    """Return the verdict of a comparison (step 4)."""
    if found.p_adjusted < found.alpha:
        leads: Verdict = "better" if found.difference > 0 else "worse"
        return leads if abs(found.difference) > found.unseen else "inconclusive"
    if found.excludes_loss and found.excludes_gain:
        return "equivalent within delta"
    return "too few questions to tell" if found.p_floor * found.family >= found.alpha else "inconclusive"


def _effects(tested: _Tested, alpha: float, rejected: bool) -> dict[str, Any]:
    """Return the effect sizes, the other p-values and the planning figures of a comparison."""
    differences, pages = tested.differences, tested.pages
    mde, needed = _sizing(tested, alpha)
    found: dict[str, Any] = {"p_t": paired_t(differences), "mde": mde, "questions_needed": needed}
    if not tested.hits:
        return {**found, "d_z": cohens_d(differences)}
    ratio, low, high = matched_odds(differences, pages, level=1 - alpha, rejected=rejected)
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    found["p_mcnemar"] = mcnemar(wins, losses).p
    return {**found, "odds_ratio": ratio, "odds_low": low, "odds_high": high}


def _sizing(pair: _Tested, alpha: float) -> tuple[float | None, int | None]:
    """Return the smallest detectable difference and the number of questions needed, for a power of 80%."""
    totals = page_totals(pair.differences, pair.pages)
    if totals.shared and effective_pages(totals.sizes) < LEAST_PAGES:
        return None, None
    n, difference = len(pair.differences), abs(pair.difference)
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


def gate(comparison: Comparison, delta: float) -> Gate:
    """Check that the candidate's loss against the baseline is smaller than ``delta``.

    ``delta`` must be 0 or more.

    The check passes if both systems returned the same hits, or if the interval's lower bound is above -delta.
    The check fails if the interval's upper bound is below -delta. The check is undecided in all other cases,
    including too few pages for an interval. If delta is 0 and either bound of the interval is exactly 0, the
    verdict decides: the check passes for ``better`` and fails for ``worse``.

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
    if comparison.identical:
        outcome, why = "pass", "the hits are the same for every question"
        figures = f"{comparison.measure}, n = {comparison.n}"
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
