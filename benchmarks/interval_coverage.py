"""Simulate the coverage of intervals, the error rates of tests and verdicts, and the power of comparisons.

    python benchmarks/interval_coverage.py pages      # intervals with questions on the same pages; 20 minutes
    python benchmarks/interval_coverage.py graded     # AP and nDCG with few queries; 8 minutes
    python benchmarks/interval_coverage.py power      # the test and the planned power; 3 minutes
    python benchmarks/interval_coverage.py skewed     # differences that lost or large pages decide; 2 minutes
    python benchmarks/interval_coverage.py unasked    # pages of the corpus without a question; 4 minutes
    python benchmarks/interval_coverage.py topics     # topics over several pages; 1 minute

``--samples 300`` is quicker and noisier.

1. "pages": questions are distributed over pages as in the bundled sample's first 161 questions (154 with
   gold, on 29 pages) or as in a question set about Symfony's documentation (100 questions on 83 pages). More
   questions than the set has are added to the same pages. With an intraclass correlation (ICC) of .5, either
   each page has its own probabilities of the outcomes ("own rates", from a Dirichlet distribution), or all
   questions of a page have the same outcome with a probability equal to the ICC ("shared"). The baseline has
   a hit at rank 1 with probability p, and a worse candidate with p - .05. For half of the questions, the two
   systems agree as often as the hit rates allow. The corpus is unknown.
2. "graded": beta-distributed scores with a Gaussian copula; some are 0, and some queries are ties.
3. "power": 20% of the questions differ, and each page has its own rates. All pages of the corpus are asked.
4. "skewed": on 5% of the pages, the candidate loses every question, and wins a few questions (hits) or a
   little (graded) on all others, or ties; or its difference falls with the size of the page. The corpus has
   ten times as many pages. The true difference is 0, or -5 points for ties.
5. "unasked": 400 questions about A random pages of C. The candidate loses every question of 5% or 10% of the
   C pages, and the difference on the others makes the mean 0 (for "better"), or they tie ("equivalent" and
   ``gate``, with a delta equal to the true loss). Or no page is lost, and the difference is 5 to 12 points.
6. "topics": 60 topics, and all questions of a topic share their outcome with a probability of .5. Pages of a
   topic have questions in common, so that they form one cluster.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from branchrank.scoring import significance
from branchrank.scoring.clustering import (
    PageTotals,
    intraclass_correlation,
    page_totals,
    squared_deviations,
    working_degrees,
)
from branchrank.scoring.comparison import CompareOptions, Comparison, gate
from branchrank.scoring.intervals import mean_bounds, wilson_bounds
from branchrank.scoring.power import SharedPages, pages_alone, plan
from branchrank.scoring.significance import FlipTest
from branchrank.scoring.verdicts import Stratum, compare_strata

Floats = NDArray[np.float64]
Bounds = tuple[Floats, Floats]

ALPHA = 0.05
#: The number of sign patterns to draw for graded scores, if more than 10 pages differ.
DRAWS = 1_999
significance.EXACT_CLUSTERS = 10

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
EQUIVALENT = "equivalent within delta"


def short(share: float) -> str:
    """Format a share as ``.957``, and a number above 1 (a width in percentage points) with one decimal."""
    return f"{share:.1f}" if share > 1 else f"{share:.3f}".removeprefix("0")


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


def holds(bounds: Bounds | None, truth: float) -> float:
    """Return the fraction of the intervals that contain the true value."""
    assert bounds is not None
    return float(np.mean((bounds[0] <= truth + 1e-9) & (truth - 1e-9 <= bounds[1])))


def each_test(totals: PageTotals, asked: float = 0.0) -> list[FlipTest]:
    """Test each sample, with sign patterns of its own."""
    rows = enumerate(zip(totals.sums, totals.squares, totals.non_zero, strict=True))
    return [
        FlipTest(PageTotals(*map(np.asarray, row), sizes=totals.sizes), asked=asked, seed=n, draws=DRAWS)
        for n, row in rows
    ]


def measure_differences(totals: PageTotals, truth: float) -> dict[str, float]:
    """Test each sample, whose true difference is ``truth``. Widths are in percentage points.

    "t" is Student's interval with the CR2 variance. "disagree" counts the intervals that contradict their
    test.
    """
    tests = each_test(totals)
    low, high = np.array([(each.low, each.high) for each in (of.interval(ALPHA) for of in tests) if each]).T
    rejects = np.array([test.p for test in tests]) < ALPHA
    t_low, t_high = t_bounds(totals)
    return {
        "coverage": holds((low, high), truth),
        "width": float(100 * np.mean(high - low)),
        "t": holds((t_low, t_high), truth),
        "t width": float(100 * np.mean(t_high - t_low)),
        "15 differ": float(np.mean(totals.non_zero >= 15)),
        "rejected": float(rejects.mean()),
        "equivalent": float(np.mean((low > -DELTA) & (high < DELTA))),
        "disagree": float(np.sum(rejects != ((low > 0) | (high < 0)))),
    }


def t_bounds(totals: PageTotals) -> Bounds:
    """Return Student's interval with the CR2 variance."""
    from scipy.special import stdtrit

    degrees = working_degrees(totals.sizes, intraclass_correlation(totals))
    error = np.sqrt(squared_deviations(totals).sum(-1)) / totals.n
    half = stdtrit(np.maximum(degrees, 1.0), 1 - ALPHA / 2) * error
    return totals.mean - half, totals.mean + half


