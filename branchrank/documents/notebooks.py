"""Parse Jupyter notebooks (nbformat 4) into documents, with the line numbers of the JSON file.

1. The file is checked to be JSON. The strings in the ``source`` of each cell are then found in the raw text,
   so that the line of each string is known.
2. A Markdown cell is read by the Markdown reader, a code cell is code, and a raw cell is text. Each line of a
   cell has the line number of the string that contains it.
3. Outputs, attachments and metadata are not read, because they are results of the code and often binary.
4. In a notebook whose cells are all on one line, headings and blocks are joined
   (:mod:`branchrank.documents.lines`).

A file that is not such a notebook is read as plain text. Parsing takes time linear in the size of the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from branchrank.core.io.printable import encodable
from branchrank.documents.document import Block, Findings, Heading, read_as_text
from branchrank.documents.lines import SharedLines
from branchrank.documents.markdown import read_markdown
from branchrank.documents.reading import Reader

_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"|[{}\[\],:]', re.DOTALL)
_AS_SPACES = str.maketrans("\0\r", "  ")


class _Cell(NamedTuple):
    """A cell, with the lines of its source, and the line of the file on which each of these lines starts."""

    kind: str
    lines: list[str]
    numbers: list[int]


class _Notebook(msgspec.Struct):
    nbformat: int
    cells: list[msgspec.Raw]


def read_notebook(source: str, lines: list[str]) -> Findings:
    """Read a notebook. Malformed content raises no exception."""
    text = "\n".join(lines)
    try:
        msgspec.json.decode(text)
        is_notebook = msgspec.json.decode(text, type=_Notebook).nbformat == 4
    except (msgspec.MsgspecError, RecursionError):
        is_notebook = False
    if not is_notebook:
        return read_as_text(lines, "it is not a notebook in nbformat 4")
    page = SharedLines()
    for number, cell in enumerate(_cells(text), start=1):
        if cell.kind == "markdown":
            _add_markdown(page, cell, number)
        else:
            rows = zip(cell.numbers, cell.lines, strict=True)
            page.add("code" if cell.kind == "code" else "prose", _by_line(rows))
    page.finish()
    return page


def _add_markdown(page: SharedLines, cell: _Cell, number: int) -> None:
    found = read_markdown("", cell.lines)
    line_of = dict(enumerate(cell.numbers, start=1))
    pieces: list[Block | Heading] = [*found.headings, *found.blocks]
    for piece in sorted(pieces, key=lambda each: each.line_start):
        first = line_of[piece.line_start]
        if isinstance(piece, Heading):
            page.add("prose", {first: piece.title}, piece._replace(line_start=first, line_end=first))
        else:
            texts = enumerate(piece.text.split("\n"), start=piece.line_start)
            page.add(piece.kind, _by_line((line_of[each], text) for each, text in texts))
    page.title = page.title or found.title
    page.labels += (replace(each, line=line_of[each.line]) for each in found.labels)
    page.references += (replace(each, line=line_of[each.line]) for each in found.references)
    page.notes += (f"cell {number}: {note}" for note in found.notes)


def _by_line(rows: Iterable[tuple[int, str]]) -> dict[int, str]:
    """Join the texts that have the same line number."""
    joined: dict[int, list[str]] = {}
    for number, text in rows:
        joined.setdefault(number, []).append(text)
    return {number: " ".join(texts) for number, texts in joined.items()}


def _cells(text: str) -> Iterator[_Cell]:
    """Yield the cells of a notebook. ``text`` must be valid JSON."""
    keys: list[str | None] = []  # the current key of each open object, and None for an array
    is_key = False
    line, counted = 1, 0
    kind, strings = "", list[tuple[int, str]]()
    for token in _TOKEN.finditer(text):
        match token[0][0]:
            case "{" | "[":
                keys.append("" if token[0] == "{" else None)
                is_key = token[0] == "{"
            case "}" | "]":
                keys.pop()
                if keys == ["cells", None]:
                    yield _Cell(kind, *_lines(strings))
                    kind, strings = "", []
            case ",":
                is_key = keys[-1] is not None
            case ":":
                is_key = False
            case _ if is_key:
                keys[-1] = json.loads(token[0])
            case _ if keys[:2] == ["cells", None] and keys[2:] in (["source"], ["source", None]):
                line += text.count("\n", counted, token.start())
                counted = token.start()
                strings.append((line, encodable(json.loads(token[0])).translate(_AS_SPACES)))
            case _ if keys == ["cells", None, "cell_type"]:
                kind = json.loads(token[0])


def _lines(strings: Sequence[tuple[int, str]]) -> tuple[list[str], list[int]]:
    """Return the lines of a cell's source, and the line of the file on which each of them starts."""
    lines: list[list[str]] = [[]]
    numbers = [0]
    for number, string in strings:
        first, *others = string.split("\n")
        if not lines[-1]:
            numbers[-1] = number
        if first:
            lines[-1].append(first)
        lines += ([other] if other else [] for other in others)
        numbers += [number] * len(others)
    return ["".join(parts) for parts in lines], numbers


class _NotebookReader(Reader):
    readable = False


READER = _NotebookReader(read_notebook)
