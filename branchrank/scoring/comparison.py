"""The record of a comparison of two systems, its options, and the check that a candidate is not worse."""

from __future__ import annotations

from math import ceil, floor
from statistics import NormalDist
from typing import Literal

from msgspec.structs import replace

from branchrank.core.records import Record
from branchrank.scoring import power
from branchrank.scoring.significance import DRAWS

Verdict = Literal["better", "worse", "equivalent within delta", "inconclusive", "too few questions to tell"]
Decision = Literal["pass", "fail", "undecided"]
#: More than 5% of a system's queries failed, texts without a place could change the means, or a significant
#: result would need more pages than the corpus has, or there is no interval.
Reason = Literal["", "failures", "unplaced texts", "pages", "few pages"]

DELTA = 0.05
PILOT_BELOW = 50
#: The share of failed queries above which a comparison has no verdict.
MOST_FAILURES = 0.05


class CompareOptions(Record, frozen=True, kw_only=True):
    """What is compared and how it is tested. Commands, the library and runs share this record.

    ``primary`` is the measure that is tested, and ``measures`` are measures for the table. ``predictor``
    selects one candidate, and ``baseline`` the systems with which the others are compared. An empty value
    stands for the default of the comparison. If ``all_pairs`` is true, every pair of systems is compared. If
    ``missing_is_zero`` is true, a judged query that is missing from a TREC run scores 0. ``delta`` is the
    largest difference that counts as equivalent, ``alpha`` is the family-wise error rate, and ``seed`` and
    ``draws`` belong to the sign-flip test. ``documents`` is the number of documents in the corpus, or 0 if it
    is not known.
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
    documents: int = 0


DEFAULTS = CompareOptions()


class Comparison(Record, frozen=True, kw_only=True):
    """The comparison of a candidate with a baseline on one measure, for the same ``n`` questions.

    Over several datasets, the difference and the means are macro averages, and the counts are sums.
    """

    measure: str
    baseline: str
    candidate: str
    n: int
    #: Groups of questions about the same page.
    clusters: int
    #: The means of the baseline and the candidate, and the candidate's mean minus the baseline's.
    mean_a: float
    mean_b: float
    difference: float
    #: The interval of the difference. ``None`` if the gold is on too few pages.
    ci_low: float | None
    ci_high: float | None
    #: The confidence level of the interval, which is the comparison's step of Holm's correction.
    level: float
    #: The p-value of ``test``, and after Holm's correction over ``family`` comparisons.
    p: float
    p_adjusted: float
    test: str
    #: McNemar's test (``None`` if a score is neither 0 nor 1) and the paired t-test, which decide nothing.
    p_mcnemar: float | None = None
    p_t: float | None = None
    #: Questions on which the candidate's score is higher than, equal to and lower than the baseline's.
    wins: int
    ties: int
    losses: int
    #: The smallest difference that ``n`` questions detect with 80% power. ``None``: no difference.
    mde: float | None = None
    #: How many questions detect the observed difference with 80% power. ``None``: more than 20,000.
    questions_needed: int | None = None
    #: The smallest possible p-value: the same system wins in every cluster in which the scores differ.
    p_floor: float
    #: How many more pages of the corpus need a question to exclude that lost pages undo a ``better`` or
    #: ``worse``, or that they hide a difference of delta. 0 if there is nothing to exclude.
    more_pages: int = 0
    #: The bounds of the mean over the corpus, if as many pages without a question are lost by one of the
    #: systems as a chance of alpha / 2 allows. ``None`` without a corpus, or if every page has a question.
    corpus_low: float | None = None
    corpus_high: float | None = None
    family: int
    alpha: float
    #: The largest difference that counts as equivalent.
    delta: float
    verdict: Verdict
    #: The shares of the queries of the baseline and the candidate that failed.
    failed_a: float = 0.0
    failed_b: float = 0.0
    #: The effect size of hits, and of other measures (:mod:`branchrank.scoring.intervals`).
    odds_ratio: float | None = None
    d_z: float | None = None
    #: The mean difference on each of several datasets.
    differences: tuple[float, ...] = ()
    #: Whether both systems returned the same hits.
    identical: bool = False
    #: The largest rise of a mean if texts without a place were gold, or 0 if this changes nothing.
    unplaced: float = 0.0
    #: The number of documents in the corpus, or 0 if it is not known.
    documents: int = 0

    @property
    def differing(self) -> int:
        """The number of questions on which the two predictors score differently."""
        return self.wins + self.losses

    @property
    def is_significant(self) -> bool:
        """Whether the verdict is ``better`` or ``worse``."""
        return self.verdict in ("better", "worse")

    @property
    def reason(self) -> Reason:
        """Why the comparison is open, apart from the number of questions."""
        if max(self.failed_a, self.failed_b) > MOST_FAILURES:
            return "failures"
        if self.unplaced and not self.is_significant:
            return "unplaced texts"
        if self.ci_low is None:
            return "few pages"
        return "pages" if self.verdict == "inconclusive" and self.p_floor * self.family >= self.alpha else ""

    @property
    def excludes_loss(self) -> bool:
        """Whether a loss of ``delta`` or more is excluded, also on pages without a question."""
        return self.identical or self._above_minus_delta(self.ci_low, self.corpus_low)

    @property
    def excludes_gain(self) -> bool:
        """Whether a gain of ``delta`` or more is excluded, also on pages without a question."""
        bounds = (None if bound is None else -bound for bound in (self.ci_high, self.corpus_high))
        return self.identical or self._above_minus_delta(*bounds)

    def _above_minus_delta(self, bound: float | None, corpus: float | None) -> bool:
        seen = bound is not None and bound > -self.delta
        return seen and (corpus is None or corpus > -self.delta) and not self.unplaced

    @property
    def smallest_delta(self) -> float | None:
        """The smallest delta, with 4 decimals, for which :attr:`excludes_loss` is true, or ``None``."""
        if self.ci_low is None or self.unplaced:
            return None
        lowest = self.ci_low if self.corpus_low is None else min(self.ci_low, self.corpus_low)
        found = (floor(max(0.0, -lowest) * 10_000) + 1) / 10_000
        return found if found <= 1 else None

    @property
    def enough(self) -> tuple[int, int] | None:
        """About how many questions, and on how many pages, would decide with a power of 80%.

        They confirm the observed difference, or exclude one of delta if the observed difference is too small.
        The share of questions per page stays the same, unless ``more_pages`` asks for more pages; these are
        then assumed to have equally many questions. ``None`` means unknown, or over 20,000 questions. If no
        question differs, they are those that exclude a difference of delta if no new question differs. The
        interval for n independent ties is ±z² / (n + z²), which gives the worth of the questions asked.
        """
        if not self.delta or self.identical or self.differences or self.unplaced:
            return None
        if self.ci_high is None and self.differing:
            return None
        needed, more = self.questions_needed or 0, self.more_pages
        if not self.differing:
            z = NormalDist().inv_cdf(self.alpha / self.family / 2)
            known = self.ci_high is not None and self.ci_high < 1
            scale = self.n / (1 / (self.ci_high or 1) - 1) if known else z * z
            needed = max(self.n, ceil(scale * (1 / self.delta - 1)))
        elif needed > self.n:
            more = 0
        elif self.ci_low is not None and self.ci_high is not None:
            needed = max(self.n, ceil(self.n * ((self.ci_high - self.ci_low) / (2 * self.delta)) ** 2))
        pages = max(self.clusters + more, ceil(needed * self.clusters / self.n))
        needed = max(needed, pages)
        return (needed, pages) if needed <= power.MOST_QUESTIONS else None


class Gate(Record, frozen=True, kw_only=True):
    """The outcome of a regression check, and its ``reason`` with the difference and the interval.

    ``passes_at`` is the smallest delta at which an undecided check would pass, or ``None`` if there is none.
    """

    outcome: Decision
    reason: str
    comparison: Comparison
    passes_at: float | None = None


def gate(comparison: Comparison, delta: float) -> Gate:
    """Check that the candidate's loss against the baseline is smaller than ``delta``.

    ``delta`` must be 0 or more.

    The check passes if both systems returned the same hits, or if a loss of ``delta`` is excluded: the lower
    bound of the interval is above -delta, and so is the mean over the corpus if as many pages without a
    question are lost as a chance of 2.5% allows. The check fails if the interval's upper bound is below
    -delta, or below 0 if delta is 0. It is undecided in all other cases.
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
    elif comparison.failed_b > MOST_FAILURES:
        outcome, why = "fail", f"{comparison.failed_b:.0%} of the candidate's queries failed"
    elif low is None or high is None:
        outcome, why = "undecided", "the gold is on too few pages to compute an interval"
    elif high < -delta:
        outcome, why = "fail", "the upper bound is below -delta"
    elif replace(comparison, delta=delta).excludes_loss:
        outcome, why = "pass", "the lower bound is above -delta"
    elif low > -delta:
        hidden = "texts without a place" if comparison.unplaced else "the pages without a question"
        outcome, why = "undecided", f"{hidden} could hide a loss as large as delta"
    elif comparison.differing == 0:
        outcome = "undecided"
        why = (
            "the answers changed but no score did, and "
            f"{comparison.n} questions are too few to rule out a loss as large as delta"
        )
    else:
        outcome, why = "undecided", "the interval includes -delta"
    passes_at = comparison.smallest_delta if outcome == "undecided" else None
    if passes_at is not None:
        figures += f"; the gate would pass with --delta {passes_at:g}"
    unknown = comparison.verdict in ("inconclusive", "too few questions to tell")
    verdict = "" if unknown and outcome != "undecided" else f"{comparison.verdict}: "
    reason = f"{verdict}{why}; {figures}"
    return Gate(outcome=outcome, reason=reason, comparison=comparison, passes_at=passes_at)
