"""Paired comparisons of predictors, with their verdicts.

1. For each question, subtract the baseline's score from the candidate's score.
2. Test the differences (:mod:`branchrank.scoring.significance`). The test is the exact McNemar test if all
   scores are 0 or 1 and each cluster has one question, and a sign-flip test by cluster otherwise. Adjust the
   p-values with Holm's correction over all candidates.
3. Compute an interval for the mean difference (:mod:`branchrank.scoring.intervals`) at the level 1 - alpha /
   family, where ``family`` is the number of comparisons. At this level, the probability that all intervals
   contain their true differences is at least 1 - alpha (Bonferroni; Dunn 1961). If the adjusted test is
   significant, an interval that includes 0 is truncated at 0. If the adjusted test is not significant, an
   interval that excludes 0 is extended to include 0. The test and the interval therefore never contradict
   each other (:func:`~branchrank.scoring.intervals.compatible`).
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
   (:func:`~branchrank.scoring.intervals.pages_lost`), and if these losses could cost the whole difference.
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
from math import ceil, sqrt
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from branchrank.core.errors import UsageError
from branchrank.core.records import Record
from branchrank.scoring import power
from branchrank.scoring.clustering import (
    LEAST_PAGES,
    PageTotals,
    design_effect,
    effective_pages,
    intraclass_correlation,
    page_totals,
    t_penalty,
    working_degrees,
)
from branchrank.scoring.comparison import DEFAULTS, CompareOptions, Comparison, Verdict
from branchrank.scoring.intervals import (
    LEVEL,
    Interval,
    cohens_d,
    compatible,
    difference_interval,
    matched_odds,
    mean_interval,
    pages_lost,
)
from branchrank.scoring.measures import mean
from branchrank.scoring.significance import (
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

#: The probability with which a sample may miss the pages that would undo a verdict.
UNSEEN = 0.1

Scores = Mapping[str, float]


class Stratum(NamedTuple):
    """The scores and gold pages for one dataset.

    ``scores`` maps system -> question id -> score in 0..1. ``pages`` maps question id -> source of the gold.
    ``baselines`` are the scores of the baselines, if they are systems of another run.
    """

    scores: Mapping[str, Scores]
    pages: Mapping[str, str]
    baselines: Mapping[str, Scores] | None = None

    def values(self, baseline: str, candidate: str) -> list[Floats]:
        """Return the scores of both systems of a pair, in the order of the pages."""
        both = ((self.baselines or self.scores)[baseline], self.scores[candidate])
        return [np.array([scores[key] for key in self.pages]) for scores in both]


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
    baselines: Mapping[str, Scores] | None = None,
    options: CompareOptions = DEFAULTS,
) -> tuple[Comparison, ...]:
    """Compare each candidate with its own baseline; Holm's correction covers all the pairs.

    Each pair consists of the names of a baseline and a candidate. ``scores`` maps name -> question id ->
    score in 0..1. ``baselines`` are the scores of the baselines, if they are systems of another run.
    ``clusters`` maps question id -> gold source. If an LLM predictor has repeats, average their scores before
    calling this function.

    Raises :class:`UsageError` for a negative delta or a score outside 0..1. Also raises :class:`UsageError`
    if there are no questions, or if a predictor is not scored on exactly the questions of ``clusters``.
    """
    for baseline, candidate in pairs:
        _check(baseline, (baselines or scores)[baseline], clusters, options.delta)
        _check(candidate, scores[candidate], clusters, options.delta)
    stratum = Stratum(scores=scores, pages=dict(sorted(clusters.items())), baselines=baselines)
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
    scored = [stratum.values(*pair) for stratum in strata]
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
        documents=options.documents,
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
