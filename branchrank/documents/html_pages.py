"""Parse HTML files into documents, with the line numbers of the raw file.

1. The tags are found in the raw text in one pass. Comments, declarations, scripts and styles are skipped.
   An end tag closes the nearest open element with its name, and all elements inside that element.
2. The content of a page is its ``main`` element (or the elements with the role ``main``). A page without
   text in one has its ``article`` elements as content, and a page without text in articles its whole text.
3. Navigation, page footers, scripts and controls inside the content are left out. A page header and an
   ``aside`` are left out only if they are not part of a ``main`` or ``article`` element, because titles and
   notes are often inside such elements. An element that is never closed is not left out.
4. Paragraphs, list items, table rows and preformatted code become blocks. Tags inside a paragraph are
   removed, and tags that separate words become spaces. An image is replaced by its description.
5. Each heading ``h1`` to ``h6`` starts a section. The ids between the last text and a heading, and those
   inside the heading, are the heading's labels. Headings and blocks that share a line are joined
   (:mod:`branchrank.documents.lines`).
6. Links to other pages or sections become references. A link without letters and digits, such as the ``¶``
   that refers to its own heading, is removed.
7. The file is decoded as UTF-8 or, if it is not valid UTF-8, with the encoding that a ``meta`` tag in its
   first KiB declares.

Parsing takes time linear in the size of the file. No parser that builds a tree is used. Such parsers (lxml,
selectolax) have no line numbers for text, and move the text of malformed tables before the table. The
standard library's tokenizer takes quadratic time in older patch versions of Python and finds different tags
in newer ones, so an index would depend on the version.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from branchrank.core.io.text_files import decoded_always
from branchrank.documents.document import ABSOLUTE, BlockKind, Findings, Heading, LinkTarget, Reference
from branchrank.documents.lines import SharedLines, names_in
from branchrank.documents.markdown_syntax import HTML_TAG, TagFinder
from branchrank.documents.markdown_text import WITHIN_WORDS
from branchrank.documents.reading import Reader

_MARKUP = re.compile(r"<(?:(?P<special>!--|!\[CDATA\[|[!?])|/?(?P<name>[a-z][\w:-]*+))", re.IGNORECASE)
_SPECIAL_ENDS = {"!--": "-->", "![CDATA[": "]]>", "!": ">", "?": ">"}
_RAW_ENDS = {name: re.compile(rf"</{name}\b", re.IGNORECASE) for name in ("script", "style", "textarea")}
_ATTRIBUTE = re.compile(r"""([^\s"'<>/=]++)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'=<>`]++)))?""")
_VOID = names_in("area base br col embed hr img input link meta param source track wbr")
_NEVER_CONTENT = names_in(
    "audio button canvas dialog footer iframe math nav noscript object select svg template title video"
)
_OUTSIDE_CONTENT = frozenset(("aside", "header"))
_NEVER_ROLES = frozenset(("banner", "contentinfo", "navigation", "search"))
#: Classes of navigation, of permanent links and of line numbers beside code, as generators write them.
_NEVER_CLASSES = names_in(
    "breadcrumb breadcrumbs footer gutter hash-link headerlink lineno linenodiv linenos navbar "
    "navigation pagination toc"
)
_WORD = re.compile(r"\w")
_BLOCKS = names_in(
    "address article aside blockquote body caption center dd details dir div dl dt fieldset figcaption "
    "figure form h1 h2 h3 h4 h5 h6 header hr html legend li main menu ol p pre section summary table "
    "tbody tfoot thead tr ul"
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_CELL = "\0"  # the text contains no NUL
_PERMALINK = re.compile(r"[\s#§¶\u200b\u2060🔗]*")
_META = re.compile(rb"""<meta\b[^<>]*?\bcharset\s*+=\s*+["']?\s*+([\w:.-]++)""", re.IGNORECASE)
#: Encodings in which the byte ``\n`` is always a line break.
_ENCODINGS = re.compile(
    r"windows-?125\d|cp125\d|iso-?8859-?\d+|latin-?1|koi8-[ru]|gbk|gb2312|gb18030|big5|shift_jis|euc-(jp|kr)"
)


class Tag(NamedTuple):
    """A tag at the offsets ``start`` to ``end`` of the text. A comment or script is a tag without a name."""

    name: str
    start: int
    end: int
    is_end: bool
    attributes: Mapping[str, str]


def find_tags(text: str) -> list[Tag]:
    """Return the tags of an HTML file in order, after an empty tag at the start of the file.

    The names of tags and attributes are in lower case.
    """
    finder = TagFinder(text, HTML_TAG)
    tags = [Tag("", 0, 0, True, {})]
    position = 0
    while match := _MARKUP.search(text, position):
        start, position = match.span()
        if special := match["special"]:
            closing = _SPECIAL_ENDS[special.upper()]
            end = text.find(closing, position)
            position = len(text) if end < 0 else end + len(closing)
            tags.append(Tag("", start, position, True, {}))
        elif end := finder.end(start):
            name, is_end = match["name"].lower(), text[start + 1] == "/"
            attributes = {} if is_end else _attributes(text[position : end - 1])
            position = end
            if not is_end and (raw_end := _RAW_ENDS.get(name)):
                closed = raw_end.search(text, end)
                position = closed.start() if closed else len(text)
                name = ""
            tags.append(Tag(name, start, position, is_end, attributes))
    return tags


def _attributes(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, *values in _ATTRIBUTE.findall(text):
        found.setdefault(name.lower(), "".join(values))
    return found


def match_tags(tags: Sequence[Tag]) -> list[list[int]]:
    """Return, for each tag, the positions of the start tags whose elements the tag closes."""
    closed: list[list[int]] = [[] for _ in tags]
    opened: list[int] = []
    names: Counter[str] = Counter()
    for position, tag in enumerate(tags):
        if not tag.is_end and tag.name and tag.name not in _VOID:
            opened.append(position)
            names[tag.name] += 1
        elif tag.is_end and names[tag.name]:
            while True:
                closed[position].append(opened.pop())
                name = tags[closed[position][-1]].name
                names[name] -= 1
                if name == tag.name:
                    break
    return closed


def find_content(text: str, tags: Sequence[Tag], closed: Sequence[Sequence[int]]) -> bytearray:
    """Return for each tag whether the text between the tag and the next one is content of the page."""
    complete = {position for positions in closed for position in positions}
    mains = {n for n in complete if tags[n].name == "main" or tags[n].attributes.get("role") == "main"}
    articles = {n for n in complete if tags[n].name == "article"}
    for chosen in filter(None, (mains, articles)):
        visible = _visible(tags, closed, complete, mains | articles, chosen)
        if any(
            visible[n] and _WORD.search(text, tag.end, following.start)
            for n, (tag, following) in enumerate(pairwise(tags))
        ):
            return visible
    return _visible(tags, closed, complete, mains | articles, set())


def _visible(
    tags: Sequence[Tag],
    closed: Sequence[Sequence[int]],
    complete: set[int],
    content: set[int],
    chosen: set[int],
) -> bytearray:
    """Mark what is inside ``chosen`` (or anywhere, if it is empty) and not in an element that is left out."""
    visible = bytearray(len(tags))
    left_out: set[int] = set()
    depth = Counter[str]()
    for position, tag in enumerate(tags):
        for opened in closed[position]:
            depth["left out"] -= opened in left_out
            depth["content"] -= opened in content
            depth["chosen"] -= opened in chosen
        if position in complete:
            depth["content"] += position in content
            depth["chosen"] += position in chosen
            if _is_left_out(tag, inside=depth["content"] > 0):
                left_out.add(position)
                depth["left out"] += 1
        visible[position] = (not chosen or depth["chosen"] > 0) and not depth["left out"]
    return visible


def _is_left_out(tag: Tag, *, inside: bool) -> bool:
    return (
        tag.name in _NEVER_CONTENT
        or (tag.name in _OUTSIDE_CONTENT and not inside)
        or tag.attributes.get("role") in _NEVER_ROLES
        or not _NEVER_CLASSES.isdisjoint(tag.attributes.get("class", "").split())
    )


class _Page(SharedLines):
    """Collects the content of one page while its tags are read in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.line = 1
        self.counted = 0
        self.open: Counter[str] = Counter()
        self.parts: list[tuple[int, str]] = []
        self.level = 0
        self.bullet = ""
        self.ids: list[LinkTarget] = []
        self.link: tuple[str, int, int] | None = None

    def read(self) -> None:
        """Read the whole page."""
        tags = find_tags(self.text)
        closed = match_tags(tags)
        visible = find_content(self.text, tags, closed)
        ends = [*(tag.start for tag in tags[1:]), len(self.text)]
        titles = (
            self.text[tag.end : end] for tag, end in zip(tags, ends, strict=True) if tag.name == "title"
        )
        self.title = " ".join(_unescape(next(titles, "")).split()) or None
        for position, tag in enumerate(tags):
            self._count(tag.start)
            for opened in closed[position]:
                if visible[opened]:
                    self._close(tags[opened].name)
            if tag.name and not tag.is_end and visible[position]:
                self._open(tag)
            self._count(tag.end)
            if visible[position]:
                for number, raw in enumerate(
                    self.text[tag.end : ends[position]].split("\n"), start=self.line
                ):
                    self.parts.append((number, _unescape(raw)))
        self._flush()
        self.finish()

    def _count(self, offset: int) -> None:
        self.line += self.text.count("\n", self.counted, offset)
        self.counted = offset

    def _open(self, tag: Tag) -> None:
        name, attributes = tag.name, tag.attributes
        self._separate(name)
        self.open[name] += 1
        names = {attributes.get("id", ""), attributes.get("name", "") if name == "a" else ""} - {""}
        found = [LinkTarget(name=each, line=self.line) for each in sorted(names)]
        self.labels += found
        self.ids += found
        if name in _HEADINGS:
            self.level = _HEADINGS[name]
        elif name == "li":
            self.bullet = "- "
        elif name == "img":
            self.parts.append((self.line, f" {_unescape(attributes.get('alt', ''))} "))
        elif name in ("td", "th"):
            self.parts.append((self.line, _CELL))
        elif name == "a" and (target := _unescape(attributes.get("href", "")).strip()):
            self.link = (target, len(self.parts), self.line)

    def _close(self, name: str) -> None:
        if name == "a" and self.link:
            target, first, line = self.link
            self.link = None
            lines = groupby(self.parts[first:], key=lambda part: part[0])
            joined = "\n".join("".join(part for _, part in own) for _, own in lines)
            text = " ".join(joined.replace(_CELL, " ").split())
            if _PERMALINK.fullmatch(text) and not self.open["pre"]:
                del self.parts[first:]
            elif text and text != target and not self.level and not ABSOLUTE.match(target):
                self.references.append(Reference(role="link", text=text, target=target, line=line))
        self._separate(name)
        self.open[name] -= 1
        if name == "li":
            self.bullet = ""
        elif name in _HEADINGS:
            self.level = 0

    def _separate(self, name: str) -> None:
        """End the block before or after a tag. Only spaces separate the texts inside a table row."""
        if name not in _BLOCKS or (self.open["tr"] and name not in ("pre", "tr", *_HEADINGS)):
            if name not in WITHIN_WORDS:
                self.parts.append((self.line, " "))
        else:
            self._flush()

    def _flush(self) -> None:
        """Add the text since the last block as a heading or block."""
        lines: dict[int, str] = {}
        for number, part in self.parts:
            lines[number] = lines.get(number, "") + part
        self.parts = []
        kind: BlockKind = "prose"
        if self.open["pre"]:
            kind = "code"
            lines = {number: text.replace(_CELL, " ").rstrip() for number, text in lines.items()}
        else:
            kind = "table" if self.open["tr"] else "list" if self.open["li"] else "prose"
            lines = {number: _readable(text) for number, text in lines.items()}
        lines = {number: text for number, text in lines.items() if text}
        if not lines:
            return
        if self.link:
            self.link = (self.link[0], 0, self.link[2])
        first = min(lines)
        if self.level:
            labels = tuple(dict.fromkeys(label.name for label in self.ids))
            start = min((label.line for label in self.ids if label.line > self.owned), default=first)
            title = " ".join(lines.values())
            self.add("prose", lines, Heading(self.level, title, min(start, first), first, labels))
        else:
            lines[first] = self.bullet + lines[first]
            self.add(kind, lines)
        self.ids, self.level, self.bullet = [], 0, ""


def _readable(text: str) -> str:
    return " | ".join(filter(None, (" ".join(cell.split()) for cell in text.split(_CELL))))


def _unescape(text: str) -> str:
    if "&" not in text:
        return text
    try:
        return html.unescape(text).replace("\n", " ").replace("\r", " ")
    except ValueError:  # a character reference with thousands of digits
        return text


def read_html(source: str, lines: list[str]) -> Findings:
    """Read an HTML file. Malformed content raises no exception."""
    page = _Page("\n".join(lines).replace("\r", " "))
    page.read()
    return page


class _HtmlReader(Reader):
    readable = False

    def text(self, content: bytes) -> tuple[str, tuple[str, ...]]:
        """Decode a file with the encoding that it declares, unless it is valid UTF-8."""
        declared = _META.search(content, 0, 1024)
        name = declared[1].decode("ascii", "replace").lower() if declared else ""
        name = "windows-1252" if re.fullmatch(r"iso-?8859-?1|latin-?1", name) else name
        text, notes = decoded_always(content)
        if notes and _ENCODINGS.fullmatch(name):
            try:
                content.decode("utf-8")
            except UnicodeDecodeError:
                text = content.decode(name, "replace").replace("\0", " ")
                notes = (f"read as {name}, which the file declares",)
        return text, notes


READER = _HtmlReader(read_html)
