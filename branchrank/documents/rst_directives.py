"""Parse RST's explicit markup (lines that start with ``..``) and RST's tables.

If a directive is not in this module's tables, the directive's argument and body are read as prose with inline
markup.

Grid tables and simple tables are read row by row, with docutils' table parsers.

1. docutils splits the table into cells. A row covers the lines of its cells, and rows that share a cell are
   read as one row. The text of a row is one line that contains the texts of the row's cells, separated by
   ``|``.
2. In a malformed or very large table, each line except the borders is read as a row. In simple tables,
   docutils skips rows whose first cell is empty. Each line that docutils skips is also read as a row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import Any

from docutils.parsers.rst.tableparser import GridTableParser, SimpleTableParser, TableMarkupError
from docutils.statemachine import StringList

from branchrank.documents.document import Block
from branchrank.documents.lines import names_in
from branchrank.documents.markdown_text import html_text
from branchrank.documents.rst_inline import normalize_name

#: Directives whose body is code, and whose argument is a language or a file.
_IN_LANGUAGE = names_in("code code-block code-cell code-tab ipython prompt snippet sourcecode")
#: Directives whose body is code, which is kept unchanged.
VERBATIM = _IN_LANGUAGE | names_in(
    "console digraph doctest graph graphviz jinja math mermaid parsed-literal plantuml productionlist "
    "shell terminal testcleanup testcode testoutput testsetup uml"
)
#: Directives whose argument and body are not visible on the page.
SILENT = names_in(
    "currentmodule default-domain default-role highlight include index literalinclude meta role "
    "sectnum tabularcolumns toctree"
)
#: Directives whose argument is a language, a path or a class name instead of visible text.
SILENT_ARGUMENT = _IN_LANGUAGE | names_in("container cssclass figure ifconfig image only rst-class")
#: Maps each directive whose argument is a version to the words that the page shows before the version.
VERSIONS = {
    "versionadded": "New in version",
    "versionchanged": "Changed in version",
    "versionremoved": "Removed in version",
    "deprecated": "Deprecated since version",
}
#: Directive options whose value is visible on the page.
READABLE_OPTIONS = frozenset(["alt", "caption", "header", "subtitle", "synopsis", "title"])
#: Names of fields at the top of a file that configure how the page is built.
PAGE_FIELDS = frozenset(["nocomments", "no-search", "nosearch", "orphan", "tocdepth"])

#: Matches ``_name:`` in a target such as ``.. _name:``. The groups are a name in backquotes and a plain name.
TARGET = re.compile(r"_(?:`([^`]+)`|((?![ _])(?:[^:\\]|\\.)+)|_):(?:\s+|$)")
_SUBSTITUTION = re.compile(r"\|([^|]+)\|\s+([\w-]+)::\s*(.*)")
#: The number of lines in which the HTML of a substitution is looked up.
_RAW_LINES = 20
_DIRECTIVE = re.compile(r"((?:[^\W_]|[-._+:](?=[^\W_]))+) ?::(?:\s+|$)")
_FIELD = re.compile(r":([^\s:`][^:`]*):(?:\s+|$)")


def match_directive(text: str) -> tuple[str, str] | None:
    """Return the name and the argument if ``text`` starts with a directive, else ``None``.

    ``text`` is a line without the two dots at its start. The name is in lower case and without its domain,
    for example ``directive`` for ``rst:directive``. The argument is the text after the two colons.
    """
    match = _DIRECTIVE.match(text)
    return (match[1].lower().rpartition(":")[2], text[match.end() :].strip()) if match else None


def match_field(text: str) -> tuple[str, str] | None:
    """If ``text`` starts with a field, return its name and the first line of its body, else ``None``."""
    match = _FIELD.match(text)
    return (match[1], text[match.end() :]) if match else None


def match_option(line: str) -> tuple[str, str] | None:
    """If ``line`` is a directive's option, return its name and the first line of its value, else ``None``.

    An option is a field whose name is a single word.
    """
    field = match_field(line.strip())
    return field if field and " " not in field[0] else None


def definitions(lines: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the texts of the substitution definitions in a file, and the URIs of its named targets.

    Substitutions are defined by text (``|name| replace::``) or by HTML (``|name| raw::``).

    The keys of both returned dictionaries are normalized names.
    """
    substitutions: dict[str, str] = {}
    targets: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if not (line := line.lstrip()).startswith((".. _", ".. |")):
            continue
        content = line[3:].strip()
        if match := _SUBSTITUTION.match(content):
            if match[2] == "replace":
                substitutions[normalize_name(match[1])] = match[3]
            elif match[2] == "raw" and "html" in match[3].lower().split():
                body = takewhile(lambda line: not line or line[0] == " ", lines[number : number + _RAW_LINES])
                substitutions[normalize_name(match[1])] = " ".join(html_text("\n".join(body)).split())
        elif match := TARGET.match(content):
            name, uri = match[1] or match[2], content[match.end() :].strip()
            if name and uri:
                targets[normalize_name(name.replace("\\", ""))] = uri
    return substitutions, targets


def split_entry(entry: str) -> tuple[str, str] | None:
    """Return the title and target of a toctree entry ``title <target>``, or ``None`` for other entries."""
    title, _, target = entry[:-1].rpartition("<") if entry.endswith(">") else ("", "", "")
    if not title.strip() or not target or ">" in target:
        return None
    return title.rstrip(), target.strip()


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
    joined: list[list[tuple[str, int, int]]] = []
    for row in rows:
        cells = [cell for each in row if each and (cell := _cell(each, line_start, read))[0]]
        if cells and joined and min(cell[1] for cell in cells) <= max(cell[2] for cell in joined[-1]):
            joined[-1] += cells
        elif cells:
            joined.append(cells)
    for cells in joined:
        texts, firsts, lasts = zip(*cells, strict=True)
        yield Block(kind="table", text=" | ".join(texts), line_start=min(firsts), line_end=max(lasts))


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
