"""The comparison of systems over several datasets, as text, Markdown, CSV or LaTeX.

1. The table has a row for each system that is in every run, and a column for each dataset. The last column is
   the macro average, which is the mean of the datasets' means.
2. Every cell shows the mean of the same measure, with a confidence interval. Every system is compared with
   the baseline over all datasets together (:mod:`branchrank.scoring.verdicts`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from rich.console import Console

from branchrank.core.errors import Remedy, RunError, UsageError, suggestion
from branchrank.core.io.files import write_text
from branchrank.core.io.table import DAGGER, Styled, Table, latex_table, table_of
from branchrank.core.records import Record
from branchrank.reports.blocks import Points, Report, ReportSection, markdown
from branchrank.reports.terminal_report import PIPE_WIDTH, output, print_table, say
from branchrank.runs.comparisons import pairs_of, winner_of
from branchrank.runs.results_table import SystemResult, full_headings, means_rows
from branchrank.runs.run_data import RunData
from branchrank.runs.scores import bounded
from branchrank.runs.tables import Sheet
from branchrank.runs.words import (
    change,
    gap,
    gap_with_interval,
    interval,
    interval_words,
    p_value,
    plural,
    record,
    verdict_words,
)
from branchrank.scoring.comparison import Comparison
from branchrank.scoring.intervals import Interval
from branchrank.scoring.measures import NamedMeasure, mean
from branchrank.scoring.verdicts import Stratum, compare_strata, macro_interval

if TYPE_CHECKING:
    import pandas as pd

Form = Literal["text", "markdown", "csv", "latex"]
#: The name of the average of the datasets' means, which have equal weights.
MACRO = "macro average"


class DatasetComparison(Record, frozen=True, kw_only=True):
    """The comparison of systems over several datasets on one measure.

    The ``means`` of a system have the datasets' names as keys, followed by ``macro average``.

    ``questions`` contains each dataset's number of answerable questions. ``pages`` contains each dataset's
    number of pages with gold. ``notes`` contains sentences about systems that were left out, datasets with
    the same corpus, and systems whose settings differ between runs. ``str()``
    returns the text that ``branchrank datasets`` prints.
    """

    measure: str
    baseline: str
    datasets: tuple[str, ...]
    questions: tuple[int, ...]
    pages: tuple[int, ...]
    systems: tuple[SystemResult, ...]
    comparisons: tuple[Comparison, ...]
    notes: tuple[str, ...] = ()

    def text(self, form: Form = "text") -> str:
        """Return the report as plain ``text``, ``markdown``, ``csv`` or ``latex``."""
        if form == "latex":
            return latex_table(latex_content(self), "tab:datasets")
        if form == "markdown":
            return as_markdown(self)
        return str(self) if form == "text" else sheet(self).csv

    def write(self, path: str | Path, form: Form = "markdown") -> Path:
        """Write the result of :meth:`text` to a file and return the path of the file."""
        write_text(Path(path), self.text(form))
        return Path(path)

    def print(self) -> None:
        """Print the table, the verdicts and a legend."""
        _print(self, output())

    @property
    def frame(self) -> pd.DataFrame:
        """The CSV report as a data frame, with one row per system and dataset, and one average per system."""
        return sheet(self).frame

    def __str__(self) -> str:
        stream = StringIO()
        _print(self, Console(file=stream, width=PIPE_WIDTH))
        return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())


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
            f"the runs declare different measures: {declared}",
            remedy=Remedy("choose one with {}", "--primary"),
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
        Stratum({system: run.scores.per_question(system, chosen) for system in systems}, run.clusters)
        for run in runs.values()
    ]
    options = first.options if delta is None else msgspec.structs.replace(first.options, delta=delta)
    return DatasetComparison(
        measure=chosen.name,
        baseline=baseline,
        datasets=tuple(runs),
        questions=tuple(len(stratum.pages) for stratum in strata),
        pages=tuple(len(set(stratum.pages.values())) for stratum in strata),
        systems=tuple(_system(runs, system, chosen) for system in systems),
        comparisons=compare_strata(
            strata, pairs_of([baseline], systems), measure=chosen.name, options=options
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


def _system(runs: Mapping[str, RunData], system: str, measure: NamedMeasure) -> SystemResult:
    means = {name: run.scores.estimate(system, measure) for name, run in runs.items()}
    values = [each.value for each in means.values()]
    bounds = [
        None if each.low is None or each.high is None else Interval(low=each.low, high=each.high)
        for each in means.values()
    ]
    macro = bounded(mean(values), macro_interval(values, bounds), sum(each.n for each in means.values()))
    return SystemResult(name=system, means={**means, MACRO: macro})


def _notes(runs: Mapping[str, RunData], systems: Sequence[str]) -> Iterator[str]:
    counted = Counter(name for run in runs.values() for name in run.predictors)
    if missing := [name for name in counted if name not in systems]:
        yield f"left out, because they are not in every run: {', '.join(missing)}"
    corpora: dict[str, list[str]] = {}
    for name, run in runs.items():
        corpora.setdefault(run.record.corpus_digest, []).append(name)
    for digest, names in corpora.items():
        if digest and len(names) > 1:
            yield (
                f"{' and '.join(names)} use the same corpus. The macro interval and the macro test treat the "
                "datasets as independent, which is too optimistic if they have gold on the same pages"
            )
    for system in systems:
        records = [each for run in runs.values() for each in run.record.predictors if each.name == system]
        if any((each.system, each.llm) != (records[0].system, records[0].llm) for each in records):
            yield f"{system} does not have the same settings and the same model in all runs"


def _print(found: DatasetComparison, console: Console) -> None:
    content = scores_table(found)
    say(console, content.caption, style="bold")
    print_table(console, content, gap=2)
    console.print()
    for line in sentences(found):
        say(console, line)
    console.print()
    say(console, legend(found), style="dim")
    for note in found.notes:
        say(console, f"Note: {note}", style="yellow")


def dataset_names(runs: Sequence[RunData]) -> list[str]:
    """Return a distinct name for each run, from its experiment, its corpus folder or its directory."""
    directories = [str(run.directory) for run in runs]
    if twice := [name for name in directories if directories.count(name) > 1]:
        raise UsageError(f"{twice[0]} is given twice", remedy="give each run once")
    for names in ([run.record.experiment for run in runs], [Path(run.record.corpus).name for run in runs]):
        if all(names) and len(set(names)) == len(names):
            return names
    return directories


def scores_table(found: DatasetComparison) -> Table:
    """Return a table with each system's mean on each dataset and its macro average, all with intervals."""
    winner = winner_of(found.comparisons, (found.baseline,))
    return Table(
        caption=f"{found.measure.replace('_', ' ')}, with 95% intervals",
        headings=("system", *found.datasets, MACRO),
        rows=tuple(
            (
                Styled(row.name, bold=row.name == winner),
                *(interval(each, found.measure) for each in row.means.values()),
            )
            for row in found.systems
        ),
    )


