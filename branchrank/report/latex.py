"""A results table in LaTeX, which a paper can include with ``\\input``.

1. The table needs only the booktabs package. Columns that contain means are right-aligned.
2. The highest mean in each column is bold, whether or not the difference is significant. If several means are
   equally high, all of them are bold. A letter or dagger after a mean shows a significant difference, and the
   caption names the test.
3. LaTeX special characters in names are escaped, and control characters become spaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from branchrank.runs.datasets import DatasetComparison
from branchrank.runs.results_table import DAGGER, ResultsTable, SystemResult
from branchrank.runs.words import plural

_ESCAPED = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "−": "$-$",
    "†": r"$\dagger$",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}
_SPECIAL = re.compile("|".join(map(re.escape, _ESCAPED)))
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


def escape(text: str) -> str:
    r"""Escape plain text for LaTeX.

    >>> escape("strict_hit@1: 50%")
    'strict\\_hit@1: 50\\%'
    """
    return _SPECIAL.sub(lambda found: _ESCAPED[found[0]], _CONTROL.sub(" ", text))


def latex(table: ResultsTable, *, label: str = "tab:results") -> str:
    """Return the table as a complete LaTeX ``table`` environment."""
    letters = table.letters
    columns = ("ll" if letters else "l") + "r" * len(table.measures)
    heading = [*([""] if letters else []), "System", *map(escape, table.measures)]
    return _environment(
        caption(table), label, columns, heading, [_cells(table, each) for each in table.systems]
    )


def datasets_latex(found: DatasetComparison, *, label: str = "tab:datasets") -> str:
    """Return a table with a row per system and a column per dataset.

    A dagger marks a macro average that differs significantly from the baseline's macro average.
    """
    columns = zip(*((*row.estimates, row.macro) for row in found.systems), strict=True)
    best = [max(each.value for each in column) for column in columns]
    marked = {each.candidate for each in found.comparisons if each.verdict in ("better", "worse")}
    rows = []
    for row in found.systems:
        values = [each.value for each in (*row.estimates, row.macro)]
        cells = [
            rf"\textbf{{{value:.4f}}}" if value >= highest else f"{value:.4f}"
            for value, highest in zip(values, best, strict=True)
        ]
        if row.system in marked:
            cells[-1] += _raised(DAGGER)
        rows.append([escape(row.system), *cells])
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
    heading = ["System", *map(escape, found.datasets), "macro average"]
    return _environment(escape(words), label, "l" + "r" * (len(heading) - 1), heading, rows)


def _environment(
    caption: str, label: str, columns: str, heading: list[str], rows: Iterable[list[str]]
) -> str:
    return "\n".join(
        [
            r"% needs \usepackage{booktabs}",
            r"\begin{table}[tb]",
            r"  \centering",
            rf"  \caption{{{caption}}}",
            rf"  \label{{{label}}}",
            rf"  \begin{{tabular}}{{{columns}}}",
            r"    \toprule",
            f"    {_line(heading)}",
            r"    \midrule",
            *(f"    {_line(each)}" for each in rows),
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def caption(table: ResultsTable) -> str:
    """Return the caption, which states the title and explains the bold type and the significance marks."""
    words = [f"{table.title}."]
    if len(table.systems) > 1:
        words.append("Bold: the highest mean.")
    if table.comparisons:
        words.append(f"{'A letter: the mean' if table.letters else f'{DAGGER}:'} {table.test}.")
    return escape(" ".join(words))


def _cells(table: ResultsTable, system: SystemResult) -> list[str]:
    letters = table.letters
    return [
        *([escape(letters[system.name])] if letters else []),
        escape(system.name),
        *(_mean(table, system, measure) for measure in table.measures),
    ]


def _mean(table: ResultsTable, system: SystemResult, measure: str) -> str:
    value = f"{system.means[measure].value:.4f}"
    if len(table.systems) > 1 and table.is_best(system, measure):
        value = rf"\textbf{{{value}}}"
    marks = table.marks(system.name, measure)
    return f"{value}{_raised(marks)}" if marks else value


def _raised(marks: str) -> str:
    """Return the significance marks as a zero-width superscript, so that the digits in a column line up."""
    raised = r"\dagger" if marks == DAGGER else rf"\mathrm{{{marks}}}"
    return rf"\rlap{{$^{{{raised}}}$}}"


def _line(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"
