"""Paired comparisons of predictors, with their verdicts.

1. For each question, subtract the baseline's score from the candidate's score.
2. Test the differences (:mod:`branchrank.scoring.significance`). The test is the exact McNemar test if all
   scores are 0 or 1 and each cluster has one question, and a sign-flip test by cluster otherwise. Adjust the
   p-values with Holm's correction over all candidates.
3. Compute the interval of the differences that the test does not reject. A rejected comparison of rank j
   among m has the level 1 - alpha / (m - j + 1), and the others 1 - alpha / (m - R) after R rejections. An
   interval therefore excludes 0 if and only if the adjusted p is below alpha.
4. The verdict is ``better`` or ``worse`` if the adjusted p is below alpha. Pages of the corpus without a
   question are a caution beside this verdict (:mod:`branchrank.scoring.intervals`). The verdict is
   ``equivalent within delta`` if the whole interval is strictly between -delta and delta, and so is the mean
   over the corpus if as many pages without a question are lost, by either system, as a chance of alpha / 2
   allows.
   ``too few questions to tell`` means that no outcome on the clusters that differ could be significant, and
   that one on all pages of the corpus could. All other comparisons are ``inconclusive``.

   A verdict that texts without a place in the corpus, or failed queries, could undo is also replaced
   (:mod:`branchrank.runs.comparisons`).
5. Over several datasets (:func:`compare_strata`), the difference is the mean of the datasets' mean
   differences, so that every dataset has the same weight. The test is a sign-flip test by page, stratified by
   dataset: the sum of a page's differences is divided by (number of datasets * number of questions in the
   page's dataset), so that the total over all pages is the macro difference. The interval is the
   inversion of this test. If the test does not reject 0, the interval also contains the combination of the
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
    ROUNDING,
    Floats,
    PageTotals,
    cluster_sums,
    design_effect,
    effective_pages,
    intraclass_correlation,
    page_totals,
    t_penalty,
    working_degrees,
)
from branchrank.scoring.comparison import DEFAULTS, CompareOptions, Comparison
from branchrank.scoring.intervals import CAUTION, LEVEL, Interval, asked_pages, cohens_d, matched_odds
from branchrank.scoring.measures import mean
from branchrank.scoring.significance import FlipTest, holm, mcnemar, p_floor, paired_t

Scores = Mapping[str, float]


class Stratum(NamedTuple):
    """The scores and gold pages for one dataset.

    ``scores`` maps system -> question id -> score in 0..1. ``pages`` maps question id -> source of the gold.
    ``clusters`` maps question id -> the cluster that replaces the page in tests, for the questions of pages
    that share near-duplicate questions. ``baselines`` are the scores of the baselines, if they are systems of
    another run.
    """

    scores: Mapping[str, Scores]
    pages: Mapping[str, str]
    clusters: Mapping[str, str] = {}
    baselines: Mapping[str, Scores] | None = None

    def values(self, baseline: str, candidate: str) -> list[Floats]:
        """Return the scores of both systems of a pair, in the order of the pages."""
        both = ((self.baselines or self.scores)[baseline], self.scores[candidate])
        return [np.array([scores[key] for key in self.pages]) for scores in both]


class _Tested(Record, frozen=True, kw_only=True):
    """A pair's differences and test, before the correction for multiple comparisons."""

    baseline: str
    candidate: str
    mean_a: float
    mean_b: float
    #: The differences (n,), in the order of ``clusters`` and ``pages``.
    differences: Floats
    #: The cluster of each question, and its page of gold, both with the dataset.
    clusters: Sequence[str]
    pages: Sequence[str]
    #: Whether all scores are 0 or 1.
    hits: bool
    flip: FlipTest
    test: str
    #: The mean difference on each dataset, and each dataset's test, if there are several.
    by_dataset: tuple[float, ...] = ()
    parts: tuple[FlipTest, ...] = ()

    def interval(self, alpha: float) -> Interval | None:
        """Return the interval that agrees with the test at ``alpha`` (steps 3 and 5)."""
        if not self.parts:
            return self.flip.interval(alpha)
        low, high = self.flip.flip_bound(alpha, -1), self.flip.flip_bound(alpha, 1)
        wide = macro_interval(self.by_dataset, [part.interval(alpha) for part in self.parts], 1 - alpha)
        if wide is None:
            return None
        if self.flip.p >= alpha:
            low, high = min(low, wide.low), max(high, wide.high)
        return Interval(low=low, high=high, level=1 - alpha)


