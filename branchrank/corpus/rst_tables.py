"""Read RST's grid tables and simple tables row by row, with docutils' table parsers.

1. docutils splits the table into cells. A row covers the lines of its cells, and rows that share a cell are
   read as one row. The text of a row is one line that contains the texts of the row's cells, separated by
   ``|``.
2. In a malformed or very large table, each line except the borders is read as a row. In simple tables,
   docutils skips rows whose first cell is empty. Each line that docutils skips is also read as a row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from docutils.parsers.rst.tableparser import GridTableParser, SimpleTableParser, TableMarkupError
from docutils.statemachine import StringList

from branchrank.corpus.document import Block

ReadInline = Callable[[str, int], str]

_GRID_BORDER = re.compile(r"\+[-=+]*$")
_SIMPLE_BORDER = re.compile(r"[=-][ =-]*+$")
_COLUMN_GAP = re.compile(r"\s{2,}|\s+\|\s+")
_PARSED_LINES = 2000
#: The maximum number of columns in a table that docutils parses. This number is limited because the time per
#: row grows with the line width times the number of columns.
_PARSED_COLUMNS = 50


def read_table(lines: list[str], line_start: int, read: ReadInline) -> list[Block]:
    """Return one block for each row of the table in ``lines``.

    ``lines`` must include the borders and have no common indentation. The table starts at line ``line_start``
    of the file. ``read`` converts inline RST to readable text.
    """
    blocks = list(_rows(_parse(lines), line_start, read))
    border = _GRID_BORDER if lines[0].startswith("+") else _SIMPLE_BORDER
    read_lines = {number for block in blocks for number in range(block.line_start, block.line_end + 1)}
    for number, line in enumerate(lines, start=line_start):
        if number in read_lines or border.match(line.rstrip()):
            continue
        text = " | ".join(_COLUMN_GAP.split(read(line.strip().strip("|").strip(), number)))
        if text:
            blocks.append(Block(kind="table", text=text, line_start=number, line_end=number))
    return sorted(blocks, key=lambda block: block.line_start)


def _parse(lines: list[str]) -> list[Any]:
    """Return the rows of cells that docutils finds, or an empty list for a malformed or very large table."""
    is_grid = lines[0].startswith("+")
    columns = max(line.count("+") - 1 for line in lines) if is_grid else len(lines[0].split())
    if len(lines) > _PARSED_LINES or columns > _PARSED_COLUMNS:
        return []
    parser = GridTableParser() if is_grid else SimpleTableParser()
    content = StringList(lines, "")
    content.pad_double_width("\x00")
    try:
        _, head, body = parser.parse(content)
    except (TableMarkupError, IndexError, ValueError, AssertionError):
        return []
    return [*head, *body]


def _rows(rows: list[Any], line_start: int, read: ReadInline) -> Iterator[Block]:
    first, last = 0, -1
    texts: list[str] = []
    for row in rows:
        cells = [_cell(cell, line_start, read) for cell in row if cell]
        cells = [cell for cell in cells if cell[0]]
        if not cells:
            continue
        start = min(cell[1] for cell in cells)
        if texts and start > last:
            yield Block(kind="table", text=" | ".join(texts), line_start=first, line_end=last)
            texts = []
        first = min(first, start) if texts else start
        last = max(cell[2] for cell in cells) if not texts else max(last, *(cell[2] for cell in cells))
        texts += [cell[0] for cell in cells]
    if texts:
        yield Block(kind="table", text=" | ".join(texts), line_start=first, line_end=last)


def _cell(cell: tuple[int, int, int, Any], line_start: int, read: ReadInline) -> tuple[str, int, int]:
    """Return a cell's text, first line and last line, or ``("", 0, 0)`` for an empty cell."""
    _, _, offset, content = cell
    lines = [line.replace("\x00", "").strip() for line in content]
    filled = [index for index, line in enumerate(lines) if line]
    if not filled:
        return "", 0, 0
    start = line_start + offset + filled[0]
    text = read("\n".join(lines[filled[0] : filled[-1] + 1]), start)
    return " ".join(text.split()), start, line_start + offset + filled[-1]
