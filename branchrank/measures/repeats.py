"""Repeats of a predictor whose answers vary, such as one that asks an LLM.

The question stays the unit: three repeats of 20 questions are 20 observations, not 60. So scores are averaged
per question before any test, and the flip rate shows how much the repeats vary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def flip_rate(scores: Iterable[Sequence[float]]) -> float:
    """The share of questions whose repeats disagree; ``scores`` holds one question's repeats each."""
    flips = [len(set(values)) > 1 for values in scores]
    return sum(flips) / len(flips) if flips else 0.0
