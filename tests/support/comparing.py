"""Comparisons of made-up scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from branchrank.scoring.comparison import CompareOptions, Comparison
from branchrank.scoring.verdicts import compare_pairs

Scores = Mapping[str, float]


def against(
    scores: Mapping[str, Scores], clusters: Mapping[str, str], baseline: str, measure: str, **options: Any
) -> tuple[Comparison, ...]:
    """Compare every other system with the baseline, as one family."""
    pairs = [(baseline, name) for name in scores if name != baseline]
    return compare_pairs(pairs, scores, clusters, measure=measure, options=CompareOptions(**options))