def compare_pairs(
    pairs: Sequence[tuple[str, str]],
    scores: Mapping[str, Scores],
    clusters: Mapping[str, str],
    *,
    measure: str,
    merged: Mapping[str, str] | None = None,
    baselines: Mapping[str, Scores] | None = None,
    options: CompareOptions = DEFAULTS,
) -> tuple[Comparison, ...]:
    """Compare each candidate with its own baseline; Holm's correction covers all the pairs.

    Each pair consists of the names of a baseline and a candidate. ``scores`` maps name -> question id ->
    score in 0..1. ``baselines`` are the scores of the baselines, if they are systems of another run.
    ``clusters`` maps question id -> gold source, and ``merged`` the ids of pages that share near-duplicate
    questions -> their cluster. If an LLM predictor has repeats, average their scores before calling this
    function.

    Raises :class:`UsageError` for a negative delta or a score outside 0..1. Also raises :class:`UsageError`
    if there are no questions, or if a predictor is not scored on exactly the questions of ``clusters``.
    """
    for baseline, candidate in pairs:
        _check(baseline, (baselines or scores)[baseline], clusters, options.delta)
        _check(candidate, scores[candidate], clusters, options.delta)
    pages = dict(sorted(clusters.items()))
    stratum = Stratum(scores=scores, pages=pages, clusters=merged or {}, baselines=baselines)
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
    tested = [_tested(pair, strata, options) for pair in pairs]
    p_values = [each.flip.p for each in tested]
    adjusted = holm(p_values)
    rejections = sum(p < options.alpha for p in adjusted)
    steps = {place: rank for rank, place in enumerate(sorted(range(len(pairs)), key=p_values.__getitem__))}
    return tuple(
        _comparison(
            each,
            p,
            options.alpha / (len(pairs) - min(steps[place], rejections)),
            len(pairs),
            measure,
            options,
        )
        for place, (each, p) in enumerate(zip(tested, adjusted, strict=True))
    )


def _tested(pair: tuple[str, str], strata: Sequence[Stratum], options: CompareOptions) -> _Tested:
    """Test one pair on one dataset, or over several datasets."""
    one = len(strata) == 1
    scored = [stratum.values(*pair) for stratum in strata]
    gaps = [_differences(baseline, candidate) for baseline, candidate in scored]
    pages = [list(stratum.pages.values()) for stratum in strata]
    clusters = [
        [stratum.clusters.get(key, page) for key, page in stratum.pages.items()] for stratum in strata
    ]
    totals = [page_totals(gap, where) for gap, where in zip(gaps, clusters, strict=True)]
    asked = len(set(pages[0])) / options.documents if one and options.documents else 0.0
    parts = tuple(
        FlipTest(of, asked=min(asked, 1.0), seed=options.seed, draws=options.draws) for of in totals
    )
    flip = parts[0] if one else FlipTest(_macro_totals(totals), seed=options.seed, draws=options.draws)
    hits = one and bool(np.isin(scored, (0.0, 1.0)).all())
    kind = ("cluster " if totals[0].shared else "") if one else "stratified "
    means = [float(each.mean()) for each in gaps]
    mean_a, mean_b = (mean([float(each.mean()) for each in of]) for of in zip(*scored, strict=True))
    named = [[f"{place} {each}" for each in of] for place, of in enumerate(pages)]
    return _Tested(
        baseline=pair[0],
        candidate=pair[1],
        mean_a=mean_a,
        mean_b=mean_b,
        differences=np.concatenate(gaps),
        clusters=clusters[0] if one else [name for of in named for name in of],
        pages=pages[0] if one else [name for of in named for name in of],
        hits=hits,
        flip=flip,
        test="exact McNemar" if hits and not totals[0].shared else f"{kind}{flip.test}",
        by_dataset=() if one else tuple(means),
        parts=() if one else parts,
    )


