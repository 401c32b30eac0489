"""Figures computed from a run: differences, flip rates, LLM costs, the Pareto frontier and pilots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from branchrank.core.errors import Remedy, UsageError
from branchrank.core.records import Record
from branchrank.runs.run_data import RunData
from branchrank.runs.scores import Estimate, bounded
from branchrank.runs.words import deciding
from branchrank.scoring.clustering import intraclass_correlation, page_totals
from branchrank.scoring.comparison import CompareOptions
from branchrank.scoring.measures import NamedMeasure, mean
from branchrank.scoring.tradeoffs import Choice, Standing, cheapest_not_inferior, frontier
from branchrank.search.llm.ledger import totals


def difference(run: RunData, a: Mapping[str, float], b: Mapping[str, float]) -> Estimate:
    """Return the mean score difference b - a, with an interval not adjusted for multiple comparisons."""
    from branchrank.scoring.inversion import difference_interval

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


def cost_per_query(run: RunData, predictor: str) -> float | None:
    """Return the mean LLM cost per query from the run's price table, or ``None`` if a call has no price.

    The cost is also ``None`` if the predictor does not report what it spends.
    """
    if not run.summary_row(predictor).reports_llm:
        return None
    rows = run.scores.rows(predictor)
    found = totals([call for row in rows for call in row.calls], run.record.prices).cost
    return None if found is None or not rows else found / len(rows)


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
