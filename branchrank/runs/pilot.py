"""Estimate the inputs of a power analysis from a finished run (the pilot)."""

from __future__ import annotations

from collections import Counter

import numpy as np

from branchrank.errors import UsageError
from branchrank.measures.clustering import intraclass_correlation, page_totals
from branchrank.records import Record
from branchrank.runs.run import RunData


class Pilot(Record, frozen=True, kw_only=True):
    """The assumptions for a power analysis of a hit rate, estimated from a pilot run.

    ``rate`` is the baseline's hit rate. ``disagreement`` is the share of questions on which a candidate and
    the baseline have different scores. ``icc`` is the intraclass correlation (0 to 1) of the score
    differences within a page. ``disagreement`` and ``icc`` are means over all ``candidates``. ``page_sizes``
    lists the number of questions about each page that contains gold. ``pairs`` contains each candidate's
    name, and the share of questions on which this candidate disagrees with ``baseline``.
    """

    rate: float
    disagreement: float
    icc: float
    candidates: int
    page_sizes: tuple[int, ...]
    baseline: str = ""
    pairs: tuple[tuple[str, float], ...] = ()


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
            remedy="choose a hit rate with --measure, such as strict_hit@1",
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
    )