def _macro_totals(totals: Sequence[PageTotals]) -> PageTotals:
    """Return the totals of all datasets, in which each dataset has the same weight (step 5)."""
    weights = [1 / (len(totals) * each.n) for each in totals]
    parts = list(zip(weights, totals, strict=True))
    return PageTotals(
        sums=np.concatenate([weight * each.sums for weight, each in parts]),
        sizes=np.concatenate([weight * each.sizes for weight, each in parts]),
        squares=np.asarray(sum(float(each.squares) for each in totals)),
        non_zero=np.asarray(sum(float(each.non_zero) for each in totals)),
    )


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
    tested: _Tested, p_adjusted: float, alpha: float, family: int, measure: str, options: CompareOptions
) -> Comparison:
    """Return the comparison, whose interval has the level 1 - ``alpha``."""
    n, difference = len(tested.differences), tested.flip.mean
    wins, losses = int((tested.differences > 0).sum()), int((tested.differences < 0).sum())
    # Absolute values, so that wins and losses in a cluster don't cancel out.
    moved = int(np.count_nonzero(cluster_sums(np.abs(tested.differences), tested.clusters)))
    interval = tested.interval(alpha)
    compared = Comparison(
        measure=measure,
        baseline=tested.baseline,
        candidate=tested.candidate,
        n=n,
        clusters=len(set(tested.clusters)),
        mean_a=tested.mean_a,
        mean_b=tested.mean_b,
        difference=difference,
        ci_low=None if interval is None else interval.low,
        ci_high=None if interval is None else interval.high,
        level=1 - alpha,
        p=tested.flip.p,
        p_adjusted=p_adjusted,
        test=tested.test,
        wins=wins,
        ties=n - wins - losses,
        losses=losses,
        p_floor=p_floor(moved),
        family=family,
        alpha=options.alpha,
        delta=options.delta,
        verdict="inconclusive",
        differences=tested.by_dataset,
        documents=options.documents,
        **_unasked(tested, options, p_adjusted < options.alpha),
        **({} if tested.by_dataset else _effects(tested, options.alpha / family)),
    )
    return _with_verdict(compared)


def _unasked(tested: _Tested, options: CompareOptions, rejected: bool) -> dict[str, Any]:
    """Return what the pages of the corpus without a question could change, if there are such pages."""
    if tested.by_dataset or len(set(tested.pages)) >= options.documents:
        return {}
    sides = [
        asked_pages(page_totals(sign * tested.differences, tested.pages), options.documents)
        for sign in (1, -1)
    ]
    chance = options.alpha / 2
    if rejected:
        more = sides[tested.flip.mean < 0].more_pages(CAUTION, 0.0)
    else:
        more = max(side.more_pages(chance, -options.delta) for side in sides)
    low, high = sides[0].corrected(chance), -sides[1].corrected(chance)
    return {"corpus_low": low, "corpus_high": high, "more_pages": more}


def _with_verdict(compared: Comparison) -> Comparison:
    """Return the comparison with its verdict and its reason (step 4)."""
    if compared.p_adjusted < compared.alpha:
        return replace(compared, verdict="better" if compared.difference > 0 else "worse")
    if compared.excludes_loss and compared.excludes_gain:
        return replace(compared, verdict="equivalent within delta")
    few = compared.p_floor * compared.family >= compared.alpha
    if few and (not compared.documents or p_floor(compared.documents) * compared.family < compared.alpha):
        return replace(compared, verdict="too few questions to tell")
    return compared


def _effects(tested: _Tested, alpha: float) -> dict[str, Any]:
    """Return the effect sizes, the other p-values and the planning figures of a comparison."""
    differences = tested.differences
    mde, needed = _sizing(tested, alpha)
    found: dict[str, Any] = {"p_t": paired_t(differences), "mde": mde, "questions_needed": needed}
    if not tested.hits:
        return {**found, "d_z": cohens_d(differences)}
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    return {**found, "p_mcnemar": mcnemar(wins, losses), "odds_ratio": matched_odds(wins, losses)}


def _sizing(pair: _Tested, alpha: float) -> tuple[float | None, int | None]:
    """Return the smallest detectable difference and the number of questions needed, for a power of 80%."""
    totals = page_totals(pair.differences, pair.clusters)
    if totals.shared and effective_pages(totals.sizes) < LEAST_PAGES:
        return None, None
    n, difference = len(pair.differences), abs(pair.flip.mean)
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
