"""One record for every table, and its renderers: plain text, Markdown, HTML, LaTeX and CSV.

1. Text in a cell is escaped when the table is rendered, so that a cell can hold any text.
2. In CSV, no cell is a spreadsheet formula, every line break is a line feed, and a float has six significant
   digits.
3. LaTeX tables need only the booktabs package. Marks after a number are zero-width superscripts, so that the
   digits in a column line up.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Mapping
from html import escape
from io import StringIO
from typing import NamedTuple, TypeVar

from branchrank.core.io.printable import safe
from branchrank.core.records import Record

DAGGER = "†"
#: First characters that make a spreadsheet read text as a formula, including the full-width forms.
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
_SIGN = re.compile(r"[\[,=:](?=\w)")
#: Characters that are Markdown markup, except underscores inside words such as ``hit_rate``.
_MARKDOWN = re.compile(r"([\\`*\[\]<>|&~]|\b_|_\b|(?<!\w)_|^[#+-](?!\d))")
_LATEX = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "−": "$-$",
    "–": "--",
    DAGGER: r"$\dagger$",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}
_LATEX_SPECIAL = re.compile("|".join(map(re.escape, _LATEX)))
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
#: Names of at most this many characters are not wrapped in HTML tables.
_SHORT = 24
_RANGE = re.compile(r"([^()]+) (\([^()]+\))")


class Styled(NamedTuple):
    """Text that is bold or followed by marks, such as a dagger after a significantly different mean."""

    text: str
    bold: bool = True
    marks: str = ""


Cell = str | Styled
T = TypeVar("T")


class Table(Record, frozen=True, kw_only=True):
    """A table that has text in its first ``labels`` columns and numbers in the other columns."""

    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    labels: int = 1


def table_of(
    caption: str, items: Iterable[T], columns: Mapping[str, Callable[[T], Cell]], labels: int = 1
) -> Table:
    """Return a table with one row per item. ``columns`` maps each heading to the function for its cells."""
    rows = tuple(tuple(cell(item) for cell in columns.values()) for item in items)
    return Table(caption=caption, headings=tuple(columns), rows=rows, labels=labels)


def plain_cell(cell: Cell) -> str:
    """Return a cell as text. Letters that mark a number follow after a space."""
    if isinstance(cell, str):
        return cell
    return f"{cell.text}{' ' if cell.marks.isascii() and cell.marks else ''}{cell.marks}"


def plain(table: Table, *, left: bool = False) -> list[str]:
    """Return the lines of a table without its caption, with aligned columns.

    Numbers are aligned on the right unless ``left`` is true, as for means with marks of different lengths.
    """
    lines = [[safe(plain_cell(cell)) for cell in line] for line in (table.headings, *table.rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if left or place < table.labels else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def markdown_text(text: str) -> str:
    """Convert plain text to one line of Markdown by escaping markup."""
    return _MARKDOWN.sub(r"\\\1", " ".join(safe(text).split()))


def markdown_cell(cell: Cell) -> str:
    """Return a cell as Markdown."""
    text = markdown_text(plain_cell(cell))
    return f"**{text}**" if isinstance(cell, Styled) and cell.bold else text


def markdown_table(table: Table) -> str:
    """Return a table as Markdown, below its caption if there is one."""
    rules = ["---" if place < table.labels else "---:" for place in range(len(table.headings))]
    head, *body = [tuple(map(markdown_cell, line)) for line in (table.headings, *table.rows)]
    caption = [f"{markdown_text(table.caption)}:", ""] if table.caption else []
    return "\n".join([*caption, *(f"| {' | '.join(line)} |" for line in (head, rules, *body))])


def html_text(text: str) -> str:
    """Escape plain text for HTML."""
    return escape(safe(text))


def html_cell(cell: Cell) -> str:
    """Return the content of a cell as HTML."""
    text = html_text(plain_cell(cell))
    return f"<strong>{text}</strong>" if isinstance(cell, Styled) and cell.bold else text


def html_table(table: Table) -> str:
    """Return a table as HTML that scrolls sideways, with a ``span`` around each interval in parentheses."""
    caption = html_text(table.caption)
    figure = ["" if place < table.labels else ' class="figure"' for place in range(len(table.headings))]
    head = "".join(
        f'<th scope="col"{style}>{html_text(heading)}</th>'
        for heading, style in zip(table.headings, figure, strict=True)
    )
    lines = []
    for first, *others in table.rows:
        short = ' class="short"' if len(plain_cell(first)) <= _SHORT else ""
        cells = "".join(
            f"<td{style}>{_ranged(cell) if style else html_cell(cell)}</td>"
            for cell, style in zip(others, figure[1:], strict=True)
        )
        # A long name breaks after a sign, and not within a word.
        name = _SIGN.sub(r"\g<0><wbr>", html_cell(first))
        lines.append(f'<tr><th scope="row"{short}>{name}</th>{cells}</tr>')
    body = "\n".join(lines)
    return (
        f'<div class="table" role="region" aria-label="{caption}" tabindex="0"><table>\n'
        f"<caption><span>{caption}</span></caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


def _ranged(cell: Cell) -> str:
    found = _RANGE.fullmatch(cell) if isinstance(cell, str) else None
    if found is None:
        return html_cell(cell)
    return f'{html_text(found[1])} <span class="range">{html_text(found[2])}</span>'


def latex_text(text: str) -> str:
    r"""Escape plain text for LaTeX. Control characters become spaces.

    >>> latex_text("strict_hit@1: 50%")
    'strict\\_hit@1: 50\\%'
    """
    return _LATEX_SPECIAL.sub(lambda found: _LATEX[found[0]], _CONTROL.sub(" ", text))


def latex_table(table: Table, label: str) -> str:
    r"""Return a complete LaTeX ``table`` environment, which a paper can include with ``\input``."""
    names = [each[:1].upper() + each[1:] for each in table.headings[: table.labels]]
    lines = [[*names, *table.headings[table.labels :]], *table.rows]
    heading, *rows = [rf"    {' & '.join(map(_latex_cell, line))} \\" for line in lines]
    return "\n".join(
        [
            r"% needs \usepackage{booktabs}",
            r"\begin{table}[tb]",
            r"  \centering",
            rf"  \caption{{{latex_text(table.caption)}}}",
            rf"  \label{{{label}}}",
            rf"  \begin{{tabular}}{{{'l' * table.labels + 'r' * (len(table.headings) - table.labels)}}}",
            r"    \toprule",
            heading,
            r"    \midrule",
            *rows,
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _latex_cell(cell: Cell) -> str:
    if isinstance(cell, str):
        return latex_text(cell)
    text = rf"\textbf{{{latex_text(cell.text)}}}" if cell.bold else latex_text(cell.text)
    if not cell.marks:
        return text
    raised = r"\dagger" if cell.marks == DAGGER else rf"\mathrm{{{latex_text(cell.marks)}}}"
    return rf"{text}\rlap{{$^{{{raised}}}$}}"


def table_csv(header: Iterable[str], lines: Iterable[Iterable[object]]) -> str:
    """Return a table as CSV text, with every cell formatted by :func:`csv_cell`."""
    stream = StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([csv_cell(name) for name in header])
    writer.writerows([csv_cell(value) for value in line] for line in lines)
    return stream.getvalue()


def csv_cell(value: object) -> str:
    """Format a CSV cell: a float has six significant digits, and text like ``=1+1`` gets a leading ``'``."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value).replace("\r\n", "\n").replace("\r", "\n")
    # Text that has an apostrophe before the formula, such as '=1, gets another one (''=1), so that text_of
    # can restore the text.
    bare = text.lstrip("'")
    if isinstance(value, int) or not (bare[:1] in ("\t", "\n") or bare.lstrip().startswith(_FORMULA)):
        return text
    return f"'{text}"


def text_of(cell_text: str) -> str:
    """Return the text of a cell without the apostrophe that :func:`csv_cell` added."""
    text = cell_text[1:]
    return text if cell_text.startswith("'") and csv_cell(text) == cell_text else cell_text
