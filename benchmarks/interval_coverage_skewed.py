"""Simulate the verdicts for skewed differences: rare pages that are lost whole, and effects by page size.

    python benchmarks/interval_coverage_skewed.py                  # every cell; about 3 minutes
    python benchmarks/interval_coverage_skewed.py --samples 300    # quicker, noisier

1. "Lost pages": on 5% of the pages, the candidate loses every question. On all other pages, it wins a few
   questions (hits), or a little on every question (graded), so that the true difference is 0. A test that
   assumes symmetry finds these wins significant whenever the sample has too few lost pages.
2. "By size": pages have 1 to 9 questions. The candidate's difference falls with the size, from +59 points
   on pages with one question to -29 points on pages with nine. "By size, extreme": pages have 1, 2, 5 or 15
   questions. The candidate loses six in ten questions on the tenth of the pages that has 15, and wins half
   of the others. The true difference is 0 in both.
3. "Ties": 5% of the pages are lost whole, and all other questions tie. The true difference is -5 points, so
   an equivalence verdict within 5 points is false.
4. The tables show the share of false verdicts, before and after the condition for rare pages
   (:func:`branchrank.scoring.intervals.pages_lost`), and the coverage of the interval. A false ``better`` is
   expected in at most 10% of the samples, and a false ``equivalent`` in at most 2.5%.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from interval_coverage import ZIPF
from interval_coverage_shares import Floats, short, table

from branchrank.scoring.comparison import CompareOptions, Comparison
from branchrank.scoring.verdicts import compare_pairs

SHARE = 0.05
WIN = SHARE / (1 - SHARE)
SLOPE, CENTER = 0.11, 19 / 3
EXTREME = {1: 0.5, 2: 0.25, 5: 0.15, 15: 0.1}
OPTIONS = CompareOptions(draws=1_999)
CELLS: tuple[tuple[str, str, Sequence[int]], ...] = (
    ("lost pages, hits", "30 of 5", [5] * 30),
    ("lost pages, hits", "30 of 10", [10] * 30),
    ("lost pages, hits", "25, Zipf", ZIPF),
    ("lost pages, hits", "100 of 3", [3] * 100),
    ("lost pages, graded", "6 of 5", [5] * 6),
    ("lost pages, graded", "10 of 5", [5] * 10),
    ("lost pages, graded", "20 of 5", [5] * 20),
    ("lost pages, graded", "30 of 5", [5] * 30),
    ("lost pages, graded", "60 of 5", [5] * 60),
    ("by size, hits", "20", [0] * 20),
    ("by size, extreme", "20", [0] * 20),
    ("ties", "30 of 5", [5] * 30),
    ("ties", "30 of 10", [10] * 30),
    ("ties", "45 of 3", [3] * 45),
    ("ties", "100 of 3", [3] * 100),
    ("ties", "200 of 2", [2] * 200),
)


def differences(kind: str, sizes: Sequence[int], random: np.random.Generator) -> list[Floats]:
    """Draw the differences (candidate - baseline) on each page of a sample."""
    if kind == "by size, hits":
        chances = [(size, SLOPE * (CENTER - size)) for size in random.integers(1, 10, len(sizes))]
        return [np.sign(chance) * (random.random(size) < abs(chance)) for size, chance in chances]
    if kind == "by size, extreme":
        drawn = random.choice(list(EXTREME), len(sizes), p=list(EXTREME.values()))
        won = 0.6 * 15 * EXTREME[15] / sum(size * share for size, share in EXTREME.items() if size < 15)
        return [
            -(random.random(15) < 0.6).astype(float) if size == 15 else (random.random(size) < won) * 1.0
            for size in drawn
        ]
    pages = []
    for size in sizes:
        if random.random() < SHARE:
            pages.append(np.full(size, -1.0))
        elif kind == "ties":
            pages.append(np.zeros(size))
        elif kind == "lost pages, hits":
            pages.append((random.random(size) < WIN).astype(float))
        else:
            pages.append(np.round(WIN * random.uniform(0.5, 1.5, size), 4))
    return pages


def compared(pages: Sequence[Floats]) -> Comparison:
    """Compare two systems whose scores differ by ``pages``."""
    gaps = {f"{place} {n}": gap for place, page in enumerate(pages) for n, gap in enumerate(page)}
    scores = {"a": {key: max(-gap, 0.0) for key, gap in gaps.items()}}
    scores["b"] = {key: max(gap, 0.0) for key, gap in gaps.items()}
    clusters = {key: key.split()[0] for key in gaps}
    return compare_pairs([("a", "b")], scores, clusters, measure="hit@1", options=OPTIONS)[0]


def row(kind: str, name: str, sizes: Sequence[int], count: int) -> tuple[str, ...]:
    """Simulate one cell, and return its row of the table."""
    random = np.random.default_rng([len(kind), len(sizes), max(sizes)])
    found = [compared(differences(kind, sizes, random)) for _ in range(count)]
    truth = -SHARE if kind == "ties" else 0.0
    held = [each.ci_low <= truth <= each.ci_high for each in found if None not in (each.ci_low, each.ci_high)]
    coverage = short(float(np.mean(held))) if held else "no interval"
    if kind == "ties":
        inside = [
            each.p_adjusted >= 0.05
            and each.ci_low is not None
            and -each.delta < each.ci_low
            and each.ci_high < each.delta
            for each in found
        ]
        now = [each.verdict == "equivalent within delta" for each in found]
        return kind, name, "equivalent", short(np.mean(inside)), short(np.mean(now)), coverage
    before = [each.p_adjusted < 0.05 and each.difference > 0 for each in found]
    now = [each.verdict == "better" for each in found]
    return kind, name, "better", short(np.mean(before)), short(np.mean(now)), coverage


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--samples", type=int, default=2_000, help="samples per cell (default 2000)")
    count = parser.parse_args().samples
    table(
        ("differences", "pages", "false verdict", "without the condition", "with it", "coverage"),
        (row(*cell, count) for cell in CELLS),
    )


if __name__ == "__main__":
    main()
