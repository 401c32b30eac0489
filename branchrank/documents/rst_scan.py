"""Find the headings and blocks of an RST file in its raw lines, so that all line numbers are exact.

1. The scanner makes one pass over the lines, without recursion. As in docutils' specification, a construct,
   such as a heading, a list item or a table, is recognized from its first line, the line's indentation and
   the neighboring lines. The scanner keeps no stack of nested directives and list items, so the nesting depth
   is not limited. A construct that is never closed ends with the last line that can belong to the construct.
2. Each construct produces blocks of readable text. Inline markup is removed from paragraphs, code is kept
   unchanged, and tables are read row by row. Comments, targets, options and other markup produce no text.
3. Internal targets and invisible markup directly above a heading belong to the heading. A directive above a
   heading also belongs to the heading if the directive has no body and its argument occurs in the title.

docutils' block parser is not used, because it drops malformed markup, loses line numbers in nested bodies,
and is limited by Python's recursion depth. The tests compare the headings that the scanner and docutils find.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from docutils.utils import column_width

from branchrank.documents.document import Block, BlockKind, Findings, Heading, LinkTarget
from branchrank.documents.markdown_text import html_text
from branchrank.documents.reading import Reader
from branchrank.documents.rst_directives import (
    PAGE_FIELDS,
    READABLE_OPTIONS,
    SILENT,
    SILENT_ARGUMENT,
    TARGET,
    VERBATIM,
    VERSIONS,
    definitions,
    match_directive,
    match_field,
    match_option,
    read_table,
    split_entry,
)
from branchrank.documents.rst_inline import InlineReader, normalize_name

_RULE = re.compile(r"([!-/:-@\[-`{-~])\1*\s*$")
_BULLET = re.compile(r"[-+*•‣⁃](?:\s+|$)")
_ENUMERATOR = re.compile(r"\(?(?:\d{1,9}|[a-zA-Z]|[ivxlcdmIVXLCDM]{1,12}|#)[.)](?:\s+|$)")
_GRID_TOP = re.compile(r"\+-[-+]+-\+ *$")
_SIMPLE_TOP = re.compile(r"=+(?: +=+)+ *$")
_SIMPLE_BORDER = re.compile(r"=[ =]*+$")
_FOOTNOTE = re.compile(r"\[(?:\d+|#[\w.+:-]*|\*|[^\W_][\w.+:-]*)\](?:\s+|$)")
#: The number of characters that substitutions may add to any file, even a very short file.
_FREE_GROWTH = 10_000
#: The largest number of anchors that can belong to one heading.
_MAX_PENDING = 100


class _Anchor(NamedTuple):
    """A label, or a directive's argument, that may belong to the next heading.

    ``block`` contains the argument. For a label, ``block`` is ``None``.
    """

    line: int
    label: str
    block: Block | None

    def foreign_to(self, title: str) -> bool:
        """Return whether ``block`` is an argument that does not occur in the lower-case heading ``title``."""
        return self.block is not None and self.block.text.lower() not in title


class Scanner(Findings):
    """Finds the headings and blocks of an RST file. :meth:`scan` fills the public lists in line order."""

    def __init__(self, source: str, lines: list[str]) -> None:
        super().__init__()
        self.lines = [line.expandtabs(8).rstrip() if "\t" in line else line.rstrip() for line in lines]
        substitutions, targets = definitions(self.lines)
        self._indents = [len(line) - len(line.lstrip()) for line in self.lines]
        growth = max(_FREE_GROWTH, sum(len(line) + 1 for line in lines))
        self.inline = InlineReader(source, substitutions, targets, growth=growth)
        self.references = self.inline.references
        self._styles: list[str] = []
        self._pending: list[_Anchor] = []
        self._tables_end_before = len(self.lines)
        self._item_line, self._item_begins = -1, False

    def scan(self) -> None:
        """Read all lines."""
        position = 0
        while position < len(self.lines):
            if self.lines[position]:
                position = self._construct(position)
            else:
                position += 1
        self._settle(len(self._pending))

    # -- Methods that read one construct, and return the position after the construct.

    def _construct(self, at: int) -> int:
        line = self.lines[at]
        column = self._indent(at)
        marker, column = self._list_marker(at, column)
        text = line[column:]
        if not text:
            return at + 1
        if text == ".." or text.startswith(".. "):
            return self._explicit(at, column, marker)
        if text.startswith("__ "):
            return self._after_adjacent(at, column)
        if text.startswith(">>> "):
            end = self._after_adjacent(at, column - 1)
            return self._code(at, end, column)
        if not marker:
            end = self._table(at, column) or (0 if column else self._heading(at))
            if end:
                return end
            if _RULE.match(text) and text != "::" and len(text) >= 4:
                return at + 1
        if text.startswith(":"):
            end = self._field(at, column, marker)
            if end:
                return end
        return self._paragraph(at, marker + text, column, "list" if marker else "prose")

    def _list_marker(self, at: int, column: int) -> tuple[str, int]:
        """Return the bullets and enumerators at the start of a line, and the column after them."""
        line = self.lines[at]
        start = column
        deepest = self._indent(at + 1) if self._line(at + 1) else len(line)
        while match := _BULLET.match(line, column) or _ENUMERATOR.match(line, column):
            alone = match.end() == len(line) and (column > start or _RULE.match(line[column:]))
            if alone and (not self._line(at + 1) or self._indent(at + 1) <= column):
                break
            if line[column] not in "-+*•‣⁃" and not (match.end() <= deepest or self._begins_item(at + 1)):
                break
            column = match.end()
        return line[start:column], column

    def _begins_item(self, at: int) -> bool:
        """Return whether a line begins with an enumerator. The most recent result is cached."""
        if self._item_line != at:
            self._item_line = at
            self._item_begins = bool(_ENUMERATOR.match(self._line(at), self._indent(at)))
        return self._item_begins

    def _heading(self, at: int) -> int:
        """Read the heading at line ``at``, and return the position after it, or 0 if there is no heading."""
        first, second, third = self.lines[at], self._line(at + 1), self._line(at + 2)
        if _RULE.match(first):
            title = second.strip()
            closed = bool(title) and third == first and not _RULE.match(second)
            if closed and (len(first) >= 4 or column_width(second) <= len(first)):
                return self._add_heading(title, at, at + 2, style=first[0] * 2)
            return 0
        if _RULE.match(second) and (len(second) >= 4 or column_width(first) <= len(second)):
            return self._add_heading(first, at, at + 1, style=second[0])
        return 0

    def _add_heading(self, title: str, at: int, last: int, style: str) -> int:
        if style not in self._styles:
            self._styles.append(style)
        text = " ".join(self.inline.read(title, at + 1).split())
        self._settle(len(self._pending) - _MAX_PENDING)
        title = text.lower()
        foreign = [number for number, anchor in enumerate(self._pending, start=1) if anchor.foreign_to(title)]
        self._settle(foreign[-1] if foreign else 0)
        self.headings.append(
            Heading(
                level=self._styles.index(style) + 1,
                title=text,
                line_start=self._pending[0].line if self._pending else at + 1,
                line_end=last + 1,
                labels=tuple(anchor.label for anchor in self._pending if anchor.label),
            )
        )
        self._pending = []
        return last + 1

    def _table(self, at: int, column: int) -> int:
        """Read the table at line ``at``, and return the position after it, or 0 if there is no table."""
        text = self.lines[at][column:]
        if _GRID_TOP.match(text):
            end = at + 1
            while (line := self._line(end)) and self._indent(end) == column and line[column] in "+|":
                end += 1
        elif _SIMPLE_TOP.match(text):
            end = self._simple_table_end(at, column)
        else:
            return 0
        if end:
            rows = [line[column:] for line in self.lines[at:end]]
            for block in read_table(rows, at + 1, self.inline.read):
                self._emit(block.kind, block.text, block.line_start, block.line_end)
        return end

    def _simple_table_end(self, at: int, column: int) -> int:
        borders = 0
        if at >= self._tables_end_before:
            return 0
        for position in range(at + 1, len(self.lines)):
            line = self.lines[position]
            if line and self._indent(position) < column:
                break
            if _SIMPLE_BORDER.match(line, column):
                borders += 1
                if borders == 2 or not self._line(position + 1):
                    return position + 1
        else:
            self._tables_end_before = at
        return 0

    def _field(self, at: int, column: int, marker: str) -> int:
        """Read the field at line ``at``, and return the position after it, or 0 if there is no field."""
        field = match_field(self.lines[at][column:])
        if field is None:
            return 0
        name, body = field
        if name in PAGE_FIELDS and not self.headings and not self.blocks:
            return self._after_adjacent(at, column)
        return self._paragraph(at, f"{marker}{name}: {body}", self._hanging(at, column), "prose")

    def _paragraph(self, at: int, first: str, column: int, kind: BlockKind, stop: int | None = None) -> int:
        """Read a paragraph with the first line ``first`` and later lines that start at ``column``."""
        end = at + 1
        limit = len(self.lines) if stop is None else stop
        while end < limit and self.lines[end] and self._indent(end) == column:
            end += 1
        texts = [first.strip(), *(line.strip() for line in self.lines[at + 1 : end])]
        if texts[0].startswith("| ") or texts[0] == "|":
            texts = [text[1:].strip() if text[:2] in ("| ", "|") else text for text in texts]
        literal = texts[-1].endswith("::") and not self._line(end)
        if literal:
            texts[-1] = texts[-1][:-2].rstrip() if texts[-1][-3:-2] in ("", " ") else texts[-1][:-1]
        text = self.inline.read("\n".join(texts), at + 1)
        if text.strip():
            self._emit(kind, text.rstrip(), at + 1, end)
        return self._literal(end, column) if literal else end

    def _literal(self, at: int, column: int) -> int:
        """Read the literal block after ``::``. The lines of a literal block are indented or quoted."""
        start = self._skip_blank(at)
        if start == len(self.lines):
            return start
        line = self.lines[start]
        indent = self._indent(start)
        if indent > column:
            return self._code(start, self._after_indented(start, column), column)
        end = start
        if indent == column and _RULE.match(line[column]):
            while self._line(end)[column : column + 1] == line[column]:
                end += 1
        return self._code(start, end, column) if end > start else start

    # -- Explicit markup, which begins with ``..``.

    def _explicit(self, at: int, column: int, marker: str) -> int:
        content = self.lines[at][column + 2 :].strip()
        directive = match_directive(content)
        if directive:
            return self._directive(at, column, *directive)
        if match := TARGET.match(content):
            end = self._after_adjacent(at, column)
            name = match[1] or match[2]
            if name and match.end() == len(content) and end == at + 1:
                label = LinkTarget(name=normalize_name(name.replace("\\", "")), line=at + 1)
                self.labels.append(label)
                if column == 0:
                    self._pending.append(_Anchor(at + 1, label.name, None))
            else:
                self._settle(len(self._pending))
            return end
        if _FOOTNOTE.match(content):
            return self._paragraph(at, marker + content, self._hanging(at, column), "prose")
        if not content and not self._line(at + 1):
            return at + 1
        return self._after_indented(at + 1, column)

    def _directive(self, at: int, column: int, name: str, argument: str) -> int:
        head_end = self._after_adjacent(at, column)
        options = next((p for p in range(at + 1, head_end) if match_option(self.lines[p])), head_end)
        if name == "toctree":
            self._read_toctree(at, self._after_indented(at + 1, column), options)
        if name in SILENT:
            return self._after_indented(at + 1, column)
        if name == "raw":
            return self._raw(self._options(at + 1, head_end), self._after_indented(at + 1, column), argument)
        if name in VERBATIM:
            if argument and name not in SILENT_ARGUMENT:
                self._paragraph(at, argument, column, "prose", stop=at + 1)
            start = self._options(at + 1, head_end)
            return self._code(start, self._after_indented(at + 1, column), column)
        if name in VERSIONS:
            argument = f"{VERSIONS[name]} {argument}"
        if name in SILENT_ARGUMENT:
            argument = ""
        end = at + 1
        has_body = self._line(self._skip_blank(end)).startswith(" ")
        if argument and head_end == end and column == 0 and not has_body:
            text = self.inline.read(argument, at + 1)
            block = Block(kind="prose", text=text, line_start=at + 1, line_end=at + 1)
            self._pending.append(_Anchor(at + 1, "", block))
        elif argument:
            end = self._paragraph(at, argument, self._hanging(at, column), "prose", stop=options)
        return self._options(options, head_end) if end == options else end

    def _raw(self, start: int, end: int, formats: str) -> int:
        """Read the body of a ``raw`` directive. Only HTML contains text."""
        text = html_text("\n".join(self.lines[start:end])) if "html" in formats.lower().split() else ""
        if text.strip():
            self._settle(len(self._pending))
            self.add_block("prose", text.split("\n"), start + 1)
        return end

    def _options(self, position: int, end: int) -> int:
        """Read directive options from ``position`` to ``end``, and emit the visible options as text."""
        while position < end and (option := match_option(self.lines[position])):
            following = self._after_adjacent(position, self._indent(position))
            if option[0] in READABLE_OPTIONS:
                texts = [option[1], *(line.strip() for line in self.lines[position + 1 : following])]
                self._emit("prose", self.inline.read("\n".join(texts), position + 1), position + 1, following)
            position = following
        return position

    def _read_toctree(self, at: int, end: int, options: int) -> None:
        """Add a toctree's entries to ``toctree``, and add its caption and the entries' titles as text."""
        in_options = options < end
        for position in range(at + 1, end):
            entry = self.lines[position].strip()
            if not entry:
                in_options = False
            elif in_options and position >= options:
                if (option := match_option(entry)) and option[0] == "caption":
                    self._emit("prose", option[1], position + 1, position + 1)
            elif (named := split_entry(entry)) is not None:
                self.toctree.append(named[1])
                self._emit("list", named[0], position + 1, position + 1)
            else:
                self.toctree.append(entry)

    # -- helpers

    def _emit(self, kind: BlockKind, text: str, first: int, last: int) -> None:
        if text.strip():
            self._settle(len(self._pending))
            self.blocks.append(Block(kind=kind, text=text, line_start=first, line_end=last))

    def _settle(self, count: int) -> None:
        """Add the first ``count`` pending anchors as ordinary text, because they belong to no heading."""
        count = max(0, count)
        self.blocks.extend(anchor.block for anchor in self._pending[:count] if anchor.block)
        del self._pending[:count]

    def _code(self, start: int, end: int, column: int) -> int:
        """Add the lines ``start`` to ``end - 1`` as code, without their common indentation."""
        first = self._skip_blank(start)
        last = end
        while last > first and not self.lines[last - 1]:
            last -= 1
        if first < last:
            body = self.lines[first:last]
            margin = min(self._indent(position) for position in range(first, last) if self.lines[position])
            self._emit("code", "\n".join(line[margin:] for line in body), first + 1, last)
        return end

    def _line(self, position: int) -> str:
        return self.lines[position] if position < len(self.lines) else ""

    def _indent(self, position: int) -> int:
        """Return the width of the whitespace at the start of a line, in columns."""
        return self._indents[position] if position < len(self.lines) else 0

    def _skip_blank(self, position: int) -> int:
        while position < len(self.lines) and not self.lines[position]:
            position += 1
        return position

    def _hanging(self, at: int, column: int) -> int:
        """Return the column at which the second and later lines of a construct at ``column`` begin."""
        return max(self._indent(at + 1), column + 1) if self._line(at + 1) else column + 1

    def _after_adjacent(self, at: int, column: int) -> int:
        """Return the position after the non-blank lines below ``at`` that are indented beyond ``column``."""
        end = at + 1
        while self._line(end) and self._indent(end) > column:
            end += 1
        return end

    def _after_indented(self, at: int, column: int) -> int:
        """From the line ``at``, skip lines indented beyond ``column``. Return the position after them."""
        end = at
        for position in range(at, len(self.lines)):
            line = self.lines[position]
            if line and self._indent(position) <= column:
                break
            if line:
                end = position + 1
        return end


def read_rst(source: str, lines: list[str]) -> Findings:
    """Read an RST file. Malformed content raises no exception."""
    scanner = Scanner(source, lines)
    scanner.scan()
    return scanner


READER = Reader(read_rst)