def measure_pages(cell: Cell, count: int) -> dict[str, float]:
    """Simulate one cell: the intervals of a rate, a mean and a difference of -5 points, and the tests."""
    random = np.random.default_rng([cell.n, int(100 * cell.icc), int(100 * cell.p), len(cell.model)])
    sizes = page_sizes(cell.structure, cell.n)

    def draw(outcomes: Outcomes) -> PageTotals:
        return samples(outcomes, sizes, cell.icc, cell.model, count, random)

    rate, ranks = draw(hits(cell.p)), draw(reciprocal_ranks(cell.p))
    null, null_ranks = (draw(paired(of(cell.p), of(cell.p))) for of in (hits, reciprocal_ranks))
    worse = paired(hits(cell.p), hits(cell.p - DELTA))
    return {
        "independent": holds(wilson_bounds(rate.mean, rate.n), cell.p),
        "rate": holds(mean_bounds(rate, rate=True), cell.p),
        "mean": holds(mean_bounds(ranks, rate=False), reciprocal_ranks(cell.p).mean),
        **measure_differences(draw(worse), worse.mean),
        "type I": rejected(null),
        "type I, ranks": rejected(null_ranks),
    }


def rejected(totals: PageTotals) -> float:
    """Return the share of the samples in which the test rejects that both systems are equally good."""
    return float(np.mean([test.p < ALPHA for test in each_test(totals)]))


def print_figures(names: str, rows: Iterable[tuple[Sequence[str], dict[str, float]]]) -> None:
    """Print a table of figures with a row for each cell. ``names`` are the titles of the first columns."""
    for number, (cell, figures) in enumerate(rows):
        if number == 0:
            headings = (*names.split(", "), *figures)
            print(f"| {' | '.join(headings)} |\n|{' --- |' * len(headings)}")
        print(f"| {' | '.join((*cell, *map(short, figures.values())))} |", flush=True)


def pages_table(count: int, numbers: Sequence[int]) -> None:
    """Print the table for questions on the same pages."""
    cells = itertools.product(STRUCTURES, numbers, CLUSTERINGS, RATES)
    print_figures(
        "pages of, n, ICC, p",
        (
            ((structure, str(n), name, f"{p:g}"), measure_pages(Cell(structure, n, icc, model, p), count))
            for structure, n, (icc, model, name), p in cells
        ),
    )


