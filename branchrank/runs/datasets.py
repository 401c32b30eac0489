"""Runs of the same systems over several datasets, as one table.

1. Rows are the systems that every run has; columns are the datasets and their macro average.
2. All cells are the same measure, each with its interval. Every system is compared with the baseline over all
   datasets at once (:mod:`branchrank.measures.stratified`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from branchrank.errors import RunError, UsageError, suggestion
from branchrank.measures.stratified import (
    StratifiedComparison,
    Stratum,
    compare_strata,
    macro_average,
)
from branchrank.records import Record
from branchrank.runs.estimates import Estimate, estimate

if TYPE_CHECKING:
    from branchrank.runs.run import RunData


class SystemOverDatasets(Record, frozen=True, kw_only=True):
    """One system: its mean on each dataset, in the order of the datasets, and their macro average."""

    system: str
    estimates: tuple[Estimate, ...]
    macro: Estimate


class DatasetComparison(Record, frozen=True, kw_only=True):
    """Systems over datasets on one measure.

    ``questions`` and ``pages`` count those of each dataset. ``notes`` name the systems that were left out,
    and the systems of one name that differ between runs.
    """

    measure: str
    baseline: str
    datasets: tuple[str, ...]
    questions: tuple[int, ...]
    pages: tuple[int, ...]
    systems: tuple[SystemOverDatasets, ...]
    comparisons: tuple[StratifiedComparison, ...]
    notes: tuple[str, ...] = ()


def compare_datasets(
    runs: Mapping[str, RunData], *, measure: str = "", baseline: str = "", delta: float | None = None
) -> DatasetComparison:
    """Compare the systems of ``runs``, dataset name -> run, over all of them.

    ``measure``, ``baseline`` and ``delta`` default to what the first run declared. Raises :class:`UsageError`
    for fewer than two runs, if no system is common to all, for an unknown baseline, and if the runs declare
    different measures and ``measure`` is not given. Raises :class:`RunError` for a run without answerable
    questions, and for two runs over the same questions.
    """
    if len(runs) < 2:
        raise UsageError("one dataset makes no comparison", remedy="name the runs of two or more datasets")
    _check_apart(runs)
    first = next(iter(runs.values()))
    if not measure and len({run.primary.name for run in runs.values()}) > 1:
        declared = ", ".join(f"{run.primary.name} ({name})" for name, run in runs.items())
        raise UsageError(f"the runs declare different measures: {declared}", remedy="name one with --primary")
    chosen = first.measure(measure)
    systems = [name for name in first.predictors if all(name in run.predictors for run in runs.values())]
    if not systems:
        raise UsageError(
            "no predictor is in every run: "
            + "; ".join(f"{name}: {', '.join(run.predictors)}" for name, run in runs.items()),
            remedy="run the same predictors over every dataset",
        )
    baseline = baseline or (first.judgement.baseline if first.judgement.baseline in systems else systems[0])
    if baseline not in systems:
        raise UsageError(
            f"the baseline {baseline!r} is not in every run",
            remedy=suggestion(baseline, systems) or f"name one of {', '.join(systems)}",
        )
    strata = [
        Stratum(
            scores={system: run.scores.per_question(system, chosen) for system in systems},
            pages=run.clusters,
        )
        for run in runs.values()
    ]
    return DatasetComparison(
        measure=chosen.name,
        baseline=baseline,
        datasets=tuple(runs),
        questions=tuple(len(stratum.pages) for stratum in strata),
        pages=tuple(len(set(stratum.pages.values())) for stratum in strata),
        systems=tuple(_row(strata, system) for system in systems),
        comparisons=compare_strata(
            strata,
            measure=chosen.name,
            baseline=baseline,
            delta=first.settings.delta if delta is None else delta,
            alpha=first.settings.alpha,
            seed=first.record.seed,
        ),
        notes=tuple(_notes(runs, systems)),
    )


def _check_apart(runs: Mapping[str, RunData]) -> None:
    """Raise :class:`RunError` for a run without answerable questions, and for two with the same questions."""
    seen: dict[str, str] = {}
    for name, run in runs.items():
        if not run.clusters:
            raise RunError(f"{name}: {run.directory} has no answerable question")
        before = seen.setdefault(run.record.questions_digest, name)
        if before != name:
            raise RunError(
                f"{before} and {name} ask the same questions: they would count twice",
                remedy=f"name one of the two; `branchrank compare` compares {before} with {name}",
            )


def _row(strata: Sequence[Stratum], system: str) -> SystemOverDatasets:
    cells = [estimate(stratum.scores[system], stratum.pages) for stratum in strata]
    mean, interval = macro_average(strata, system)
    return SystemOverDatasets(
        system=system,
        estimates=tuple(cell for cell in cells if cell is not None),
        macro=Estimate(
            value=mean,
            low=None if interval is None else interval.low,
            high=None if interval is None else interval.high,
            n=sum(len(stratum.pages) for stratum in strata),
        ),
    )


def _notes(runs: Mapping[str, RunData], systems: Sequence[str]) -> list[str]:
    counted = Counter(name for run in runs.values() for name in run.predictors)
    missing = [name for name in counted if name not in systems]
    found = [f"left out, for not every run has them: {', '.join(missing)}"] if missing else []
    corpora: dict[str, list[str]] = {}
    for name, run in runs.items():
        corpora.setdefault(run.record.corpus_digest, []).append(name)
    found += [
        f"{' and '.join(names)} are of one corpus: where they share pages, the macro interval and the test "
        "take them for more independent than they are"
        for digest, names in corpora.items()
        if digest and len(names) > 1
    ]
    for system in systems:
        records = [each for run in runs.values() for each in run.record.predictors if each.name == system]
        if any((each.system, each.llm) != (records[0].system, records[0].llm) for each in records):
            found.append(f"{system} has other settings or another model in some runs")
    return found
