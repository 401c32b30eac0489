"""Simulate the coverage of intervals, the type I error rate of tests, and the power of comparisons.

    python benchmarks/interval_coverage.py                  # every cell; about 5 minutes
    python benchmarks/interval_coverage.py --samples 300    # quicker, noisier

1. Questions are distributed over pages as in the bundled sample's first 161 questions (154 with gold, on
   29 pages) or as in a question set about Symfony's documentation (100 questions on 83 pages). Each simulated
   sample has n questions. If n is larger than the number of questions in the set, more questions are added to
   the same pages.
2. Hits and reciprocal ranks are sampled with an intraclass correlation (ICC) of 0 or .5 within pages. The
   correlation within pages follows one of two models, "own rates" or "shared". With "own rates", each page
   has its own probabilities of the outcomes, which are sampled from a Dirichlet distribution (for hits, a
   beta distribution). With "shared", all questions of a page have the same outcome with a probability equal
   to the ICC, and independent outcomes otherwise. Nominal coverage is harder to reach with "shared" than with
   "own rates".
3. The baseline has a hit at rank 1 with probability p. In the simulations of a true difference, the
   candidate's probability of a hit at rank 1 is 5 points lower than the baseline's. In the simulations of
   equal systems, each system has a hit at rank 1 with probability p.
4. For a random half of the questions, the outcomes of the two systems are correlated so that they agree as
   often as the hit rates allow. For all other questions, the outcomes of the two systems are independent. A
   cell is one combination of page sizes, n, ICC, model and p.
5. For hit rates, BranchRank's intervals are compared with Wilson's intervals, which treat all questions as
   independent. For means and differences, BranchRank's intervals are compared with BCa bootstrap intervals
   over resampled pages, which BranchRank used earlier.
6. For differences, a third interval ("padded") is computed after adding z**2 questions to the sample. Half of
   the added questions have a difference of -1, and half have a difference of 1. z is the normal quantile for
   the confidence level.
7. The interval of a difference is adjusted as in a report. The adjusted interval contains 0 if and only if
   the test does not reject.
8. The tables show coverage, type I error rates, false equivalence verdicts and power. The coverage is the
   share of intervals that contain the true value (at least .93 is expected). The type I error rate is the
   share of tests at the 5% level that reject the null hypothesis although the systems are equal (at most .05
   is expected). An equivalence verdict is given if the interval is within 5 points of 0. A false equivalence
   verdict is one that is given although the true difference is 5 points. The expected share of false
   equivalence verdicts is at most .025. The power is measured for the difference that `branchrank power`
   calls detectable with 80% power. With 2,000 samples, the standard error of a share of .95 is .005. If a
   test rejects the null hypothesis in more than 5% of the samples of a cell, the cell is simulated again with
   ten times as many samples.
9. The last table shows the padded intervals and BranchRank's intervals for samples in which the systems have
   different outcomes on only a few questions. No page has more than one question on which the systems have
   different outcomes.

``benchmarks/interval_coverage_graded.py`` runs similar simulations for AP and nDCG with few queries.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np
from interval_coverage_shares import (
    ALPHA,
    Bounds,
    Floats,
    beside_verdicts,
    holds,
    padded,
    rejected,
    short,
    table,
    width,
    within,
)
from numpy.typing import NDArray

from branchrank.scoring.clustering import PageTotals
from branchrank.scoring.intervals import difference_bounds, mean_bounds, wilson_bounds
from branchrank.scoring.power import SharedPages, pages_alone, plan

STRUCTURES = {
    "sample": [12, 11, 9, 8, 8, 8, 7, 7, 7, *[6] * 5, 5, 5, 5, 4, 4, 4, 4, 3, 3, 2, 2, 2, 2, 1, 1],
    "Symfony": [3, 3, *[2] * 13, *[1] * 68],
}
#: More pages for the simulations of power: 30 pages of 5 questions, and 25 pages that follow Zipf's law.
ZIPF = [39, 20, 13, 10, 8, 7, 6, 5, 4, 4, 4, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1]
PLANNED = {**STRUCTURES, "even": [5] * 30, "Zipf": ZIPF}
NUMBERS = (50, 100, 160)
RATES = (0.1, 0.5, 0.9, 0.98)
#: Each entry contains the ICC, the model of the correlation within pages, and the name in the tables.
CLUSTERINGS = ((0.0, "rates", "0"), (0.5, "rates", ".5, own rates"), (0.5, "shared", ".5, shared"))
#: Reciprocal ranks, and their probabilities for a question without a hit at rank 1.
RANKS = np.array([1.0, 1 / 2, 1 / 3, 1 / 5, 0.0])
SPREAD = np.array([0.4, 0.2, 0.1, 0.3])
AGREEMENT = 0.5
DELTA = 0.05
FEW = ((0, 0), (0, 1), (1, 1), (0, 2), (0, 3), (8, 5))
RESAMPLES = 1_000
#: The title of each table, and the field of :class:`Shares` that it shows.
TABLES = (
    ("Coverage of the interval for a hit rate, by method (Wilson, BranchRank)", "rate"),
    ("Coverage of the interval for a mean reciprocal rank, by method (BCa, BranchRank)", "mean"),
    (
        "Coverage of the interval for a difference of -5 points in hit rate, by method "
        "(BCa, padded, BranchRank)",
        "difference",
    ),
    (
        "Mean interval width in points for a difference in hit rate, by method (BCa, padded, BranchRank)",
        "width",
    ),
    (
        "Coverage of the interval for a difference of 0 in mean reciprocal rank, by method "
        "(BCa, padded, BranchRank)",
        "mean_difference",
    ),
    (
        "Mean interval width in points for a difference of 0 in mean reciprocal rank, by method "
        "(BCa, padded, BranchRank)",
        "mean_width",
    ),
    (
        "Share of false equivalence verdicts for a difference of -5 points, by method "
        "(BCa, padded, BranchRank)",
        "equivalent",
    ),
    ("Type I error rate of the tests (hits, reciprocal ranks)", "type_one"),
)


class Outcomes(NamedTuple):
    """The values of a random variable, and their probabilities."""

    values: Floats
    chances: Floats

    @property
    def mean(self) -> float:
        return float(self.values @ self.chances)


class Cell(NamedTuple):
    """One combination of the simulation's parameters."""

    structure: str
    n: int
    icc: float
    model: str
    p: float


