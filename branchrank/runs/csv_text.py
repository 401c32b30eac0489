"""CSV text that is safe to open: no cell is a formula, and no line break is one that CSV readers refuse."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from io import StringIO

#: What makes a spreadsheet take text for a formula, the full-width forms included.
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


def table_csv(header: Iterable[str], lines: Iterable[Iterable[object]]) -> str:
    """CSV text of a table; see :func:`cell`."""
    stream = StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([cell(name) for name in header])
    writer.writerows([cell(value) for value in line] for line in lines)
    return stream.getvalue()


def cell(value: object) -> str:
    """One CSV cell: floats to six digits, text that a spreadsheet would run behind an apostrophe."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value).replace("\r\n", "\n").replace("\r", "\n")
    if isinstance(value, int) or not (text[:1] in ("\t", "\n") or text.lstrip().startswith(_FORMULA)):
        return text
    return f"'{text}"


def text_of(cell_text: str) -> str:
    """The text that :func:`cell` wrote, without the apostrophe that it put in front."""
    plain = cell_text[1:]
    return plain if cell_text.startswith("'") and cell(plain) == cell_text else cell_text
