"""Parse AsciiDoc files into documents, with the line numbers of the raw file.

1. The lines are read in one pass. A construct is recognized from its first line, as in Asciidoctor. A
   delimited block ends at the next line that equals its delimiter. The content of example, sidebar, quote and
   open blocks is read like that of the page, but contains no section titles.
2. A section title (``== Title``, ``## Title`` or an underlined title) starts a section where a block can
   start: not within a paragraph or a list item. Its labels are the ids in the block attributes and anchors
   above it and in its text or, without them, the id that Asciidoctor generates.
3. Listing and literal blocks are code, table lines are rows, and list items and paragraphs are text. Other
   lines, such as comments, attribute entries, block attributes and directives, produce no text. Includes are
   not expanded, conditions are not evaluated, and attribute references (``{name}``) are kept as they are.
4. Inline markup is replaced by its text. A macro that Asciidoctor does not know keeps its target: a reference
   to a manual page is written as ``name(1)``, and any other macro is kept as it is. Paragraphs with more than
   :data:`~branchrank.documents.markdown_text.MAX_INLINE` characters keep their markup.
5. The id of a section title without an id is generated as in Asciidoctor, with the ``idprefix`` and the
   ``idseparator`` that the file sets. Of the attribute references in a title, only the names count.
6. A cross-reference with a text becomes a reference. Its target is an id, the title of a section, or a file.
   In a component of Antora (a folder ``modules``), a file is a resource id, relative to the pages of its
   module.

A block that is never closed ends with the block around it or the file. Parsing takes time linear in the size
of the file.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from functools import partial
from html import unescape
from unicodedata import category

import regex

from branchrank.documents.document import ABSOLUTE, BlockKind, Findings, Heading, LinkTarget, Reference
from branchrank.documents.markdown_text import MAX_INLINE, html_text
from branchrank.documents.reading import Reader

#: Lines that start a block: verbatim blocks, tables, and blocks whose content is blocks.
_DELIMITER = re.compile(
    r"(?P<verbatim>-{4,}|\.{4,}|\+{4,}|/{4,}|```(?!`).*)|(?P<table>[|,:!]={3,})|={4,}|\*{4,}|_{4,}|--"
)
#: Styles of open blocks whose content is not blocks.
_VERBATIM_STYLES = ("comment", "listing", "literal", "source")
_DISCRETE = ("discrete", "float")
_RULE = re.compile(r"'{3,}|-{3}|\*{3}|<{3,}")
_TITLE = re.compile(r"(={1,6}|#{1,6})[ \t]+(?=\S)(.*)")
_UNDERLINES = {"=": 1, "-": 2, "~": 3, "^": 4, "+": 5}
_ENTRY = re.compile(r":(!?(\w[\w-]*)!?):(?:\s+(.*))?")
_ATTRIBUTES = re.compile(r"\[(?:\[[^\[\]]*\]|[^\[\]]*)\]")
_ID = regex.compile(
    r"\[([\w:.-]+)(?:,[^\[\]]*)?\]|[^#,=\"'\[\]]*#([\w:-]+).*|(?:.*,)?\s*id=[\"']?([\w:.-]+).*"
)
_DIRECTIVE = re.compile(r"(?:include|ifdef|ifndef|ifeval|endif|toc|video|audio)::[^\[\]]*\[.*\]")
_IMAGE = re.compile(r"image::[^\s\[\]].*\[.*\]")
_ITEM = re.compile(r"\s*(?:[*]{1,6}|-|\.{1,5}|(\d+\.|[a-zA-Z]\.)|<(?:\d+|\.)>)\s+(?=\S)")
_TERM = re.compile(r"\s*(\S.*?)(?::{2,4}|;;)(?:\s+(.*))?")
_CELL_FORMAT = re.compile(r"(?:^|(?<=\s))(?:[\d.]+[+*])?[<^>]?(?:\.[<^>])?[adehlmsv]?$")
_MACRO = regex.compile(
    r"<<(?P<id>[^<>,\n]{1,200})(?:,(?P<reference>[^<>]{0,500}))?>>"
    r"|\[\[(?P<anchor>[\w:.-]{1,200})(?:,[^\[\]]{0,200})?\]\]"
    r"|\[(?=[#.%])(?:#(?P<marked>[\w:-]{1,200}))?[\w.%-]{0,200}\](?=[#*_`])"
    r"|\(\(\([^()]{1,500}\)\)\)|\(\((?P<term>[^()]{1,500})\)\)"
    r"|(?<![\w:/-])(?P<macro>[a-z][\w-]{1,30}):(?!\s)(?P<target>[^\s\[\]]{0,500})\[(?P<text>[^\[\]]{0,1000})\]"
)
#: Macros that Asciidoctor replaces with their text, and those whose text is followed by attributes.
_KNOWN = re.compile(
    "asciimath|btn|footnote(?:ref)?|ftp|https?|indexterm2|irc|kbd|latexmath|mailto|menu|pass|stem"
)
_WITH_ATTRIBUTES = frozenset(("icon", "image", "link", "xref"))
#: The resource id of a page in Antora: the groups are the component, the module, the family and the path.
_RESOURCE = re.compile(r"(?:(?:([\w.-]+):)?([\w.-]*):)?(?:(\w+)\$)?([^:@$]+)")
_MODULE = re.compile(r"((?:.*/)?modules/)([^/]+)/")
#: Characters that Asciidoctor replaces with typographic ones, which are not part of an id.
_REPLACED = re.compile(r"(?i)\((?:C|R|TM)\)| -- |(?<=\w)--(?=\w)|\.{3}|[-=]>|<[-=]")
_MARKUP = re.compile(r"[`*_#+\[<&]|\(\(")
_CHARACTER = re.compile(r"&(?:\w{2,31}|#\d{1,7}|#[xX][\da-fA-F]{1,6});")
_CODE = re.compile(r"``([^`]{1,1000}+)``|`([^`]{1,1000}+)`")
_MARKS = [
    *(re.compile(rf"{each}{each}([^{each}]{{1,1000}}+){each}{each}") for each in (r"\*", "_", "#", r"\+")),
    *(
        re.compile(rf"(?<![\w{each}]){each}(?!\s)([^{each}]{{1,1000}}+)(?<!\s){each}(?![\w{each}])")
        for each in (r"\*", "_", "#", r"\+")
    ),
]
#: The first line of an OpenPGP key, message or signature, whose file may have the suffix ``.asc``, too.
_ARMOR = re.compile(r"-----BEGIN PGP [A-Z ]+-----")


class _Scanner(Findings):
    """Collects the contents of one file.

    ``at`` is the index of the next line. ``ends`` contains the indexes of the last lines of the blocks around
    it. ``attached`` is whether the next block belongs to a list item. ``targets`` and ``style`` are what the
    lines above the next block say about it. ``names`` contains the names of the labels.
    """

    def __init__(self, source: str, lines: list[str]) -> None:
        super().__init__()
        self.module = _MODULE.match(source)
        self.names: set[str] = set()
        self.id_parts = {"idprefix": "_", "idseparator": "_"}
        self.repeats: Counter[str] = Counter()
        self.lines = [line.rstrip() for line in lines]
        self.at = 0
        self.ends = [len(lines)]
        self.attached = False
        self.paragraph: list[str] = []
        self.kind: BlockKind = "prose"
        self.targets: list[LinkTarget] = []
        self.style = ""
        self.places: defaultdict[str, list[int]] = defaultdict(list)
        for number, line in enumerate(self.lines):
            if _DELIMITER.fullmatch(line):
                self.places[line].append(number)

    def scan(self) -> None:
        """Read all lines."""
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if self.at == self.ends[-1]:
                self.end_paragraph()
                while self.at == self.ends[-1]:
                    self.ends.pop()
            elif not line:
                self.end_paragraph()
                self.attached = False
            elif not self.invisible(line) and not self.title_line(line) and not self.block(line):
                self.text_line(line)
            self.at += 1
        self.end_paragraph()

    def title_line(self, line: str) -> bool:
        """Read a section title that starts at this line."""
        if self.paragraph or (self.style not in _DISCRETE and (self.ends[1:] or self.attached)):
            return False
        if title := _TITLE.fullmatch(line):
            self.heading(len(title[1]), title[2].removesuffix(" " + title[1]), self.at)
        elif level := self.underlined():
            self.heading(level, line, self.at + 1)
        else:
            return False
        return True

    def block(self, line: str) -> bool:
        """Read a delimited block or a rule that starts at this line."""
        if match := _DELIMITER.fullmatch(line):
            self.delimited(line, match)
        elif line == "+":
            self.end_paragraph()
            self.attached = True
        elif not self.paragraph and _RULE.fullmatch(line):
            self.start_block()
        else:
            return False
        return True

    def underlined(self) -> int:
        """Return the level of an underlined title at this line, or 0."""
        title, line = self.lines[self.at], self.lines[self.at + 1] if self.at + 1 < self.ends[-1] else ""
        if not line or line.strip(line[0]) or abs(len(title) - len(line)) > 1:
            return 0
        return _UNDERLINES.get(line[0], 0) if title[0] != "." and re.search(r"[^\W_]", title) else 0

    def heading(self, level: int, text: str, last: int) -> None:
        first, before = self.at + 1, len(self.labels)
        title = " ".join(self.inline(text, first).split())
        found = [*self.targets, *self.labels[before:]]
        is_header = level == 1 and not self.headings and not self.blocks
        if title and not (is_header or self.targets or re.search(r" \[\[[^\[\]]+\]\]$", text)):
            found.append(self.label(self.generated_id(title), first, derived=True))
        if self.style in _DISCRETE or not title:
            self.emit("prose", title, first)
        else:
            names = tuple(dict.fromkeys(label.name for label in found))
            above = self.blocks[-1].line_end if self.blocks else 0
            start = min((label.line for label in self.targets if label.line > above), default=first)
            self.headings.append(Heading(level, title, start, last + 1, names))
        self.start_block()
        self.at = last

    def start_block(self) -> None:
        """Forget what the lines above a block say about it."""
        self.targets, self.style, self.attached = [], "", False

    def delimited(self, line: str, match: re.Match[str]) -> None:
        self.end_paragraph()
        places = self.places["```" if line[0] == "`" else line]
        following = bisect_right(places, self.at)
        end = limit = self.ends[-1]
        if following < len(places) and places[following] < limit:
            end = places[following]
        else:
            self.notes.append(f"line {self.at + 1}: the block that starts here is never closed")
        style = self.style
        self.start_block()
        if match["table"]:
            for number in range(self.at + 1, end):
                self.row(self.lines[number], line[0], number + 1)
        elif match["verbatim"] or (line == "--" and style in _VERBATIM_STYLES):
            body = "\n".join(self.lines[self.at + 1 : end])
            if line[0] != "/" and style != "comment":
                is_raw = line[0] == "+"
                self.emit("prose" if is_raw else "code", html_text(body) if is_raw else body, self.at + 2)
        else:
            self.ends.append(end)
            return
        self.at = end if end < limit else end - 1

    def row(self, line: str, separator: str, number: int) -> None:
        cells = (self.inline(_CELL_FORMAT.sub("", cell), number).strip() for cell in line.split(separator))
        self.emit("table", " | ".join(filter(None, cells)), number)

    def invisible(self, line: str) -> bool:
        """Skip a line without text: a comment, an attribute entry, block attributes or a directive."""
        if not self.paragraph and (entry := _ENTRY.fullmatch(line)):
            if entry[2] in self.id_parts:
                self.id_parts[entry[2]] = "_" if "!" in entry[1] else entry[3] or ""
            while self.lines[self.at].endswith(" \\") and self.at + 1 < self.ends[-1]:
                self.at += 1
        elif _ATTRIBUTES.fullmatch(line):
            in_item = bool(self.paragraph) and self.kind == "list" and bool(_ITEM.match(self.paragraph[0]))
            self.end_paragraph()
            self.attached |= in_item
            inside = line[1:-1]
            if style := re.match(r"[\w-]+(?=[,#.%]|$)", inside):
                self.style = style[0]
            if match := _ID.fullmatch(inside):
                self.targets.append(self.label(match[1] or match[2] or match[3], self.at + 1))
        elif not (re.match(r"//(?!/)", line) or _DIRECTIVE.fullmatch(line)):
            return False
        elif self.paragraph:
            self.paragraph.append("")  # keeps the line numbers of the paragraph
        elif line.startswith("include::"):
            self.start_block()
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
            self.add_block("prose", [self.inline(line[1:], self.at + 1)], self.at + 1)
            return
        elif not self.paragraph and _IMAGE.fullmatch(line):
            self.emit("prose", self.inline(line.replace("::", ":", 1), self.at + 1), self.at + 1)
            self.start_block()
            return
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
            self.start_block()

    def inline(self, text: str, line: int) -> str:
        """Return the readable text of a paragraph that starts at ``line``, with the same line breaks."""
        if len(text) > MAX_INLINE or not _MARKUP.search(text):
            return text
        text = _MACRO.sub(partial(self.macro, line=line), text)
        parts = _CODE.split(re.sub(r" \+$", "", text, flags=re.MULTILINE))
        for index in range(0, len(parts), 3):
            for mark in _MARKS:
                parts[index] = mark.sub(r"\1", parts[index])
            parts[index] = _CHARACTER.sub(lambda found: unescape(found[0]).replace("\n", " "), parts[index])
        return "".join(filter(None, parts))

    def macro(self, match: re.Match[str], line: int) -> str:
        """Return the text of a macro, and keep its reference or label."""
        line += match.string.count("\n", 0, match.start())
        kept = "\n" * match[0].count("\n")
        name, target, text = match["macro"], match["target"] or "", match["text"] or ""
        if anchor := match["anchor"] or match["marked"] or (name == "anchor" and target):
            self.label(anchor, line)
        if match["term"]:
            return match["term"]
        if match["id"]:
            name, target, text = "xref", match["id"], match["reference"] or ""
            target = target if "#" in target or target.endswith(".adoc") else f"#{target}"
        elif not name or name in ("anchor", "indexterm"):
            return kept
        elif name in _WITH_ATTRIBUTES:
            text = text.partition(",")[0]
        elif not _KNOWN.fullmatch(name):
            if re.fullmatch(r"[1-9][a-z]{0,2}", text):
                return f"{target}({text})"
            return match[0] if text else f"{name}:{target}"
        label = text.strip().strip('"').removesuffix("^")
        if name == "menu":
            label = " > ".join(filter(None, (target, label)))
        is_local = "://" not in target if name == "xref" else name == "link" and not ABSOLUTE.match(target)
        if is_local and label:
            title, page = " ".join(label.split()), self.page(target) if name == "xref" else target
            self.references.append(Reference(role="link", text=title, target=page, line=line))
        if not label and name != "image":
            label = target.lstrip("#") if name in ("link", "xref") else f"{name}:{target}" if target else ""
        return label + kept[label.count("\n") :]

    def page(self, target: str) -> str:
        """Return the target of a cross-reference as a relative URL. In Antora, it is a resource id."""
        path, mark, anchor = target.partition("#")
        if not mark and "." not in target:
            return f"#{target}"
        parts = _RESOURCE.fullmatch(path)
        if parts is None or parts[1] or path.startswith("."):
            return target
        root, module = self.module.groups() if self.module else ("", "")
        module = parts[2] or module
        return f"/{root}{module}/{parts[3] or 'page'}s/{parts[4]}{mark}{anchor}" if module else target

    def generated_id(self, title: str) -> str:
        """Return the id that Asciidoctor generates for a title. A repeated id gets a number."""
        prefix, separator = self.id_parts["idprefix"], self.id_parts["idseparator"][:1]
        name = prefix + "".join(
            each
            for each in _REPLACED.sub("", title).lower()
            if each in " .-_" or each.isalnum() or category(each)[0] == "M"
        )
        run = rf"[ .\-{re.escape(separator)}]+" if separator else " "
        name = re.sub(run, lambda _: separator, name).removesuffix(separator)
        name = unique = name if prefix else name.removeprefix(separator)
        while unique in self.names:
            self.repeats[name] += 1
            unique = f"{name}{separator}{self.repeats[name] + 1}"
        return unique

    def label(self, name: str, line: int, *, derived: bool = False) -> LinkTarget:
        self.labels.append(LinkTarget(name=name, line=line, derived=derived))
        self.names.add(name)
        return self.labels[-1]


def read_asciidoc(source: str, lines: list[str]) -> Findings:
    """Read an AsciiDoc file. Malformed content raises no exception."""
    scanner = _Scanner(source, [line.replace("\r", " ") for line in lines])
    if _ARMOR.match(lines[0]):
        scanner.notes.append("nothing was read, because the file is an OpenPGP key or signature")
    else:
        scanner.scan()
    return scanner


READER = Reader(read_asciidoc)