class Shares(NamedTuple):
    """The results of each method for one cell.

    ``width`` and ``mean_width`` are the mean widths, in percentage points, of the intervals for
    ``difference`` and ``mean_difference``. All other fields contain fractions of the samples.
    """

    rate: tuple[float, ...]
    mean: tuple[float, ...]
    difference: tuple[float, ...]
    mean_difference: tuple[float, ...]
    type_one: tuple[float, ...]
    equivalent: tuple[float, ...]
    width: tuple[float, ...]
    mean_width: tuple[float, ...]


def page_sizes(structure: str, n: int) -> NDArray[np.int64]:
    """Return the number of questions on each page, the largest number first."""
    sizes = STRUCTURES[structure]
    pages = np.repeat(np.arange(len(sizes)), sizes)
    random = np.random.default_rng(n)
    drawn = random.choice(pages, min(n, len(pages)), replace=False)
    drawn = np.concatenate([drawn, random.choice(pages, max(0, n - len(pages)))])
    counts = np.bincount(drawn)
    return np.sort(counts[counts > 0])[::-1]


def hits(p: float) -> Outcomes:
    """Return the distribution of a score that is 1 with probability p and 0 otherwise."""
    return Outcomes(np.array([1.0, 0.0]), np.array([p, 1 - p]))


def reciprocal_ranks(p: float) -> Outcomes:
    """Return the distribution of a reciprocal rank that is 1 with probability p and lower otherwise."""
    return Outcomes(RANKS, np.array([p, *(1 - p) * SPREAD]))


def paired(baseline: Outcomes, candidate: Outcomes) -> Outcomes:
    """Return the distribution of the score difference between two systems that agree on some questions."""
    common = np.minimum(baseline.chances, candidate.chances)
    agreeing = np.diag(common)
    if (left := 1 - common.sum()) > 1e-12:
        rest = np.outer(baseline.chances - common, candidate.chances - common) / left
        agreeing = agreeing + rest
    joint = AGREEMENT * agreeing + (1 - AGREEMENT) * np.outer(baseline.chances, candidate.chances)
    gaps = np.subtract.outer(candidate.values, baseline.values).T.round(12)
    values, places = np.unique(gaps, return_inverse=True)
    return Outcomes(values, np.bincount(places.ravel(), joint.ravel(), minlength=len(values)))


