"""Figures computed from a run: differences, flip rates, fragility, LLM costs, trade-offs, risk and pilots.

Trade-offs: quality against latency and cost (Pareto frontier), and risk against coverage.

1. The frontier consists of the pipelines that no other pipeline dominates. A pipeline dominates another
   pipeline by being at least as good in quality, p95 latency and cost, and better in at least one of them.
2. The pipeline with the highest quality, called the best pipeline, is compared with every other pipeline. A
   pipeline is non-inferior if the confidence interval for its difference in quality from the best pipeline
   excludes a loss of delta or more. Among the non-inferior pipelines, the one with the lowest cost is chosen;
   ties are broken by the lowest p95 latency, then by the highest quality, then by name. Choosing the best
   pipeline by its observed quality tends to overestimate its true quality. A cheaper pipeline is therefore
   less likely to count as non-inferior.
3. Among pipelines that share the highest quality, the pipeline ``preferred`` counts as the best. Reports pass
   the baseline as ``preferred``, since there is no reason to replace the baseline with an equally good
   pipeline. If ``preferred`` does not have the highest quality, the cheapest of the pipelines with the
   highest quality counts as the best. Ties are broken by the lowest p95 latency, then by name.

A risk-coverage curve shows whether a predictor's confidence separates correct from wrong answers.

1. Sort all questions by the predictor's confidence (the score of its best hit), most confident first.
2. If the predictor answers only the questions above a confidence threshold, the coverage is the share of
   questions that it answers. The risk is the share of wrong answers among the answered questions. Any answer
   to an unanswerable question is wrong. Questions with equal confidence share one point of the curve.
3. AURC, the area under the curve, is the mean of the risks after 1, 2, ..., n answered questions; lower is
   better. If some answers are wrong, the AURC is above 0 even if the answers are in the best possible order.
   The excess, which is the AURC minus the AURC for the best order, shows how far the order of the answers is
   from the best order (Geifman and El-Yaniv 2017; Geifman, Uziel and El-Yaniv 2019).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from math import fsum

import numpy as np

from branchrank.core.errors import Remedy, UsageError
from branchrank.core.records import Record
from branchrank.runs.run_data import RunData
from branchrank.runs.scores import Estimate, bounded
from branchrank.runs.words import deciding
from branchrank.scoring.clustering import intraclass_correlation, page_totals
from branchrank.scoring.comparison import DEFAULTS, CompareOptions, Comparison
from branchrank.scoring.measures import NamedMeasure, mean
from branchrank.scoring.significance import FlipTest, difference_interval
from branchrank.search.llm.ledger import totals


def difference(run: RunData, a: Mapping[str, float], b: Mapping[str, float]) -> Estimate:
    """Return the mean score difference b - a, with an interval not adjusted for multiple comparisons."""
    differences = [b[key] - a[key] for key in run.clusters]
    return bounded(
        mean(differences), difference_interval(differences, list(run.clusters.values())), len(differences)
    )


def flip_rate(run: RunData, predictor: str, measure: NamedMeasure) -> float:
    """Return the share of questions on which a predictor's repeats have different scores.

    The question remains the unit of analysis: three repeats of 20 questions are 20 observations, not 60.
    """
    scores = run.scores
    flips = [
        len({scores.value(row, measure) for row in scores.rows_of(predictor, key)}) > 1
        for key in scores.answerable
    ]
    return sum(flips) / len(flips) if flips else 0.0


def fragility(
    a: Mapping[str, float],
    b: Mapping[str, float],
    clusters: Mapping[str, str],
    *,
    alpha: float = 0.05,
    seed: int = 0,
) -> tuple[tuple[str, ...], int]:
    """Return the smallest set of questions whose relabeling makes a lead lose its significance.

    The set is empty if the difference is not significant with the original labels. The second value is the
    number of questions that favor the leader. Questions with equal differences are sorted by id.

    Suppose that a question's gold is wrong, and that the predictor with the lower score had in fact found the
    correct answer. If the gold label is corrected, the question's difference in score changes its sign, so
    the sum of the differences over all questions falls by twice the question's difference. The labels of the
    questions that favor the leader most are corrected first, because correcting these labels reduces the sum
    of the differences most. If clusters have several questions, the computed number of labels is only an
    upper bound: correcting fewer labels may be enough to change the result.

    The test is a sign-flip test by cluster, without correction for multiple comparisons. For hit rates with
    one question per cluster, the sign-flip test is the same as the exact McNemar test. If the verdict uses
    Holm's correction, pass alpha divided by the number of candidates.
    """
    ids = sorted(clusters)
    remaining = np.array([b[each] - a[each] for each in ids])
    if remaining.sum() < 0:
        remaining = -remaining
    favoring = sorted((i for i in range(len(ids)) if remaining[i] > 0), key=lambda i: (-remaining[i], ids[i]))
    sources = [clusters[each] for each in ids]

    def is_lost(changed: int) -> bool:
        flipped = remaining.copy()
        flipped[favoring[:changed]] *= -1
        return flipped.sum() <= 1e-9 or FlipTest(page_totals(flipped, sources), seed=seed).p >= alpha

    changed = bisect_left(range(len(favoring)), True, key=is_lost)
    return tuple(ids[i] for i in favoring[:changed]), len(favoring)


def cost_per_query(run: RunData, predictor: str) -> float | None:
    """Return the mean LLM cost per query from the run's price table, or ``None`` if a call has no price.

    The cost is also ``None`` if the predictor does not report what it spends.
    """
    if not run.summary_row(predictor).reports_llm:
        return None
    rows = run.scores.rows(predictor)
    found = totals([call for row in rows for call in row.calls], run.record.prices).cost
    return None if found is None or not rows else found / len(rows)


class Standing(Record, frozen=True, kw_only=True):
    """One pipeline's mean quality, p95 latency in ms and cost per query.

    The cost is in LLM tokens, LLM calls or money. The costs of all pipelines in a comparison must be in the
    same unit.
    """

    name: str
    quality: float
    p95_ms: float
    cost: float


def standings(run: RunData) -> list[Standing]:
    """Return each predictor's mean on the primary measure, its p95 latency and its LLM cost per query.

    The cost is an amount of money if all calls have a price, and otherwise a number of tokens. Predictors
    without a measured latency are omitted, and those that do not report what they spend on LLMs.
    """
    known = [row for row in run.summary_rows if row.reports_llm]
    costs = [cost_per_query(run, row.predictor) for row in known]
    priced = run.record.prices is not None and None not in costs
    return [
        Standing(
            name=row.predictor,
            quality=run.scores.average(row.predictor, run.primary),
            p95_ms=row.latency_p95_ms,
            cost=cost if priced and cost is not None else row.llm_tokens_per_query or 0.0,
        )
        for row, cost in zip(known, costs, strict=True)
        if row.latency_p95_ms is not None
    ]


def frontier(standings: Sequence[Standing]) -> tuple[Standing, ...]:
    """Return the pipelines that no other pipeline dominates, sorted by quality, cost, p95 and name."""
    kept = [each for each in standings if not any(_dominates(other, each) for other in standings)]
    return tuple(sorted(kept, key=lambda each: (-each.quality, each.cost, each.p95_ms, each.name)))


def _dominates(a: Standing, b: Standing) -> bool:
    better_or_equal = a.quality >= b.quality and a.p95_ms <= b.p95_ms and a.cost <= b.cost
    return better_or_equal and (a.quality, a.p95_ms, a.cost) != (b.quality, b.p95_ms, b.cost)


class Choice(Record, frozen=True, kw_only=True):
    """The cheapest pipeline that is non-inferior to the pipeline ``best``.

    A pipeline is non-inferior if the confidence interval for its difference in quality from ``best`` excludes
    a loss of ``delta`` or more. ``not_inferior`` contains the names of all non-inferior pipelines, including
    ``best``. ``compared`` contains the comparisons of the other pipelines with ``best``.
    """

    best: str
    cheapest: Standing
    not_inferior: tuple[str, ...]
    compared: tuple[Comparison, ...] = ()


def cheapest_not_inferior(
    standings: Sequence[Standing],
    scores: Mapping[str, Mapping[str, float]],
    clusters: Mapping[str, str],
    *,
    measure: str,
    options: CompareOptions = DEFAULTS,
    preferred: str = "",
) -> Choice:
    """Return the cheapest pipeline that is shown to be within ``options.delta`` of the highest quality.

    ``scores`` maps pipeline -> question id -> score. If several pipelines share the highest quality,
    ``preferred`` counts as the best.
    """
    best = min(
        standings,
        key=lambda each: (-each.quality, each.name != preferred, each.cost, each.p95_ms, each.name),
    ).name
    from branchrank.scoring.verdicts import compare_pairs

    pairs = [(best, each.name) for each in standings if each.name != best]
    compared = compare_pairs(pairs, scores, clusters, measure=measure, options=options)
    # A loss of delta or more must be excluded. A non-significant difference is not enough.
    passing = {best} | {each.candidate for each in compared if each.excludes_loss}
    qualified = [each for each in standings if each.name in passing]
    cheapest = min(qualified, key=lambda each: (each.cost, each.p95_ms, -each.quality, each.name))
    names = tuple(each.name for each in qualified)
    return Choice(best=best, cheapest=cheapest, not_inferior=names, compared=compared)


def choice(run: RunData, found: Sequence[Standing]) -> tuple[tuple[Standing, ...], Choice]:
    """Return the Pareto frontier, and the cheapest predictor that is non-inferior to the best predictor.

    A predictor is non-inferior if the confidence interval for its difference from the best predictor excludes
    a loss of ``delta`` or more.
    """
    cheapest = cheapest_not_inferior(
        found,
        {name: run.scores.per_question(name, run.primary) for name in run.predictors},
        run.clusters,
        measure=run.primary.name,
        options=CompareOptions(
            delta=run.settings.delta, seed=run.record.seed, documents=run.options.documents
        ),
        preferred=run.judgment.baseline,
    )
    return frontier(found), cheapest


class RiskCoverage(Record, frozen=True, kw_only=True):
    """A risk-coverage curve, the area under the curve (AURC), and the excess over the best possible AURC.

    Each of the ``points`` contains a coverage and the risk at this coverage, if only the answers with the
    highest confidence are given. ``aurc`` and ``excess`` are in 0..1, or ``None`` if the predictor never
    answers. Without answers, the risk is not defined, and an area of 0 would look like a perfect result.
    """

    points: tuple[tuple[float, float], ...]
    aurc: float | None
    excess: float | None


def risk_coverage(answers: Sequence[tuple[float | None, bool]]) -> RiskCoverage:
    """Return the risk-coverage curve, which has no points if the predictor never answers.

    ``answers`` contains a predictor's confidence for each question, and whether its answer is correct. The
    confidence is ``None`` if the predictor returned no hits, which means that the predictor abstains.

    The area under the curve covers only the answered questions. A predictor that abstains on a question
    lowers its coverage, but the abstention does not count as a wrong answer. If you compare the areas under
    two curves, therefore also compare the coverage at the last point of each curve.
    """
    given = [(confidence, right) for confidence, right in answers if confidence is not None]
    given.sort(key=lambda each: -each[0])
    points = []
    answered = wrong = 0
    area = 0.0
    for _, group in groupby(given, key=lambda each: each[0]):
        rights = [right for _, right in group]
        answered += len(rights)
        wrong += rights.count(False)
        area += len(rights) * wrong / answered
        points.append((answered / len(answers), wrong / answered))
    if not answered:
        return RiskCoverage(points=(), aurc=None, excess=None)
    first_wrong = answered - wrong
    ideal = fsum((place - first_wrong) / place for place in range(first_wrong + 1, answered + 1))
    return RiskCoverage(
        points=tuple(points), aurc=area / answered, excess=max(0.0, (area - ideal) / answered)
    )


class Pilot(Record, frozen=True, kw_only=True):
    """The assumptions for a power analysis of a hit rate, estimated from a pilot run.

    ``rate`` is the baseline's hit rate. ``disagreement`` is the share of questions on which a candidate and
    the baseline have different scores. ``icc`` is the intraclass correlation (0 to 1) of the score
    differences within a page. ``disagreement`` and ``icc`` are means over all ``candidates``. ``page_sizes``
    lists the number of questions about each page that contains gold. ``pairs`` contains each candidate's
    name, and the share of questions on which this candidate disagrees with ``baseline``. ``deciding`` says
    how many questions would decide each open comparison, in the words of the report.
    """

    rate: float
    disagreement: float
    icc: float
    candidates: int
    page_sizes: tuple[int, ...]
    baseline: str = ""
    pairs: tuple[tuple[str, float], ...] = ()
    deciding: tuple[str, ...] = ()


def pilot(run: RunData, measure: str = "") -> Pilot:
    """Estimate the inputs of a power analysis from ``run``.

    ``measure`` defaults to the run's primary measure. Raises :class:`UsageError` if the run has nothing to
    compare, or if the measure is not a hit rate.
    """
    chosen = run.measure(measure)
    baseline = run.judgment.baseline
    others = [name for name in run.predictors if name != baseline]
    if not others or not run.clusters:
        raise UsageError(
            f"{run.directory} has nothing to compare: it has only one predictor, or no answerable questions",
            remedy="use --run to choose a run that has two predictors and answerable questions",
        )
    scores = {name: run.scores.per_question(name, chosen) for name in run.predictors}
    if not {value for of in scores.values() for value in of.values()} <= {0.0, 1.0}:
        raise UsageError(
            f"{chosen.name} has values other than 0 and 1 in {run.directory}",
            remedy=Remedy("choose a hit rate with {}, such as strict_hit@1", "--measure"),
        )
    pages = list(run.clusters.values())
    differences = [
        np.array([scores[name][key] - scores[baseline][key] for key in run.clusters]) for name in others
    ]
    disagreements = [float(np.mean(each != 0)) for each in differences]
    return Pilot(
        rate=run.scores.average(baseline, chosen),
        disagreement=float(np.mean(disagreements)),
        baseline=baseline,
        pairs=tuple(zip(others, disagreements, strict=True)),
        icc=float(np.mean([intraclass_correlation(page_totals(each, pages)) for each in differences])),
        candidates=len(others),
        page_sizes=tuple(sorted(Counter(pages).values(), reverse=True)),
        deciding=tuple(
            f"{each.candidate} vs {each.baseline}: {deciding(each)}"
            for each in run.compare_pairs(chosen, [(baseline, name) for name in others])
            if not each.is_significant and deciding(each)
        ),
    )
