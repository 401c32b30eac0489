"""A table of results as LaTeX, to be read into a paper with ``\\input``.

1. The table needs only the package booktabs. Means are aligned to the right.
2. The highest mean of each column is bold, including ties, without a test. A mark shows a significant
   difference, and the caption names the test.
3. Names are text: each character that LaTeX takes for markup is escaped, and a control character is left out.
"""

from __future__ import annotations

import re

from branchrank.runs.results_table import DAGGER, ResultsTable, SystemResult

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
    r"""Plain text as LaTeX.

    >>> escape("strict_hit@1: 50%")
    'strict\\_hit@1: 50\\%'
    """
    return _SPECIAL.sub(lambda found: _ESCAPED[found[0]], _CONTROL.sub(" ", text))


def latex(table: ResultsTable, *, label: str = "tab:results") -> str:
    """The whole ``table`` environment."""
    letters = table.letters
    columns = ("ll" if letters else "l") + "r" * len(table.measures)
    heading = [*([""] if letters else []), "System", *map(escape, table.measures)]
    return "\n".join(
        [
            r"% needs \usepackage{booktabs}",
            r"\begin{table}[tb]",
            r"  \centering",
            rf"  \caption{{{caption(table)}}}",
            rf"  \label{{{label}}}",
            rf"  \begin{{tabular}}{{{columns}}}",
            r"    \toprule",
            f"    {_line(heading)}",
            r"    \midrule",
            *(f"    {_line(_cells(table, each))}" for each in table.systems),
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def caption(table: ResultsTable) -> str:
    """Return the caption: the questions, the meaning of bold, and the test behind the marks."""
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
    raised = r"\dagger" if marks == DAGGER else rf"\mathrm{{{marks}}}"
    # The mark takes no width, so that the digits of a column are aligned.
    return rf"{value}\rlap{{$^{{{raised}}}$}}" if marks else value


def _line(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"
