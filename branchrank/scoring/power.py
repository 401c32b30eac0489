"""Power analysis for a comparison, either before or after the comparison is run.

This module computes the smallest difference that n questions can detect, and the number of questions needed
to detect a given difference.

For hit rates, the power is that of the exact McNemar test. Let ``disagreement`` be the share of questions
that only one of the two systems answers correctly, and let ``difference`` be the true difference in hit rate.
The number d of questions on which the systems differ is distributed as Bin(n, disagreement). For a given d,
the number of questions that only the candidate answers correctly is distributed as Bin(d, (disagreement +
difference) / (2 * disagreement)). For graded measures, the smallest detectable difference is about
(z_{1-alpha/2} + z_power) * sd / sqrt(n) (normal approximation), where sd is the standard deviation of the
per-question differences. With alpha 5% and power 80%, the smallest detectable difference is about 2.8 * sd /
sqrt(n).

If several questions have their gold on the same page, n questions have only the power of a smaller number of
independent questions (:meth:`SharedPages.effective_questions`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import ceil, floor, inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from branchrank.core.errors import UsageError
from branchrank.core.records import Record
from branchrank.scoring.clustering import Floats, kish_effect, t_penalty
from branchrank.scoring.intervals import LEVEL, Interval, wilson_bounds
from branchrank.scoring.significance import binomial_cdf, p_floor

Counts = NDArray[np.int64]

ALPHA = 0.05
POWER = 0.8
MOST_QUESTIONS = 20_000
#: Assumed squared coefficient of variation of the number of questions per page (0.27 in the bundled sample,
#: 0.15 in questions about Symfony, 1.8 if 150 questions on 25 pages follow Zipf's law).
PAGE_VARIATION = 0.25
#: The minimum intraclass correlation that a plan assumes for one predictor's hits.
LEAST_ICC = 0.1


class Assumptions(Record, frozen=True, kw_only=True):
    """The assumptions of a power analysis that a user can give. ``None`` stands for the default or a pilot's
    value.

    ``rate`` is the expected hit rate, ``disagreement`` the share of questions on which exactly one of two
    predictors has a correct hit, and ``difference`` the difference in hit rate to confirm. ``candidates``
    predictors are compared with the baseline. ``sources`` is the number of pages with gold,
    ``page_variation`` the squared coefficient of variation of the number of questions per page (0 if all
    pages have equally many), and ``icc`` the intraclass correlation, from 0 to 1, between questions on the
    same page.
    """

    rate: float | None = None
    disagreement: float | None = None
    difference: float | None = None
    candidates: int | None = None
    alpha: float = ALPHA
    sources: int | None = None
    page_variation: float = PAGE_VARIATION
    icc: float | None = None


def hit_power(n: int, disagreement: float, difference: float, alpha: float = ALPHA) -> float:
    """Return the power (0 to 1) of the exact McNemar test at level ``alpha`` with ``n`` questions.

    ``disagreement`` is the share of questions that only one of the systems answers correctly. ``difference``
    is the absolute difference in hit rate, which is at most ``disagreement``.
    """
    if disagreement <= 0 or n < 1:
        return 0.0
    differing, critical, chances = _differing(n, disagreement, alpha)
    favor = min(1.0, (disagreement + difference) / (2 * disagreement))
    rejects = binomial_cdf(critical, differing, favor) + binomial_cdf(critical, differing, 1 - favor)
    return float((chances * rejects).sum())


@lru_cache(maxsize=64)
def _differing(n: int, disagreement: float, alpha: float) -> tuple[Counts, Counts, Floats]:
    """Return the likely numbers of questions on which the systems differ, with their critical values.

    The test rejects if one system wins at most the critical value of them. The third array contains the
    probability of each number. Numbers outside the range have a probability below 1e-12 in total (Hoeffding).
    """
    reach = sqrt(n * log(2e12) / 2)
    differing = np.arange(max(0, floor(n * disagreement - reach)), min(n, ceil(n * disagreement + reach)) + 1)
    chances = np.diff(binomial_cdf(np.arange(differing[0] - 1, differing[-1] + 1), n, disagreement))
    critical = np.maximum((differing - _z(alpha, 0.5) * np.sqrt(differing)) // 2, -1).astype(np.int64)
    while (beyond := binomial_cdf(critical, differing, 0.5) > alpha / 2).any():
        critical -= beyond
    while (within := binomial_cdf(critical + 1, differing, 0.5) <= alpha / 2).any():
        critical += within
    return differing, critical, chances


def detectable_hit_difference(n: int, disagreement: float, alpha: float = ALPHA) -> float | None:
    """Return the smallest true difference in hit rate that ``n`` questions can detect with 80% power.

    Returns ``None`` if the power is too low even when all questions on which the systems differ favor the
    same system.
    """
    if hit_power(n, disagreement, disagreement, alpha) < POWER:
        return None
    low, high = 0.0, disagreement
    while high - low > 1e-4:
        middle = (low + high) / 2
        if hit_power(n, disagreement, middle, alpha) < POWER:
            low = middle
        else:
            high = middle
    return high


def questions_for_hit_difference(disagreement: float, difference: float, alpha: float = ALPHA) -> int | None:
    """Return the number of questions needed to detect a ``difference`` in hit rate with 80% power.

    Returns ``None`` if ``difference`` is 0, or if more than 20,000 questions are needed.
    """
    difference = abs(difference)
    if difference == 0:
        return None
    return _least(lambda n: hit_power(n, disagreement, difference, alpha) >= POWER)


def _least(enough: Callable[[int], bool]) -> int | None:
    """Return the smallest number of questions that is enough, or ``None`` if more than 20,000 are needed."""
    low, high = 0, MOST_QUESTIONS
    if not enough(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _z(alpha: float, power: float = POWER) -> float:
    from scipy.special import ndtri

    return float(ndtri(1 - alpha / 2) + ndtri(power))


def detectable_mean_difference(n: float, sd: float, alpha: float = ALPHA) -> float:
    """Return the smallest true difference in a graded measure that ``n`` questions can detect.

    The probability of detecting the difference is 80%. ``sd`` is the standard deviation of the
    per-question differences.
    """
    return _z(alpha) * sd / sqrt(n) if n else inf


def questions_for_mean_difference(sd: float, difference: float, alpha: float = ALPHA) -> int | None:
    """Return the number of questions needed to detect a ``difference`` in a mean score with 80% power.

    Returns ``None`` if ``difference`` is 0, or if more than 20,000 questions are needed.
    """
    if difference == 0:
        return None
    needed = max(2, ceil((_z(alpha) * sd / difference) ** 2))
    return needed if needed <= MOST_QUESTIONS else None


#: A function from the number of questions to the number of questions on a random question's page. This number
#: is at least 1, because a question's page always has the question itself.
PageSize = Callable[[int], float]


def pages_alone(pages: int, variation: float = PAGE_VARIATION) -> PageSize:
    """Return a :data:`PageSize` for a benchmark whose gold is spread over the given number of pages."""
    return lambda n: max(1.0, (1 + variation) * n / pages)


def pages_as_in(sizes: Sequence[int]) -> PageSize:
    """Return a :data:`PageSize` for a benchmark whose questions share pages as often as in a pilot.

    ``sizes`` contains the number of questions on each page of the pilot. The function assumes that two random
    questions share a page as often as in the pilot (Simpson 1949).
    """
    n = sum(sizes)
    together = sum(size * (size - 1) for size in sizes) / (n * (n - 1)) if n > 1 else 0.0
    return lambda questions: 1 + (questions - 1) * together


class SharedPages(Record, frozen=True, kw_only=True):
    """How many questions have their gold on the same page, and how strongly these questions are correlated.

    ``page_size`` returns the expected number of questions on the same page as a randomly drawn question.
    ``icc`` is the intraclass correlation of the per-question score differences on a page, from 0
    (independent) to 1 (all equal).
    """

    page_size: PageSize
    icc: float

    def effective_questions(self, n: int, level: float, least_icc: float = 0.0) -> float:
        """Return how many independent questions give an interval as wide as ``n`` questions on shared pages.

        ``level`` is the confidence level of the intervals, and ``least_icc`` is a minimum for ``icc``.
        """
        size = self.page_size(n)
        if size <= 1:
            return float(n)
        degrees = np.asarray(max(1.0, n / size - 1))
        return n / kish_effect(size, max(self.icc, least_icc)) * float(t_penalty(level, degrees))


#: The assumption that every question has its own page.
NO_SHARED_PAGES = SharedPages(page_size=lambda _: 1.0, icc=0.0)


class PowerEstimate(Record, frozen=True, kw_only=True):
    """The power analysis for a benchmark with ``n`` questions.

    ``effective`` is the number of independent questions that ``n`` questions are equivalent to. ``interval``
    is the confidence interval for a system with the hit rate ``rate``. ``detectable`` is the smallest
    difference in hit rate that can be detected with 80% power. ``differing`` is the expected number of
    questions, out of ``effective``, on which the systems differ. ``p_floor`` is the smallest p-value that is
    possible if the systems differ on ``differing`` questions. ``unanimous`` is the smallest number of
    questions that gives a significant result if all questions favor the same system. ``power`` is the
    probability of detecting ``difference``. ``questions_needed`` is the number of questions needed to detect
    ``difference`` with 80% power. ``power`` and ``questions_needed`` are ``None`` if no difference was given.
    """

    n: int
    effective: float
    rate: float
    interval: Interval
    disagreement: float
    family: int
    alpha: float
    detectable: float | None
    differing: int
    p_floor: float
    unanimous: int
    difference: float | None = None
    power: float | None = None
    questions_needed: int | None = None


def plan(
    n: int,
    *,
    rate_expected: float = 0.7,
    disagreement: float = 0.2,
    difference: float | None = None,
    family: int = 1,
    alpha: float = ALPHA,
    pages: SharedPages = NO_SHARED_PAGES,
) -> PowerEstimate:
    """Return the power analysis for a comparison of hit rates on ``n`` questions.

    ``family`` is the number of candidates that are compared with the baseline. The power is computed for the
    strictest step of Holm's correction, which is a test at the level ``alpha / family``.

    Raises :class:`UsageError` if a share is outside 0..1, ``n`` or ``family`` is below 1, or the difference
    is 0 or larger than the disagreement.
    """
    for name, share in (("rate", rate_expected), ("disagreement", disagreement), ("icc", pages.icc)):
        if not 0 <= share <= 1:
            raise UsageError(f"{name} is {share}, which is not in 0..1", remedy="give a share from 0 to 1")
    if n < 1 or family < 1:
        raise UsageError(
            f"a plan for {n} questions and {family} candidates is not possible",
            remedy="give at least one question and one candidate",
        )
    if difference == 0:
        raise UsageError(
            "a difference of 0 can't be detected, because no number of questions is enough",
            remedy="give the smallest difference that matters to you, such as 0.05",
        )
    if difference is not None and abs(difference) > disagreement:
        raise UsageError(
            f"the difference, {abs(difference)}, is larger than the disagreement, {disagreement}",
            remedy="give a disagreement (the share of questions with different results) that is "
            "at least as large as the difference",
        )
    strictest = alpha / family
    effective = pages.effective_questions(n, 1 - strictest)
    worth = max(1, int(effective))
    differing = round(worth * disagreement)
    low, high = wilson_bounds(rate_expected, pages.effective_questions(n, LEVEL, LEAST_ICC))
    needed = None
    if difference is not None:
        alone = questions_for_hit_difference(disagreement, difference, strictest)
        if alone is not None:
            needed = _least(lambda n: pages.effective_questions(n, 1 - strictest) >= alone)
    return PowerEstimate(
        n=n,
        effective=effective,
        rate=rate_expected,
        interval=Interval(low=float(low), high=float(high)),
        disagreement=disagreement,
        family=family,
        alpha=alpha,
        detectable=detectable_hit_difference(worth, disagreement, strictest),
        differing=differing,
        p_floor=p_floor(differing),
        unanimous=unanimous_needed(family, alpha),
        difference=difference,
        power=None if difference is None else hit_power(worth, disagreement, abs(difference), strictest),
        questions_needed=needed,
    )


def unanimous_needed(family: int = 1, alpha: float = ALPHA) -> int:
    """Return the smallest number of differing questions with which a result can be significant.

    A differing question is one that the two systems answer differently. A result is significant if the
    adjusted p-value is below ``alpha``. The p-value is smallest if all differing questions favor the same
    system.
    """
    differing = 1
    while p_floor(differing) * family >= alpha:
        differing += 1
    return differing
