"""Compute and print the results for the simulations in ``interval_coverage*.py``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from branchrank.scoring.clustering import Padding, PageTotals, effective_questions
from branchrank.scoring.intervals import Interval, compatible, mean_padding, padded_bounds
from branchrank.scoring.significance import sign_flip

Floats = NDArray[np.float64]
Bounds = tuple[Floats, Floats]

ALPHA = 0.05
#: The number of sign patterns to sample if there are too many to enumerate.
DRAWS = 1_999


def holds(bounds: Bounds | None, truth: float) -> float:
    """Return the fraction of the intervals that contain the true value, or NaN if there are no intervals."""
    if bounds is None:
        return float("nan")
    return float(np.mean((bounds[0] <= truth + 1e-12) & (truth - 1e-12 <= bounds[1])))


def within(bounds: Bounds | None, delta: float) -> float:
    """Return the fraction of the intervals that are strictly between -delta and delta."""
    if bounds is None:
        return 0.0
    return float(np.mean((bounds[0] > -delta) & (bounds[1] < delta)))


def width(bounds: Bounds | None) -> float:
    """Return the mean width of the intervals, in percentage points."""
    return float("nan") if bounds is None else float(100 * np.mean(bounds[1] - bounds[0]))


def rejected(totals: PageTotals) -> NDArray[np.bool_]:
    """Return, for each sample, whether the test rejects the hypothesis that both systems are equally good."""
    return np.array([sign_flip(sums, draws=DRAWS).p < ALPHA for sums in totals.sums])


def padded(totals: PageTotals, level: float = 0.95) -> Bounds | None:
    """Return the bounds of BranchRank's earlier interval, which adds z**2 questions to each sample.

    Half of the added questions have a difference of -1, and half have a difference of 1. z is the normal
    quantile for the confidence level ``level``.
    """
    questions = mean_padding(level).questions
    n = effective_questions(totals, level, Padding(questions=questions, variance=1.0, icc=0.25))
    if n is None:
        return None
    moved = totals._replace(
        sums=(totals.sums + totals.sizes) / 2,
        squares=(totals.squares + 2 * totals.sums.sum(-1) + totals.n) / 4,
    )
    low, high = padded_bounds(moved, n, level)
    return 2 * low - 1, 2 * high - 1


def beside_verdicts(bounds: Bounds | None, totals: PageTotals, rejects: NDArray[np.bool_]) -> Bounds | None:
    """Return the intervals, adjusted as in a report to agree with the test results in ``rejects``."""
    if bounds is None:
        return None
    found = [
        compatible(Interval(low=low, high=high), mean, rejected=bool(rejects_it))
        for low, high, mean, rejects_it in zip(*bounds, totals.mean, rejects, strict=True)
    ]
    return np.array([each.low for each in found if each]), np.array([each.high for each in found if each])


def short(share: float) -> str:
    """Format a share as ``.957``, and a number above 1 (a width in percentage points) with one decimal."""
    return f"{share:.1f}" if share > 1 else f"{share:.3f}".removeprefix("0")


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a Markdown table with these column headings and rows."""
    print(f"| {' | '.join(headings)} |\n|{' --- |' * len(headings)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)
