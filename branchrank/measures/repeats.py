"""Repeats of a predictor that does not answer alike every time, such as one that asks an LLM.

The question stays the unit: three repeats of 20 questions are 20 observations, not 60. So scores are
averaged per question before any test, and the flip rate says how unsteady they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from branchrank.records import Record


class Repeats(Record, frozen=True, kw_only=True):
    """Mean score per question, and ``flip_rate``: the share of questions whose repeats disagree."""

    scores: dict[str, float]
    flip_rate: float


def average_repeats(scores: Mapping[str, Sequence[float]]) -> Repeats:
    """Average each question's repeats; a question without any (every repeat failed) scores 0."""
    flips = sum(len(set(values)) > 1 for values in scores.values())
    return Repeats(
        scores={
            question: sum(values) / len(values) if values else 0.0 for question, values in scores.items()
        },
        flip_rate=flips / len(scores) if scores else 0.0,
    )
