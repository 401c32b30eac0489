"""Write CSV text in which no cell is a spreadsheet formula and every line break is a line feed."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from io import StringIO

#: First characters that make a spreadsheet read text as a formula, including the full-width forms.
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


def table_csv(header: Iterable[str], lines: Iterable[Iterable[object]]) -> str:
    """Return a table as CSV text, with every cell formatted by :func:`cell`."""
    stream = StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([cell(name) for name in header])
    writer.writerows([cell(value) for value in line] for line in lines)
    return stream.getvalue()


def cell(value: object) -> str:
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
    """Return the text of a cell without the apostrophe that :func:`cell` added."""
    plain = cell_text[1:]
    return plain if cell_text.startswith("'") and cell(plain) == cell_text else cell_text