def measure_power(icc: float, count: int) -> dict[str, float]:
    """Simulate how often a candidate is better, with 400 questions on all 31 pages of a corpus."""
    sizes, figures = np.array([13] * 28 + [12] * 3), {}
    for gain in (0.0, 0.05, 0.08, 0.12):
        random = np.random.default_rng([31, int(100 * icc), int(100 * gain)])
        tests = each_test(samples(differing(0.2, gain), sizes, icc, "rates", count, random), asked=1.0)
        figures[f"better at +{100 * gain:.0f}"] = float(np.mean([t.p < ALPHA and t.mean > 0 for t in tests]))
    return figures


def power_tables(count: int, _numbers: Sequence[int]) -> None:
    """Print the power of the test, and of the differences that a plan calls detectable."""
    print_figures("ICC", (((f"{icc:g}",), measure_power(icc, count)) for icc in (0.0, 0.05, 0.1)))
    models = (CLUSTERINGS[0], (0.2, "shared", ".2, shared"), *CLUSTERINGS[1:])
    print_figures(
        "pages of, ICC, disagreement",
        (
            ((structure, name, f"{share:g}"), delivered(structure, icc, model, share, count))
            for structure, (icc, model, name), share in itertools.product(PLANNED, models, (0.2, 0.4))
        ),
    )


def differing(share: float, gain: float) -> Outcomes:
    """Return the distribution of differences of hits, of which ``share`` are not 0."""
    won = (share + gain) / 2
    return Outcomes(np.array([1.0, 0.0, -1.0]), np.array([won, 1 - share, share - won]))


def delivered(structure: str, icc: float, model: str, disagreement: float, count: int) -> dict[str, float]:
    """Return the difference that a plan calls detectable, and its simulated power."""
    sizes = np.array(PLANNED[structure])
    n = int(sizes.sum())
    planned = SharedPages(page_size=pages_alone(len(sizes), sizes.var() / sizes.mean() ** 2), icc=icc)
    made = plan(n, disagreement=disagreement, pages=planned)
    if made.detectable is None:
        return {"detectable": float("nan"), "power": float("nan")}
    random = np.random.default_rng([n, int(100 * icc), int(100 * disagreement)])
    drawn = samples(differing(disagreement, made.detectable), sizes, icc, model, count, random)
    return {"detectable": made.detectable, "power": rejected(drawn)}


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


def measure_graded(kind: Kind, queries: int, count: int, *, equal: bool) -> dict[str, float]:
    """Simulate one cell of AP or nDCG."""
    drawn = graded_differences(kind, queries, count, equal=equal)
    squares, non_zero = (drawn**2).sum(-1), np.count_nonzero(drawn, axis=-1).astype(np.float64)
    totals = PageTotals(sums=drawn, squares=squares, non_zero=non_zero, sizes=np.ones(queries))
    return measure_differences(totals, 0.0 if equal else true_difference(kind))


def graded_table(count: int, _numbers: Sequence[int]) -> None:
    """Print the table for AP and nDCG."""
    print_figures(
        "measure, n, difference",
        (
            ((name, str(n), "none" if equal else "some"), measure_graded(kind, n, count, equal=equal))
            for (name, kind), n, equal in itertools.product(KINDS.items(), QUERIES, (True, False))
        ),
    )


