"""Simulate the coverage of the interval for a difference in graded measures (AP and nDCG) with few queries.

    python benchmarks/interval_coverage_graded.py                  # every cell; about 2 minutes
    python benchmarks/interval_coverage_graded.py --samples 300    # quicker, noisier

1. Both systems' scores are beta-distributed and correlated (a Gaussian copula). Some scores are 0, and on
   some queries, both systems have the same score. No two queries share a page. Every simulation is run for
   two equal systems, and for a candidate with a higher mean than the baseline.
2. For each sample, BranchRank's interval is compared with the interval of an earlier method ("padded"). The
   padded interval is computed after adding z**2 questions to the sample. Half of the added questions have a
   difference of -1, and half have a difference of 1. z is the normal quantile for the confidence level.
3. The column "coverage" is measured after each interval is adjusted to agree with the test, and should be at
   least .93. The column "width" is the mean width of the unadjusted intervals.
4. The column "interval against test" is the share of samples in which the test rejects a difference of 0
   although the unadjusted interval contains 0, or the reverse. The column "rejected" is the share of samples
   in which the test rejects a difference of 0 at the 5% level.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np
from interval_coverage_shares import Floats, beside_verdicts, holds, padded, rejected, short, table, width

from branchrank.scoring.clustering import PageTotals
from branchrank.scoring.intervals import difference_bounds

QUERIES = (20, 50, 300)


class Kind(NamedTuple):
    """The parameters of the scores' distribution."""

    ties: float
    zeros: float
    baseline: tuple[float, float]
    candidate: tuple[float, float]
    correlation: float


KINDS = {
    "AP": Kind(0.3, 0.2, (0.6, 1.4), (0.8, 1.4), 0.8),
    "AP, close systems": Kind(0.0, 0.0, (1.2, 2.8), (1.4, 2.8), 0.97),
    "nDCG": Kind(0.4, 0.1, (2.0, 2.0), (2.4, 2.0), 0.6),
    "nDCG, 90% ties": Kind(0.9, 0.3, (0.5, 1.5), (1.5, 1.5), 0.3),
}


def quantiles(shape: tuple[float, float], normal: Floats) -> Floats:
    """Transform standard normal values into values with a beta distribution, quantile by quantile."""
    from scipy.special import ndtr
    from scipy.stats import beta

    grid = np.linspace(0, 1, 4_001)
    return np.round(np.interp(ndtr(normal), beta.cdf(grid, *shape), grid), 4)


def differences(kind: Kind, queries: int, count: int, *, equal: bool) -> Floats:
    """Return the sampled differences (candidate - baseline) as an array of shape (count, queries)."""
    random = np.random.default_rng([queries, int(100 * kind.ties), int(equal)])
    size = (count, queries)
    first = random.standard_normal(size)
    second = kind.correlation * first + np.sqrt(1 - kind.correlation**2) * random.standard_normal(size)
    a = quantiles(kind.baseline, first)
    b = quantiles(kind.baseline if equal else kind.candidate, second)
    luck = random.random(size)
    a = np.where(luck < kind.zeros, 0.0, a)
    b = np.where(np.where(random.random(size) < 0.7, luck, random.random(size)) < kind.zeros, 0.0, b)
    return np.where(random.random(size) < kind.ties, 0.0, np.round(b - a, 4))


def true_difference(kind: Kind) -> float:
    """Return the expected difference in the simulations whose candidate is better than the baseline."""
    (a, b), (c, d) = kind.baseline, kind.candidate
    return (1 - kind.ties) * (1 - kind.zeros) * (c / (c + d) - a / (a + b))


class Shares(NamedTuple):
    """The results for one combination of parameters.

    Each pair contains the result for the padded interval and the result for BranchRank's interval.
    """

    held: tuple[float, ...]
    width: tuple[float, ...]
    disagreed: tuple[float, ...]
    rejected: float


def measure(kind: Kind, queries: int, count: int, *, equal: bool) -> Shares:
    """Simulate one row of the table."""
    drawn = differences(kind, queries, count, equal=equal)
    totals = PageTotals(
        sums=drawn,
        squares=(drawn**2).sum(-1),
        non_zero=np.count_nonzero(drawn, axis=-1).astype(np.float64),
        sizes=np.ones(queries),
    )
    rejects = rejected(totals)
    truth = 0.0 if equal else true_difference(kind)
    found = padded(totals), difference_bounds(totals, hits=False)
    return Shares(
        held=tuple(holds(beside_verdicts(each, totals, rejects), truth) for each in found),
        width=tuple(map(width, found)),
        disagreed=tuple(
            float(np.mean(((each[0] > 0) | (each[1] < 0)) != rejects)) for each in found if each is not None
        ),
        rejected=float(rejects.mean()),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--samples", type=int, default=2_000, help="samples per cell (default 2000)")
    count = parser.parse_args().samples
    cells = "in each cell: the padded interval → BranchRank's interval"
    print(f"{count:,} samples per cell; {cells}; widths in points\n")
    rows, least = [], 1.0
    for name, kind in KINDS.items():
        for queries in QUERIES:
            for equal in (True, False):
                found = measure(kind, queries, count, equal=equal)
                least = min(least, found.held[-1])
                rows.append(
                    (
                        name,
                        str(queries),
                        "0" if equal else f"{100 * true_difference(kind):.1f}",
                        *(" → ".join(map(short, each)) for each in found[:3]),
                        short(found.rejected),
                    )
                )
    table(("measure", "n", "difference", "coverage", "width", "interval against test", "rejected"), rows)
    print(f"\nThe lowest coverage of BranchRank's intervals in this table is {short(least)}.")


if __name__ == "__main__":
    main()
