"""Reports about several runs: systems on several datasets, and the outcome of a regression check.

1. The comparison of systems on several datasets is text, Markdown, CSV or LaTeX.
2. The JUnit file of a regression check contains one test case per predictor. The test case of a predictor
   that fails the check contains a ``failure``, and that of an undecided predictor an ``error`` of type
   ``undecided``. ``branchrank gate`` exits with code 10 if no predictor fails and at least one is undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from xml.etree import ElementTree

from rich.console import Console

from branchrank.errors import UsageError
from branchrank.io.files import write_text
from branchrank.io.printable import safe
from branchrank.io.table import (
    DAGGER,
    Cell,
    Styled,
    Table,
    latex_table,
    markdown_table,
    markdown_text,
    table_of,
)
from branchrank.measures.verdicts import Comparison
from branchrank.records import Record
from branchrank.report.blocks import Points, Report, Section, markdown
from branchrank.report.terminal import PIPE_WIDTH, output, print_table, say
from branchrank.runs.results_table import MACRO, DatasetComparison
from branchrank.runs.run import RunData
from branchrank.runs.run_comparison import RunGate
from branchrank.runs.tables import Sheet
from branchrank.runs.words import (
    change,
    gap,
    gap_between,
    interval,
    interval_words,
    p_value,
    plural,
    record,
    verdict_words,
)

if TYPE_CHECKING:
    import pandas as pd

Form = Literal["text", "markdown", "csv", "latex"]


class DatasetReport(Record, frozen=True, kw_only=True):
    """A report that compares systems on several datasets. ``comparison`` contains the scores and tests."""

    comparison: DatasetComparison

    def text(self, form: Form = "text") -> str:
        """Return the report as plain ``text``, ``markdown``, ``csv`` or ``latex``."""
        if form == "latex":
            return latex_table(latex_content(self.comparison), "tab:datasets")
        if form == "markdown":
            return as_markdown(self.comparison)
        return str(self) if form == "text" else sheet(self.comparison).csv

    def write(self, path: str | Path, form: Form = "markdown") -> Path:
        """Write the result of :meth:`text` to a file and return the path of the file."""
        write_text(Path(path), self.text(form))
        return Path(path)

    def print(self) -> None:
        """Print the table, the verdicts and a legend."""
        _print(self.comparison, output())

    @property
    def frame(self) -> pd.DataFrame:
        """The CSV report as a data frame, with one row per system and dataset, and one average per system."""
        return sheet(self.comparison).frame

    def __str__(self) -> str:
        stream = StringIO()
        _print(self.comparison, Console(file=stream, width=PIPE_WIDTH))
        return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())


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
    winner = _winner(found)
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


def _winner(found: DatasetComparison) -> str | None:
    """Return the system to print in bold, or ``None`` if no system is significantly better."""
    if not found.comparisons:
        return None
    best = max(found.comparisons, key=lambda each: each.difference)
    if best.verdict == "better":
        return best.candidate
    return found.baseline if all(each.verdict == "worse" for each in found.comparisons) else None


def latex_content(found: DatasetComparison) -> Table:
    """Return a table of means in which a dagger marks a macro average that differs from the baseline's."""
    best = {name: max(row.means[name].value for row in found.systems) for name in found.systems[0].means}
    marked = {(each.candidate, MACRO) for each in found.comparisons if each.verdict in ("better", "worse")}
    asked = [
        f"{name} ({plural(n, 'question')})" for name, n in zip(found.datasets, found.questions, strict=True)
    ]
    words = f"{found.measure} on {', '.join(asked)}, and their macro average. Bold: the highest mean."
    if found.comparisons:
        first = found.comparisons[0]
        corrected = "" if first.family == 1 else f", Holm-corrected for {first.family} comparisons"
        words += (
            f" {DAGGER}: differs from {found.baseline} (sign-flip randomization test by page, stratified by "
            f"dataset; two-sided{corrected}, adjusted p below {first.alpha:g})."
        )
    rows: list[tuple[Cell, ...]] = []
    for row in found.systems:
        cells = (
            Styled(
                f"{each.value:.4f}", each.value >= best[name], DAGGER if (row.name, name) in marked else ""
            )
            for name, each in row.means.items()
        )
        rows.append((row.name, *cells))
    return Table(caption=words, headings=("system", *best), rows=tuple(rows))