def samples(
    outcomes: Outcomes,
    sizes: NDArray[np.int64],
    icc: float,
    model: str,
    count: int,
    random: np.random.Generator,
) -> PageTotals:
    """Draw ``count`` samples of outcomes, and return the sum of the outcomes on each page of each sample."""
    page = np.repeat(np.arange(len(sizes)), sizes)
    edges = np.cumsum(outcomes.chances)[:-1]
    own = random.random((count, len(page)))
    if icc == 0:
        drawn = np.searchsorted(edges, own, side="right")
    elif model == "rates":
        gammas = np.stack(
            [random.gamma(chance * (1 - icc) / icc, size=(count, len(sizes))) for chance in outcomes.chances]
        )
        rates = np.cumsum(gammas + 1e-300, axis=0)
        drawn = sum((own > (rate / rates[-1])[:, page]).astype(np.int64) for rate in rates[:-1])
    else:
        common = random.random((count, len(sizes)))
        shared = random.random((count, len(sizes))) < icc
        drawn = np.searchsorted(edges, np.where(shared[:, page], common[:, page], own), side="right")
    values = outcomes.values[drawn]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return PageTotals(
        sums=np.add.reduceat(values, starts, axis=1),
        squares=(values**2).sum(axis=1),
        non_zero=np.count_nonzero(values, axis=1).astype(np.float64),
        sizes=sizes.astype(np.float64),
    )


def bca_bounds(totals: PageTotals, random: np.random.Generator, level: float = 0.95) -> Bounds:
    """Return the bounds of the BCa bootstrap interval over pages, which BranchRank used earlier.

    If all pages of a sample have the same mean, all bootstrap resamples have the same mean, too. For such a
    sample, the upper bound assumes that some unseen pages have the value 1, and the lower bound assumes that
    some unseen pages have the value -1. The share p of unseen pages is the one for which a sample of
    this size contains no such page with a probability of ``(1 - level) / 2``.
    """
    from scipy.special import ndtr, ndtri

    sums, sizes = totals.sums, totals.sizes
    pages, estimate = len(sizes), totals.mean
    counts = random.multinomial(pages, np.full(pages, 1 / pages), size=RESAMPLES).astype(np.float64)
    means = np.sort((counts @ sums.T) / (counts @ sizes)[:, None], axis=0)
    below = (means < estimate - 1e-12).sum(0) + (means <= estimate + 1e-12).sum(0)
    bias = ndtri(np.clip(below / (2 * RESAMPLES), 1 / (RESAMPLES + 1), RESAMPLES / (RESAMPLES + 1)))
    without = (sums.sum(1)[:, None] - sums) / (sizes.sum() - sizes)
    skew = without.mean(1)[:, None] - without
    alike = np.ptp(sums / sizes, axis=1) < 1e-12
    scale = np.where(alike, 1.0, (skew**2).sum(1))
    acceleration = (skew**3).sum(1) / (6 * scale**1.5)
    tail = ndtri((1 + level) / 2)
    ends = []
    for z, unseen_end in ((-tail, -1.0), (tail, 1.0)):
        place = ndtr(bias + (bias + z) / (1 - acceleration * (bias + z))) * (RESAMPLES - 1)
        low = np.floor(place).astype(np.int64)
        columns = np.arange(len(estimate))
        part = place - low
        end = means[low, columns] * (1 - part) + means[np.minimum(low + 1, RESAMPLES - 1), columns] * part
        unseen = 1 - ((1 - level) / 2) ** (1 / pages)
        ends.append(np.where(alike, estimate + unseen * (unseen_end - estimate), end))
    return ends[0], ends[1]


def random_of(cell: Cell, *more: int) -> np.random.Generator:
    """Return the random generator for one cell."""
    seeds = [cell.n, int(100 * cell.icc), int(100 * cell.p), len(cell.model), *more]
    return np.random.default_rng(seeds)