SHARE = 0.05
WIN = SHARE / (1 - SHARE)
SLOPE, CENTER = 0.11, 19 / 3
EXTREME = {1: 0.5, 2: 0.25, 5: 0.15, 15: 0.1}
SKEWED: tuple[tuple[str, str, Sequence[int]], ...] = (
    ("lost pages, hits", "30 of 5", [5] * 30),
    ("lost pages, hits", "30 of 10", [10] * 30),
    ("lost pages, hits", "25, Zipf", ZIPF),
    ("lost pages, hits", "100 of 3", [3] * 100),
    ("lost pages, graded", "10 of 5", [5] * 10),
    ("lost pages, graded", "20 of 5", [5] * 20),
    ("lost pages, graded", "30 of 5", [5] * 30),
    ("lost pages, graded", "60 of 5", [5] * 60),
    ("by size, hits", "20", [0] * 20),
    ("by size, extreme", "20", [0] * 20),
    ("ties", "30 of 5", [5] * 30),
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
    lost = random.random(len(sizes)) < SHARE
    if kind == "lost pages, graded":
        rest = [np.round(WIN * random.uniform(0.5, 1.5, size), 4) for size in sizes]
    else:
        rest = [(random.random(size) < (0 if kind == "ties" else WIN)) * 1.0 for size in sizes]
    return [np.full(len(page), -1.0) if gone else page for gone, page in zip(lost, rest, strict=True)]


def compared(pages: Sequence[Floats], corpus: int) -> Comparison:
    """Compare two systems whose scores differ by ``pages``."""
    gaps = {f"{place} {n}": gap for place, page in enumerate(pages) for n, gap in enumerate(page)}
    # Ties that are no hits spare the time for the planning figures of hits.
    scores = {"a": {key: max(-gap, 0.0) if gap else 0.5 for key, gap in gaps.items()}}
    scores["b"] = {key: max(gap, 0.0) if gap else 0.5 for key, gap in gaps.items()}
    places = {key: key.split()[0] for key in gaps}
    stratum = Stratum(scores=scores, pages=places)
    options = CompareOptions(draws=DRAWS, documents=corpus)
    return compare_strata([stratum], [("a", "b")], measure="hit@1", options=options)[0]


def share_of(found: Sequence[Comparison], condition: Callable[[Comparison], bool]) -> float:
    return float(np.mean([condition(each) for each in found])) if found else 0.0


def unquestioned(each: Comparison) -> bool:
    """Whether the verdict is ``better`` without a caution."""
    return each.verdict == "better" and not each.more_pages


def bounds_of(each: Comparison) -> tuple[float, float]:
    """Return the bounds of the interval, or those of all differences if there is none."""
    return (-1.0, 1.0) if each.ci_low is None or each.ci_high is None else (each.ci_low, each.ci_high)


def measure_skewed(kind: str, sizes: Sequence[int], count: int) -> dict[str, float]:
    """Simulate one cell. "false" is the share of false verdicts without the rule for unasked pages."""
    random = np.random.default_rng([len(kind), len(sizes), max(sizes)])
    drawn = (skewed_differences(kind, sizes, random) for _ in range(count))
    found = [compared(each, 10 * len(sizes)) for each in drawn]
    if kind == "ties":
        inside = [max(map(abs, bounds_of(each))) < DELTA for each in found]
        false = float(np.mean(inside)), share_of(found, lambda each: each.verdict == EQUIVALENT)
    else:
        false = share_of(found, lambda each: each.verdict == "better"), share_of(found, unquestioned)
    truth = -SHARE if kind == "ties" else 0.0
    held = share_of(found, lambda each: bounds_of(each)[0] <= truth <= bounds_of(each)[1])
    return {"false": false[0], "false, no caution": false[1], "coverage": held}


def skewed_table(count: int, _numbers: Sequence[int]) -> None:
    """Print the table for differences that lost or large pages decide."""
    cells = (((kind, name), measure_skewed(kind, sizes, count)) for kind, name, sizes in SKEWED)
    print_figures("differences, pages", cells)


#: The pages of a corpus, and how many of them have questions.
ASKED = ((31, 16), (172, 17), (332, 33), (3_000, 300), (172, 86))


def corpus_sample(
    corpus: int, asked: int, lost: float, outcomes: Outcomes, random: np.random.Generator
) -> Comparison:
    """Draw 400 questions about ``asked`` pages of a corpus in which the share ``lost`` of pages is lost."""
    gone = random.permutation(corpus)[:asked] < round(lost * corpus)
    sizes = np.diff(np.linspace(0, 400, asked + 1).round().astype(int))
    drawn = [random.choice(outcomes.values, size, p=outcomes.chances) for size in sizes]
    return compared(
        [np.full(len(page), -1.0) if lose else page for lose, page in zip(gone, drawn, strict=True)], corpus
    )


def measure_unasked(corpus: int, asked: int, count: int) -> dict[str, float]:
    """Simulate the pages of one corpus without a question."""
    random, figures = np.random.default_rng([corpus, asked]), {}

    def draw(lost: float, outcomes: Outcomes) -> list[Comparison]:
        return [corpus_sample(corpus, asked, lost, outcomes, random) for _ in range(count)]

    for gain in (0.05, 0.08, 0.12):
        found = [each for each in draw(0, differing(0.2, gain)) if each.verdict == "better"]
        figures[f"+{100 * gain:.0f} better"] = len(found) / count
        figures[f"caution at +{100 * gain:.0f}"] = share_of(found, lambda each: each.more_pages > 0)
    for share in (SHARE, 2 * SHARE):
        lost = round(share * corpus)
        win = lost / (corpus - lost)
        found = draw(share, differing(win, win))
        figures[f"{share:.0%} lost, better"] = share_of(found, lambda each: each.verdict == "better")
        figures[f"{share:.0%} lost, no caution"] = share_of(found, unquestioned)
    found = draw(SHARE, differing(0, 0))
    figures["equivalent"] = share_of(found, lambda each: each.verdict == EQUIVALENT)
    figures["low > -delta"] = share_of(found, lambda each: bounds_of(each)[0] > -each.delta)
    figures["gate passes"] = share_of(found, lambda each: gate(each, each.delta).outcome == "pass")
    return figures


def unasked_table(count: int, _numbers: Sequence[int]) -> None:
    """Print the table for pages of a corpus without a question."""
    cells = (((str(corpus), str(asked)), measure_unasked(corpus, asked, count)) for corpus, asked in ASKED)
    print_figures("pages, asked", cells)


def measure_topics(pages: int, questions: int, count: int) -> dict[str, float]:
    """Simulate topics of so many pages, each with so many questions."""
    random = np.random.default_rng([pages, questions])
    size = pages * questions
    clusters = [[str(n // by) for n in range(60 * size)] for by in (questions, size)]
    rejections = np.zeros(2)
    for _ in range(count):
        chances = (0.2, 0.6, 0.2)
        shared, own = (random.choice([1.0, 0.0, -1.0], (60, each), p=chances) for each in (1, size))
        values = np.where(random.random((60, 1)) < 0.5, shared, own).ravel()
        rejections += [FlipTest(page_totals(values, each)).p < ALPHA for each in clusters]
    return dict(zip(("pages as clusters", "topics as clusters"), rejections / count, strict=True))


def topics_table(count: int, _numbers: Sequence[int]) -> None:
    """Print the type I error rate for topics over several pages."""
    sizes = itertools.product((2, 3, 4), (2, 4))
    cells = (((str(pages), str(each)), measure_topics(pages, each, count)) for pages, each in sizes)
    print_figures("pages of a topic, questions of a page", cells)


def main() -> None:
    tables = {
        "pages": pages_table,
        "graded": graded_table,
        "power": power_tables,
        "skewed": skewed_table,
        "unasked": unasked_table,
        "topics": topics_table,
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("simulation", choices=tables, nargs="?", default="pages")
    parser.add_argument("--samples", type=int, default=500, help="samples per cell (default 500)")
    parser.add_argument("--questions", type=int, nargs="+", default=NUMBERS, help="default 50 100 160")
    arguments = parser.parse_args()
    tables[arguments.simulation](arguments.samples, arguments.questions)


if __name__ == "__main__":
    main()
