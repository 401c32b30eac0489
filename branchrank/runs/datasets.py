"""One table that compares runs of the same systems over several datasets.

1. The table has a row for each system that is in every run, and a column for each dataset. The last column is
   the macro average, which is the mean of the datasets' means.
2. Every cell shows the mean of the same measure, with a confidence interval. Every system is compared with
   the baseline over all datasets together (:mod:`branchrank.measures.verdicts`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from branchrank.errors import RunError, UsageError, suggestion
from branchrank.measures.verdicts import Comparison, Stratum, compare_strata, macro_average
from branchrank.records import Record
from branchrank.runs.run import RunData
from branchrank.runs.scores import Estimate, bounded, estimate


class SystemOverDatasets(Record, frozen=True, kw_only=True):
    """A system's mean on each dataset, in the order of the datasets, and the average of these means."""

    system: str
    estimates: tuple[Estimate, ...]
    macro: Estimate


class DatasetComparison(Record, frozen=True, kw_only=True):
    """The comparison of systems over several datasets on one measure.

    ``questions`` contains each dataset's number of answerable questions. ``pages`` contains each dataset's
    number of pages with gold. ``notes`` contains sentences about systems that were left out, datasets with
    the same corpus, and systems whose settings differ between runs.
    """

    measure: str
    baseline: str
    datasets: tuple[str, ...]
    questions: tuple[int, ...]
    pages: tuple[int, ...]
    systems: tuple[SystemOverDatasets, ...]
    comparisons: tuple[Comparison, ...]
    notes: tuple[str, ...] = ()


def compare_datasets(
    runs: Mapping[str, RunData], *, measure: str = "", baseline: str = "", delta: float | None = None
) -> DatasetComparison:
    """Compare the systems that are in every run, over all datasets.

    ``runs`` maps dataset names to runs. The defaults of ``measure``, ``baseline`` and ``delta`` are the
    values that the first run declared. If the runs declare different measures, ``measure`` is required.

    Raises :class:`UsageError` if there are fewer than two runs, if no system is in every run, or if the
    baseline is unknown. Raises :class:`RunError` if a run has no answerable questions, or if two runs have
    the same questions.
    """
    if len(runs) < 2:
        raise UsageError(
            "a comparison needs two datasets or more", remedy="give the runs of two or more datasets"
        )
    _check_apart(runs)
    first = next(iter(runs.values()))
    if not measure and len({run.primary.name for run in runs.values()}) > 1:
        declared = ", ".join(f"{run.primary.name} ({name})" for name, run in runs.items())
        raise UsageError(
            f"the runs declare different measures: {declared}", remedy="choose one with --primary"
        )
    chosen = first.measure(measure)
    systems = [name for name in first.predictors if all(name in run.predictors for run in runs.values())]
    if not systems:
        raise UsageError(
            "the runs have no predictor in common: "
            + "; ".join(f"{name}: {', '.join(run.predictors)}" for name, run in runs.items()),
            remedy="run the same predictors over every dataset",
        )
    baseline = baseline or (first.judgment.baseline if first.judgment.baseline in systems else systems[0])
    if baseline not in systems:
        raise UsageError(
            f"the baseline {baseline!r} is not in every run",
            remedy=suggestion(baseline, systems) or f"choose one of {', '.join(systems)}",
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
            options=first.options if delta is None else msgspec.structs.replace(first.options, delta=delta),
        ),
        notes=tuple(_notes(runs, systems)),
    )


def _check_apart(runs: Mapping[str, RunData]) -> None:
    """Raise :class:`RunError` if a run has no answerable questions, or two runs share all questions."""
    seen: dict[str, str] = {}
    for name, run in runs.items():
        if not run.clusters:
            raise RunError(f"{name}: {run.directory} has no answerable questions")
        before = seen.setdefault(run.record.questions_digest, name)
        if before != name:
            raise RunError(
                f"{before} and {name} have the same questions, which would count twice",
                remedy=f"give only one of them, or use `branchrank compare` to compare {before} with {name}",
            )


def _row(strata: Sequence[Stratum], system: str) -> SystemOverDatasets:
    cells = [estimate(stratum.scores[system], stratum.pages) for stratum in strata]
    mean, interval = macro_average(strata, system)
    return SystemOverDatasets(
        system=system,
        estimates=tuple(cell for cell in cells if cell is not None),
        macro=bounded(mean, interval, sum(len(stratum.pages) for stratum in strata)),
    )


def _notes(runs: Mapping[str, RunData], systems: Sequence[str]) -> list[str]:
    counted = Counter(name for run in runs.values() for name in run.predictors)
    missing = [name for name in counted if name not in systems]
    found = [f"left out, because they are not in every run: {', '.join(missing)}"] if missing else []
    corpora: dict[str, list[str]] = {}
    for name, run in runs.items():
        corpora.setdefault(run.record.corpus_digest, []).append(name)
    found += [
        f"{' and '.join(names)} use the same corpus. The macro interval and the macro test treat the "
        "datasets as independent, which is too optimistic if several datasets have gold on the same pages"
        for digest, names in corpora.items()
        if digest and len(names) > 1
    ]
    for system in systems:
        records = [each for run in runs.values() for each in run.record.predictors if each.name == system]
        if any((each.system, each.llm) != (records[0].system, records[0].llm) for each in records):
            found.append(f"{system} does not have the same settings and the same model in all runs")
    return found
