"""Repeated answers from a predictor whose answers vary, such as a predictor that calls an LLM.

The question remains the unit of analysis, so three repeats of 20 questions are 20 observations, not 60.
Scores are averaged per question before any test, and the flip rate shows how much the repeats vary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def flip_rate(scores: Iterable[Sequence[float]]) -> float:
    """Return the share of questions whose repeats differ in score.

    ``scores`` contains a list of the repeats' scores for each question. Without questions, the result is 0.
    """
    flips = [len(set(values)) > 1 for values in scores]
    return sum(flips) / len(flips) if flips else 0.0