def measure(cell: Cell, count: int, *, before: bool = True) -> Shares:
    """Simulate one cell. If ``before`` is false, the BCa method, which takes most of the time, is skipped."""
    random = random_of(cell)
    sizes = page_sizes(cell.structure, cell.n)

    def draw(outcomes: Outcomes) -> PageTotals:
        return samples(outcomes, sizes, cell.icc, cell.model, count, random)

    def bca(totals: PageTotals) -> Bounds | None:
        return bca_bounds(totals, random) if before else None

    def compared(totals: PageTotals, rejects: NDArray[np.bool_], *, hit: bool) -> tuple[Bounds | None, ...]:
        both = padded(totals), difference_bounds(totals, hits=hit)
        return bca(totals), *(beside_verdicts(each, totals, rejects) for each in both)

    rate, ranks = draw(hits(cell.p)), draw(reciprocal_ranks(cell.p))
    equal = [paired(of(cell.p), of(cell.p)) for of in (hits, reciprocal_ranks)]
    null, null_ranks = map(draw, equal)
    worse = paired(hits(cell.p), hits(cell.p - DELTA))
    lost = draw(worse)
    rejects, rejects_ranks = rejected(null), rejected(null_ranks)
    differences = compared(lost, rejected(lost), hit=True)
    no_differences = compared(null_ranks, rejects_ranks, hit=False)
    return Shares(
        rate=(
            holds(wilson_bounds(rate.mean, rate.n), cell.p),
            holds(mean_bounds(rate, rate=True), cell.p),
        ),
        mean=tuple(
            holds(each, reciprocal_ranks(cell.p).mean)
            for each in (bca(ranks), mean_bounds(ranks, rate=False))
        ),
        difference=tuple(holds(each, worse.mean) for each in differences),
        mean_difference=tuple(holds(each, 0.0) for each in no_differences),
        type_one=(float(rejects.mean()), float(rejects_ranks.mean())),
        equivalent=tuple(within(each, DELTA) for each in differences),
        width=tuple(map(width, differences)),
        mean_width=tuple(map(width, no_differences)),
    )


def type_one_again(cell: Cell, which: int, count: int) -> float:
    """Simulate ``count`` new samples of a cell, and return the type I error rate of the test.

    The test compares hits if ``which`` is 0, and reciprocal ranks if ``which`` is 1.
    """
    of = (hits, reciprocal_ranks)[which](cell.p)
    sizes = page_sizes(cell.structure, cell.n)
    null = samples(paired(of, of), sizes, cell.icc, cell.model, count, random_of(cell, which, 1))
    return float(rejected(null).mean())


def few_differing(structure: str, won: int, lost: int, level: float) -> tuple[str, str]:
    """Return the padded interval and BranchRank's interval for a difference, in percentage points, as text.

    The candidate wins ``won`` questions and loses ``lost`` questions, each on a different page.
    """
    sizes = np.array(STRUCTURES[structure], dtype=np.float64)
    sums = np.zeros((1, len(sizes)))
    sums[0, :won], sums[0, won : won + lost] = 1.0, -1.0
    differing = (sums**2).sum(-1)
    totals = PageTotals(sums=sums, squares=differing, non_zero=differing, sizes=sizes)
    now = difference_bounds(totals, level, hits=True)
    return tuple(
        "none" if each is None else f"{100 * each[0][0]:+.1f} to {100 * each[1][0]:+.1f}"
        for each in (padded(totals, level), now)
    )


def delivered(structure: str, icc: float, model: str, disagreement: float, count: int) -> tuple[str, ...]:
    """Return the detectable difference and its simulated power for two plans, as table cells.

    The first plan treats all questions as independent. The second plan takes into account that questions on
    the same page are correlated.
    """
    sizes = np.array(PLANNED[structure])
    n = int(sizes.sum())
    planned = SharedPages(page_size=pages_alone(len(sizes), sizes.var() / sizes.mean() ** 2), icc=icc)
    random = np.random.default_rng([n, int(100 * icc), int(100 * disagreement)])
    cells = []
    for made in (plan(n, disagreement=disagreement), plan(n, disagreement=disagreement, pages=planned)):
        if made.detectable is None:
            cells += ["none", ""]
            continue
        share = (disagreement + made.detectable) / 2
        outcomes = Outcomes(
            np.array([1.0, 0.0, -1.0]), np.array([share, 1 - disagreement, disagreement - share])
        )
        found = float(rejected(samples(outcomes, sizes, icc, model, count, random)).mean())
        cells += [f"{made.detectable:.3f}", short(found)]
    return tuple(cells)


