"""Simulate the coverage of intervals, the error rates of tests and verdicts, and the power of comparisons.

    python benchmarks/interval_coverage.py pages      # intervals with questions on the same pages; 5 minutes
    python benchmarks/interval_coverage.py graded     # AP and nDCG with few queries; 2 minutes
    python benchmarks/interval_coverage.py skewed     # differences that rare pages decide; 3 minutes

``--samples 300`` is quicker and noisier.

1. "pages": questions are distributed over pages as in the bundled sample's first 161 questions (154 with
   gold, on 29 pages) or as in a question set about Symfony's documentation (100 questions on 83 pages). More
   questions than the set has are added to the same pages. With an intraclass correlation (ICC) of .5, either
   each page has its own probabilities of the outcomes ("own rates", from a Dirichlet distribution), or all
   questions of a page have the same outcome with a probability equal to the ICC ("shared"). The baseline has
   a hit at rank 1 with probability p, and a worse candidate with p - .05. For half of the questions, the two
   systems agree as often as the hit rates allow.
2. "graded": beta-distributed scores with a Gaussian copula; some are 0, and some queries are ties.
3. "skewed": on 5% of the pages, the candidate loses every question, and wins a few questions (hits) or a
   little (graded) on all others, or ties; or its difference falls with the size of the page. The true
   difference is 0, or -5 points for ties.
4. Hit rates are compared with Wilson's intervals, which treat all questions as independent; means and
   differences with BCa bootstrap intervals over pages; and differences with "padded" intervals, which add
   z**2 questions, half with a difference of -1 and half with 1. The interval of a difference is adjusted as
   in a report, so that it contains 0 if and only if the test does not reject.
5. Expected are a coverage of at least .93, a type I error rate of at most .05 (a cell above it is simulated
   again with ten times as many samples), a share of false equivalence verdicts (inside of 5 points, with a
   true difference of 5 points) of at most .025, and of false ``better`` of at most .1.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from branchrank.scoring.clustering import Padding, PageTotals, effective_questions
from branchrank.scoring.comparison import CompareOptions, Comparison
from branchrank.scoring.intervals import (
    Interval,
    compatible,
    difference_bounds,
    mean_bounds,
    mean_padding,
    padded_bounds,
    wilson_bounds,
)
from branchrank.scoring.power import SharedPages, pages_alone, plan
from branchrank.scoring.significance import sign_flip
from branchrank.scoring.verdicts import compare_pairs

Floats = NDArray[np.float64]
Bounds = tuple[Floats, Floats]

ALPHA = 0.05
#: The number of sign patterns to sample if there are too many to enumerate.
DRAWS = 1_999

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
RESAMPLES = 1_000
#: The title of each table, and the field of :class:`PageShares` that it shows.
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


class PageShares(NamedTuple):
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


def measure_pages(cell: Cell, count: int, *, before: bool = True) -> PageShares:
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
    return PageShares(
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


def shares_table(found: dict[tuple[str, int, str], list[PageShares]], name: str) -> None:
    """Print the table for one field of :class:`PageShares`, with a column for each ``p``."""
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


def summarize(found: dict[tuple[str, int, str], list[PageShares]], count: int) -> None:
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


def pages_tables(count: int, numbers: Sequence[int]) -> None:
    """Print the tables for questions on the same pages."""
    found: dict[tuple[str, int, str], list[PageShares]] = {}
    for structure in STRUCTURES:
        for n in numbers:
            for icc, model, name in CLUSTERINGS:
                cells = [Cell(structure, n, icc, model, p) for p in RATES]
                found[structure, n, name] = [measure_pages(cell, count) for cell in cells]
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


def graded_differences(kind: Kind, queries: int, count: int, *, equal: bool) -> Floats:
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


class GradedShares(NamedTuple):
    """The results for one combination of parameters.

    Each pair contains the result for the padded interval and the result for BranchRank's interval.
    """

    held: tuple[float, ...]
    width: tuple[float, ...]
    disagreed: tuple[float, ...]
    rejected: float


def measure_graded(kind: Kind, queries: int, count: int, *, equal: bool) -> GradedShares:
    """Simulate one row of the table."""
    drawn = graded_differences(kind, queries, count, equal=equal)
    totals = PageTotals(
        sums=drawn,
        squares=(drawn**2).sum(-1),
        non_zero=np.count_nonzero(drawn, axis=-1).astype(np.float64),
        sizes=np.ones(queries),
    )
    rejects = rejected(totals)
    truth = 0.0 if equal else true_difference(kind)
    found = padded(totals), difference_bounds(totals, hits=False)
    return GradedShares(
        held=tuple(holds(beside_verdicts(each, totals, rejects), truth) for each in found),
        width=tuple(map(width, found)),
        disagreed=tuple(
            float(np.mean(((each[0] > 0) | (each[1] < 0)) != rejects)) for each in found if each is not None
        ),
        rejected=float(rejects.mean()),
    )


def graded_table(count: int, _numbers: Sequence[int]) -> None:
    """Print the table for AP and nDCG."""
    cells = "in each cell: the padded interval → BranchRank's interval"
    print(f"{count:,} samples per cell; {cells}; widths in points\n")
    rows, least = [], 1.0
    for name, kind in KINDS.items():
        for queries in QUERIES:
            for equal in (True, False):
                found = measure_graded(kind, queries, count, equal=equal)
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


def skewed_differences(kind: str, sizes: Sequence[int], random: np.random.Generator) -> list[Floats]:
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


def skewed_row(kind: str, name: str, sizes: Sequence[int], count: int) -> tuple[str, ...]:
    """Simulate one cell, and return its row of the table."""
    random = np.random.default_rng([len(kind), len(sizes), max(sizes)])
    found = [compared(skewed_differences(kind, sizes, random)) for _ in range(count)]
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


def skewed_table(count: int, _numbers: Sequence[int]) -> None:
    """Print the table for skewed differences."""
    table(
        ("differences", "pages", "false verdict", "without the condition", "with it", "coverage"),
        (skewed_row(*cell, count) for cell in CELLS),
    )


def main() -> None:
    tables = {"pages": pages_tables, "graded": graded_table, "skewed": skewed_table}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("simulation", choices=tables, nargs="?", default="pages")
    parser.add_argument("--samples", type=int, default=2_000, help="samples per cell (default 2000)")
    parser.add_argument("--questions", type=int, nargs="+", default=NUMBERS, help="default 50 100 160")
    arguments = parser.parse_args()
    tables[arguments.simulation](arguments.samples, arguments.questions)


if __name__ == "__main__":
    main()
