"""Repeats of a predictor that does not answer alike every time, such as one that asks an LLM.

The question stays the unit: three repeats of 20 questions are 20 observations, not 60. So scores are
averaged per question before any test, and the flip rate says how unsteady they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def flip_rate(scores: Iterable[Sequence[float]]) -> float:
    """The share of questions whose repeats disagree; ``scores`` holds one question's repeats each."""
    flips = [len(set(values)) > 1 for values in scores]
    return sum(flips) / len(flips) if flips else 0.0