def latex_content(found: DatasetComparison) -> Table:
    """Return a table of means in which a dagger marks a macro average that differs from the baseline's."""
    marked = {(each.candidate, MACRO) for each in found.comparisons if each.is_significant}
    asked = [
        f"{name} ({plural(n, 'question')})" for name, n in zip(found.datasets, found.questions, strict=True)
    ]
    words = f"{found.measure} on {', '.join(asked)}, and their macro average."
    if len(found.systems) > 1:
        words += " Bold: the highest mean."
    if found.comparisons:
        first = found.comparisons[0]
        corrected = "" if first.family == 1 else f", Holm-corrected for {first.family} comparisons"
        words += (
            f" {DAGGER}: differs from {found.baseline} (sign-flip randomization test by page, stratified by "
            f"dataset; two-sided{corrected}, adjusted p below {first.alpha:g})."
        )
    rows = means_rows(found.systems, lambda *place: DAGGER if place in marked else "", in_full=True)
    return Table(caption=words, headings=("system", *full_headings(found.systems)), rows=tuple(rows))


def differences_table(found: DatasetComparison) -> Table:
    """Return a table with each candidate's difference from the baseline, on each dataset and overall."""
    measure = found.measure
    by_dataset = {
        name: lambda each, place=place: gap(each.differences[place], measure)
        for place, name in enumerate(found.datasets)
    }
    return table_of(
        f"Difference from {found.baseline}",
        found.comparisons,
        {
            "candidate": lambda each: each.candidate,
            **by_dataset,
            "macro difference": lambda each: gap_with_interval(each, measure),
            "wins, ties, losses": record,
            "adjusted p": lambda each: p_value(each.p_adjusted),
            "verdict": verdict_words,
        },
    )


def sentences(found: DatasetComparison) -> list[str]:
    """Return one sentence per comparison, with the verdict and the macro difference."""
    over = plural(len(found.datasets), "dataset")
    return [
        f"{each.candidate} vs {each.baseline}: {verdict_words(each)} over {over}. Macro difference "
        f"{change(each.difference, found.measure)} ({interval_words(each)}); "
        f"adjusted p {p_value(each.p_adjusted)}."
        for each in found.comparisons
    ]


def legend(found: DatasetComparison) -> str:
    """Return the legend for the table."""
    parts = zip(found.datasets, found.questions, found.pages, strict=True)
    sizes = "; ".join(
        f"{name}: {plural(n, 'question')} on {plural(pages, 'page')}" for name, n, pages in parts
    )
    return (
        f"{sizes}. In the macro average, every dataset has the same weight. The p-values are from a "
        "sign-flip test by page, stratified by dataset, with Holm's correction for several candidates."
    )


def as_markdown(found: DatasetComparison) -> str:
    """Return the tables and the verdicts as Markdown."""
    verdicts = Points(items=tuple((each,) for each in sentences(found)))
    notes = (f"Note: {note}" for note in found.notes)
    section = ReportSection(
        f"{found.measure} against {found.baseline}",
        (verdicts, scores_table(found), differences_table(found), *notes),
    )
    return markdown(Report(title="Systems over datasets", facts=(legend(found),), sections=(section,)))


def sheet(found: DatasetComparison) -> Sheet:
    """Return a table with one row per system and dataset, and one macro-average row per system.

    The macro-average row of a candidate also contains the results of its test against the baseline.
    """
    compared = {each.candidate: each for each in found.comparisons}
    test = ("difference", "ci_low", "ci_high", "p", "p_adjusted", "wins", "ties", "losses", "verdict")
    lines: list[tuple[object, ...]] = []
    for row in found.systems:
        each = compared.get(row.name)
        for place, (dataset, cell) in enumerate(row.means.items()):
            tested: list[object] = [*[None] * (len(test) - 1), ""]
            if each is not None and place < len(each.differences):
                tested[0] = each.differences[place]
            elif each is not None:
                tested = [getattr(each, name) for name in test]
            figures = (cell.n, cell.value, cell.low, cell.high)
            lines.append((row.name, dataset, found.measure, found.baseline, *figures, *tested))
    header = ("system", "dataset", "measure", "baseline", "questions", "mean", "low", "high", *test)
    return Sheet(header, lines)