def differences_table(found: DatasetComparison) -> Table:
    """Return a table with each candidate's difference from the baseline, on each dataset and overall."""
    measure = found.measure

    def on_dataset(place: int) -> Callable[[Comparison], str]:
        return lambda each: gap(each.differences[place], measure)

    return table_of(
        f"Difference from {found.baseline}",
        found.comparisons,
        {
            "candidate": lambda each: each.candidate,
            **{name: on_dataset(place) for place, name in enumerate(found.datasets)},
            "macro difference": lambda each: (
                f"{gap(each.difference, measure)} ({gap_between(each.ci_low, each.ci_high, measure)})"
            ),
            "wins/ties/losses": record,
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
    section = Section(
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


_ELEMENTS = {"fail": "failure", "undecided": "error"}
_WORDS = {"pass": "passed", "fail": "failed", "undecided": "undecided"}


def write_gate(
    decided: RunGate, *, junit: str | Path | None = None, summary: str | Path | None = None
) -> None:
    """Write the decisions of :meth:`Run.gate` as JUnit XML for continuous integration, and as Markdown.

    In the JUnit file, a worse predictor is a ``failure``, and a predictor with an undecided result is an
    ``error``. Raises :class:`~branchrank.errors.StorageError` if a file can't be written.
    """
    if junit is not None:
        write_text(Path(junit), gate_junit(decided))
    if summary is not None:
        write_text(Path(summary), gate_summary(decided))


def gate_junit(decided: RunGate) -> str:
    """Return the result of the regression check as JUnit XML."""
    outcomes = [each.outcome for each in decided.decisions.values()]
    counts = {
        "tests": str(len(outcomes)),
        "failures": str(outcomes.count("fail")),
        "errors": str(outcomes.count("undecided")),
    }
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "branchrank gate", **counts})
    for predictor, each in decided.decisions.items():
        names = {"classname": "branchrank.gate", "name": f"{safe(predictor)} {each.comparison.measure}"}
        case = ElementTree.SubElement(suite, "testcase", names)
        if each.outcome != "pass":
            said = {"type": each.outcome, "message": safe(each.reason)}
            ElementTree.SubElement(case, _ELEMENTS[each.outcome], said)
    ElementTree.indent(suites)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'


def gate_summary(decided: RunGate) -> str:
    """Return the result of the regression check as Markdown, for a job summary or a pull request comment."""
    table = table_of(
        "",
        decided.decisions.items(),
        {
            "predictor": lambda each: each[0],
            "outcome": lambda each: _WORDS[each[1].outcome],
            "measure": lambda each: each[1].comparison.measure,
            "baseline": lambda each: f"{each[1].comparison.mean_a:.4f}",
            "candidate": lambda each: f"{each[1].comparison.mean_b:.4f}",
            "difference, interval": lambda each: _difference(each[1].comparison),
            "questions": lambda each: str(each[1].comparison.n),
        },
        labels=7,
    )
    reasons = [
        f"- {markdown_text(name)}: {markdown_text(each.reason)}" for name, each in decided.decisions.items()
    ]
    heading = f"### Search quality: {_WORDS[decided.outcome]}"
    return "\n".join([heading, "", markdown_table(table), "", *reasons, ""])


def _difference(compared: Comparison) -> str:
    interval = "few pages"
    if compared.ci_low is not None and compared.ci_high is not None:
        interval = f"{compared.ci_low:+.4f} to {compared.ci_high:+.4f}"
    return f"{compared.difference:+.4f}, {interval}"
