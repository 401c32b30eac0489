"""Parse AsciiDoc files into documents, with the line numbers of the raw file.

1. The lines are read in one pass. A construct is recognized from its first line, as in Asciidoctor. Example,
   sidebar, quote and open blocks are read as if they had no delimiters, so they can be nested to any depth.
2. A section title (``== Title``, ``## Title`` or an underlined title) starts a section. Its labels are the
   ids in the block attributes and anchors above it and in its text, and the id that Asciidoctor generates.
3. Listing and literal blocks are code, table lines are rows, and list items and paragraphs are text. Other
   lines, such as comments, attribute entries, block attributes and directives, produce no text. Includes are
   not expanded, conditions are not evaluated, and attribute references (``{name}``) are kept as they are.
4. Inline markup is replaced by its text. Cross-references with a text become references. Paragraphs with more
   than :data:`~branchrank.documents.markdown_text.MAX_INLINE` characters keep their markup.

A block that is never closed ends with the file. Parsing takes time linear in the size of the file.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from functools import partial

from branchrank.documents.document import BlockKind, Findings, Heading, LinkTarget, Reader, Reference
from branchrank.documents.markdown_text import ABSOLUTE, MAX_INLINE, html_text

_VERBATIM = re.compile(r"(?:-{4,}|\.{4,}|\+{4,}|/{4,}|`{3,})(?P<language>(?<=`)[\w+-]+)?")
_TRANSPARENT = re.compile(r"={4,}|\*{4,}|_{4,}|--|\+|'{3,}|-{3}|\*{3}|<{3,}")
_TABLE = re.compile(r"[|,:!]={3,}")
_TITLE = re.compile(r"(={1,6}|#{1,6})[ \t]+(?=\S)(.*)")
_UNDERLINES = {"=": 1, "-": 2, "~": 3, "^": 4, "+": 5}
_ENTRY = re.compile(r":!?\w[\w-]*!?:(?:\s.*)?")
_ATTRIBUTES = re.compile(r"\[(?:\[[^\[\]]*\]|[^\[\]]*)\]")
_ID = re.compile(r"\[([\w:.-]+)(?:,[^\[\]]*)?\]|[^#\[\]]*#([\w:.-]+).*|(?:.*,)?\s*id=[\"']?([\w:.-]+).*")
_DIRECTIVE = re.compile(r"(?:include|ifdef|ifndef|ifeval|endif|toc|video|audio)::[^\[\]]*\[.*\]")
_ITEM = re.compile(r"\s*(?:[*]{1,6}|-|\.{1,5}|(\d+\.|[a-zA-Z]\.)|<(?:\d+|\.)>)\s+(?=\S)")
_TERM = re.compile(r"\s*(\S.*?)(?::{2,4}|;;)(?:\s+(.*))?")
_CELL_FORMAT = re.compile(r"(?:^|(?<=\s))(?:[\d.]+[+*])?[<^>]?(?:\.[<^>])?[adehlmsv]?$")
_MACRO = re.compile(
    r"<<(?P<id>[^<>,\n]{1,200})(?:,(?P<reference>[^<>]{0,500}))?>>"
    r"|\[\[(?P<anchor>[\w:.-]{1,200})(?:,[^\[\]]{0,200})?\]\]|\[[#.][\w.#%-]{1,200}\](?=#)"
    r"|(?<![\w:/])(?P<macro>[a-z]{2,20}):(?!\s)(?P<target>[^\s\[\]]{0,500})\[(?P<text>[^\[\]]{0,1000})\]"
)
#: The first line of an OpenPGP key, message or signature, whose file may have the suffix ``.asc``, too.
_ARMOR = re.compile(r"-----BEGIN PGP [A-Z ]+-----")
_MARKUP = re.compile(r"[`*_#+\[<]")
_CODE = re.compile(r"``([^`]{1,1000}+)``|`([^`]{1,1000}+)`")
_MARKS = [
    *(re.compile(rf"{each}{each}([^{each}]{{1,1000}}+){each}{each}") for each in (r"\*", "_", "#", r"\+")),
    *(
        re.compile(rf"(?<![\w{each}]){each}(?!\s)([^{each}]{{1,1000}}+)(?<!\s){each}(?![\w{each}])")
        for each in (r"\*", "_", "#", r"\+")
    ),
]


class _Scanner(Findings):
    """Collects the contents of one file. ``at`` is the index of the next line."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self.lines = [line.rstrip() for line in lines]
        self.at = 0
        self.paragraph: list[str] = []
        self.kind: BlockKind = "prose"
        self.targets: list[LinkTarget] = []
        self.discrete = False
        self.table = ""
        self.places: defaultdict[str, list[int]] = defaultdict(list)
        for number, line in enumerate(self.lines):
            if _VERBATIM.fullmatch(line):
                self.places[line].append(number)

    def scan(self) -> None:
        """Read all lines."""
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if not line:
                self.end_paragraph()
            elif self.table:
                self.row(line)
            elif not self.block(line) and not self.invisible(line):
                self.text_line(line)
            self.at += 1
        self.end_paragraph()

    def block(self, line: str) -> bool:
        """Read a delimited block, a section title or a rule that starts at this line."""
        if title := _TITLE.fullmatch(line):
            self.heading(len(title[1]), title[2].removesuffix(" " + title[1]), self.at)
        elif not self.paragraph and (level := self.underlined()):
            self.heading(level, line, self.at + 1)
        elif match := _VERBATIM.fullmatch(line):
            self.verbatim(line, "```" if match["language"] else line)
        elif _TABLE.fullmatch(line):
            self.end_paragraph()
            self.table = line
        elif _TRANSPARENT.fullmatch(line):
            self.end_paragraph()
        else:
            return False
        return True

    def underlined(self) -> int:
        """Return the level of an underlined title at this line, or 0."""
        title, line = self.lines[self.at], (self.lines[self.at + 1 : self.at + 2] or [""])[0]
        if not line or line.strip(line[0]) or not re.match(r"\w", title) or abs(len(title) - len(line)) > 1:
            return 0
        return _UNDERLINES.get(line[0], 0) if len(line) > 2 else 0

    def heading(self, level: int, text: str, last: int) -> None:
        self.end_paragraph()
        first = self.at + 1
        before = len(self.labels)
        title = " ".join(self.inline(text, first).split())
        if self.discrete or not title:
            self.emit("prose", title, first)
        else:
            found = [*self.targets, *self.labels[before:]]
            own = LinkTarget(name="_" + re.sub(r"\W+", "_", title.lower()).strip("_"), line=first)
            self.labels.append(own)
            names = tuple(dict.fromkeys(label.name for label in (*found, own)))
            start = min((label.line for label in self.targets), default=first)
            self.headings.append(Heading(level, title, start, last + 1, names))
        self.targets, self.discrete = [], False
        self.at = last

    def verbatim(self, line: str, closing: str) -> None:
        self.end_paragraph()
        places = self.places[closing]
        following = bisect_right(places, self.at)
        end = places[following] if following < len(places) else len(self.lines)
        if end == len(self.lines):
            self.notes.append(f"line {self.at + 1}: the block that starts here is never closed")
        body = "\n".join(self.lines[self.at + 1 : end])
        if not line.startswith("/"):
            is_raw = line.startswith("+")
            self.emit("prose" if is_raw else "code", html_text(body) if is_raw else body, self.at + 2)
        self.at = end

    def row(self, line: str) -> None:
        if line == self.table:
            self.table = ""
            return
        separator = "|" if self.table[0] == "|" else self.table[0]
        cells = (
            self.inline(_CELL_FORMAT.sub("", cell), self.at + 1).strip() for cell in line.split(separator)
        )
        self.emit("table", " | ".join(filter(None, cells)), self.at + 1)

    def invisible(self, line: str) -> bool:
        """Skip a line without text: a comment, an attribute entry, block attributes or a directive."""
        if _ENTRY.fullmatch(line) and not self.paragraph:
            while self.lines[self.at].endswith(" \\") and self.at + 1 < len(self.lines):
                self.at += 1
        elif _ATTRIBUTES.fullmatch(line):
            self.end_paragraph()
            inside = line[1:-1]
            self.discrete |= inside.startswith(("discrete", "float"))
            if match := _ID.fullmatch(inside):
                label = LinkTarget(name=match[1] or match[2] or match[3], line=self.at + 1)
                self.labels.append(label)
                self.targets.append(label)
        elif not (re.match(r"//(?!/)", line) or _DIRECTIVE.fullmatch(line)):
            return False
        elif self.paragraph:
            self.paragraph.append("")  # keeps the line numbers of the paragraph
        return True

    def text_line(self, line: str) -> None:
        if item := _ITEM.match(line):
            self.end_paragraph()
            self.kind = "list"
            line = f"{item[1]} {line[item.end() :]}" if item[1] else f"- {line[item.end() :]}"
        elif term := _TERM.fullmatch(line):
            self.end_paragraph()
            self.kind = "list"
            line = f"{term[1]}: {term[2]}" if term[2] else term[1]
        elif line.startswith(".") and not self.paragraph:
            self.emit("prose", self.inline(line[1:], self.at + 1), self.at + 1)
            return
        elif line.startswith("image::"):
            line = line.replace("::", ":", 1)
        elif not self.paragraph:
            indented = line[0].isspace() and not (self.blocks and self.blocks[-1].kind == "list")
            self.kind = "code" if indented else "prose"
        self.paragraph.append(line)

    def end_paragraph(self) -> None:
        """Add the lines since the last block as a paragraph."""
        if self.paragraph:
            first, text = self.at - len(self.paragraph) + 1, "\n".join(self.paragraph)
            self.paragraph = []
            self.emit(self.kind, text if self.kind == "code" else self.inline(text, first), first)

    def emit(self, kind: BlockKind, text: str, first: int) -> None:
        """Add a block without blank lines at its start and end. ``first`` is its first line."""
        lines = [line.rstrip() if kind == "code" else line.strip() for line in text.split("\n")]
        if any(lines):
            self.add_block(kind, lines, first)
            self.targets, self.discrete = [], False

    def inline(self, text: str, line: int) -> str:
        """Return the readable text of a paragraph that starts at ``line``, with the same line breaks."""
        if len(text) > MAX_INLINE or not _MARKUP.search(text):
            return text
        text = _MACRO.sub(partial(self.macro, line=line), text)
        parts = _CODE.split(re.sub(r" \+$", "", text, flags=re.MULTILINE))
        for index in range(0, len(parts), 3):
            for mark in _MARKS:
                parts[index] = mark.sub(r"\1", parts[index])
        return "".join(filter(None, parts))

    def macro(self, match: re.Match[str], line: int) -> str:
        """Return the text of a macro, and keep its reference or label."""
        line += match.string.count("\n", 0, match.start())
        kept = "\n" * match[0].count("\n")
        name, target = match["macro"], match["target"] or ""
        if match["anchor"] or name == "anchor":
            self.labels.append(LinkTarget(name=match["anchor"] or target, line=line))
            return kept
        text = match["text"] if name else match["reference"]
        if match["id"]:
            target = match["id"] if "#" in match["id"] or "." in match["id"] else f"#{match['id']}"
        elif not name:
            return ""
        elif name == "xref" and "#" not in target and "." not in target:
            target = f"#{target}"
        label, _, _ = (
            (text or "").partition(",") if name in ("image", "link", "xref", "icon") else (text or "", "", "")
        )
        label = label.strip().strip('"').removesuffix("^")
        if name in ("link", "xref", None) and label and not ABSOLUTE.match(target):
            title = " ".join(label.split())
            self.references.append(Reference(role="link", text=title, target=target, line=line))
        if not label and name != "image":
            label = (
                target.lstrip("#") if name in ("link", "xref", None) else f"{name}:{target}" if target else ""
            )
        return label + kept[label.count("\n") :]


def read_asciidoc(source: str, lines: list[str]) -> Findings:
    """Read an AsciiDoc file. Malformed content raises no exception."""
    scanner = _Scanner([line.replace("\r", " ") for line in lines])
    if _ARMOR.match(lines[0]):
        scanner.notes.append("nothing was read, because the file is an OpenPGP key or signature")
    else:
        scanner.scan()
    return scanner


READER = Reader(read_asciidoc)