def shares_table(found: dict[tuple[str, int, str], list[Shares]], name: str) -> None:
    """Print the table for one field of :class:`Shares`, with a column for each ``p``."""
    join = ", " if name == "type_one" else " → "
    table(
        ("pages of", "n", "pages", "ICC", *(f"p = {p:g}".replace("0.", ".") for p in RATES)),
        (
            (
                structure,
                str(n),
                str(len(page_sizes(structure, n))),
                clustering,
                *(join.join(map(short, getattr(shares, name))) for shares in cells),
            )
            for (structure, n, clustering), cells in found.items()
        ),
    )


def summarize(found: dict[tuple[str, int, str], list[Shares]], count: int) -> None:
    """Print the worst results, and repeat the simulation of each cell whose test rejects too often."""
    now = [shares for cells in found.values() for shares in cells]
    coverage = [each[-1] for s in now for each in (s.rate, s.mean, s.difference, s.mean_difference)]
    models = {name: (icc, model) for icc, model, name in CLUSTERINGS}
    again = [
        type_one_again(Cell(structure, n, *models[name], p), which, 10 * count)
        for (structure, n, name), cells in found.items()
        for p, shares in zip(RATES, cells, strict=True)
        for which in (0, 1)
        if shares.type_one[which] > ALPHA
    ]
    print(
        f"\nIn the tables above, the lowest coverage of BranchRank's intervals is "
        f"{short(min(coverage))}, the highest type I error rate of its tests is "
        f"{short(max(share for s in now for share in s.type_one))}, and the highest share of "
        f"false equivalence verdicts is {short(max(s.equivalent[-1] for s in now))}. "
        f"Samples without an interval: {np.mean(np.isnan(coverage)):.0%}."
    )
    if again:
        error = 1.96 * np.sqrt(ALPHA * (1 - ALPHA) / (10 * count))
        print(
            f"\nIn the tables above, {len(again)} tests found a significant difference in more than 5% of "
            f"the samples that were drawn with no true difference. On {10 * count:,} new samples for each of "
            f"these tests, the share of significant results is between {min(again):.4f} and "
            f"{max(again):.4f}, and {np.mean(again):.4f} on average. Each share has a 95% margin of error of "
            f"about {error:.4f}."
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--samples", type=int, default=2_000, help="samples per cell (default 2000)")
    parser.add_argument("--questions", type=int, nargs="+", default=NUMBERS, help="default 50 100 160")
    arguments = parser.parse_args()
    count = arguments.samples
    found: dict[tuple[str, int, str], list[Shares]] = {}
    for structure in STRUCTURES:
        for n in arguments.questions:
            for icc, model, name in CLUSTERINGS:
                found[structure, n, name] = [measure(Cell(structure, n, icc, model, p), count) for p in RATES]
    print(f"{count:,} samples per cell; in each cell: the results of the methods in the order of the title\n")
    for title, name in TABLES:
        print(f"\n### {title}\n")
        shares_table(found, name)
    summarize(found, count)
    print("\n### Power for the difference that `branchrank power` calls detectable with 80% power\n")
    table(
        ("pages of", "ICC", "disagreement", "detectable before", "power", "detectable now", "power"),
        (
            (structure, name, f"{disagreement:g}", *delivered(structure, icc, model, disagreement, count))
            for structure in PLANNED
            for icc, model, name in (*CLUSTERINGS[:1], (0.2, "shared", ".2, shared"), *CLUSTERINGS[1:])
            for disagreement in (0.2, 0.4)
        ),
    )
    print("\n### Intervals in points with few differing questions\n")
    table(
        ("pages of", "confidence", *(f"{won} won, {lost} lost" for won, lost in FEW)),
        (
            (structure, f"{level:.2%}", *(" → ".join(few_differing(structure, *few, level)) for few in FEW))
            for structure in STRUCTURES
            for level in (0.95, 1 - ALPHA / 8)
        ),
    )


if __name__ == "__main__":
    main()
