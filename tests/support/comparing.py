"""Comparisons and tests of made-up scores."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

import numpy as np

from branchrank.scoring.clustering import page_totals
from branchrank.scoring.comparison import CompareOptions, Comparison
from branchrank.scoring.significance import FlipTest
from branchrank.scoring.verdicts import compare_pairs

Scores = Mapping[str, float]


def against(
    scores: Mapping[str, Scores], clusters: Mapping[str, str], baseline: str, measure: str, **options: Any
) -> tuple[Comparison, ...]:
    """Compare every other system with the baseline, as one family."""
    pairs = [(baseline, name) for name in scores if name != baseline]
    return compare_pairs(pairs, scores, clusters, measure=measure, options=CompareOptions(**options))


def flip_test(sums: Any, sizes: Any, **options: Any) -> FlipTest:
    """The test of pages with these sums and sizes; each page's questions share its sum equally."""
    pages = [str(page) for page, size in enumerate(sizes) for _ in range(size)]
    values = np.repeat(np.asarray(sums) / sizes, sizes)
    return FlipTest(page_totals(values, pages)._replace(sums=np.asarray(sums, float)), **options)


def sign_flip(sums: Any, **options: Any) -> FlipTest:
    """The test of pages with these sums, each with as few questions as it can have."""
    return flip_test(sums, [max(1, ceil(abs(each))) for each in sums], **options)
