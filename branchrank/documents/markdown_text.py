"""Convert inline Markdown, HTML and JSX to readable text.

1. Component tags are removed from the raw text, except inside code spans. Line breaks inside a removed tag
   are kept, so that the lines of the readable text match the lines of the file.
2. markdown-it parses the text that remains after the removal of component tags. The readable text includes
   code, the text of links, and the descriptions of images. Emphasis marks and HTML tags are removed. A tag
   that separates words, such as ``<td>`` or ``<br>``, is replaced by a space. An attribute list (``{: #id
   .class }``) after an element or on a line of its own is removed, and its ids become labels.
3. A text longer than :data:`MAX_INLINE` characters is returned unchanged, because parsing a long text would
   take too much time.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from branchrank.documents.document import ABSOLUTE, LEAVES_OUT_FILES, Findings, LinkTarget, Reference
from branchrank.documents.lines import names_in
from branchrank.documents.markdown_syntax import COMPONENT_TAG, HTML_TAG, JSX_TAG, TagFinder, markdown_parser
from branchrank.documents.site_markup import with_plain_destinations

if TYPE_CHECKING:
    from markdown_it.token import Token

MAX_INLINE = 10_000

_SKIPPED = r"(?P<ticks>`+)|(?P<escape>\\.)"
_COMPONENT = re.compile(rf"{_SKIPPED}|(?P<tag><)")
_JSX = re.compile(rf"{_SKIPPED}|(?P<comment>\{{/\*)|(?P<space>\{{(?:' *'|\" *\")\}})|(?P<tag><)")
_HTML = re.compile(r"<(?P<special>!--|\?|!|(?:script|style)\b)|</?(?P<name>[a-z][\w:-]*+)", re.IGNORECASE)
_ANCHOR = re.compile(r"""\s(?:id|name)\s*=\s*(["']?)([^"'\s<>{}]+)\1""", re.IGNORECASE)
WITHIN_WORDS = names_in(
    "a abbr b bdi bdo big cite code del dfn em font i ins kbd mark q s samp small span strike strong sub "
    "sup tt u var wbr"
)
#: An attribute list of Python-Markdown, Kramdown or Pandoc, such as ``{: #id .class key="value" }``. At least
#: one attribute is more than a word, because ``{word}`` is usually text.
ATTRIBUTES = re.compile(
    r"""\{:?(?=[^{}]*(?:(?<=[\s{:])[#.]|=|\bdata-|-\}))[ \t]*+"""
    r"""(?:(?:[#.][^\s{}"'=]++|[\w:-]++=(?:"[^"{}]*+"|'[^'{}]*+'|[^\s{}"']++)|[\w-]++)"""
    r"""(?:[ \t]++|(?=\})))++\}"""
)
#: An attribute list after an icon, such as ``:material-clock:{ .lg }``.
_ICON_ATTRIBUTES = re.compile(rf"(?<=\w:){ATTRIBUTES.pattern}")
_ID_ATTRIBUTE = re.compile(r"(?<=[\s{:])#([^\s{}]+)|(?<=[\s{:])id=[\"']?([^\s{}\"']+)")
#: Tokens after which an attribute list can follow directly.
_WITH_ATTRIBUTES = frozenset(("code_inline", "em_close", "image", "link_close", "s_close", "strong_close"))
_ROLE = re.compile(r"\{([A-Za-z][\w:+.-]*)\}$")


def inline_text(content: str, line: int, env: dict[str, Any], mdx: bool, found: Findings) -> str:
    """Return the readable text of the inline Markdown ``content``, which starts at ``line``.

    The text has the line breaks of the raw Markdown. The references and labels in ``content`` are added to
    ``found``. ``env`` contains the link definitions in the file. A ``content`` with more than
    :data:`MAX_INLINE` characters is returned unchanged.
    """
    if len(content) > MAX_INLINE:
        return content
    content = with_plain_destinations(content)
    content = _without_components(content, mdx, line, found)
    tokens: list[Token] = []
    parser = markdown_parser(mdx)
    parser.inline.parse(content, parser, env, tokens)
    rendering = _Rendering(line, found)
    rendering.render(tokens)
    return "".join(rendering.parts)


def ids_of(attributes: str) -> list[str]:
    """Return the ids in an attribute list."""
    return [first or second for first, second in _ID_ATTRIBUTE.findall(attributes)]


def html_text(content: str) -> str:
    """Remove comments, scripts, styles and tags from an HTML block. Line breaks are kept."""
    lowered = content.lower()
    tags = TagFinder(content, HTML_TAG)
    parts: list[str] = []
    kept = position = 0
    while match := _HTML.search(content, position):
        start = match.start()
        if special := match["special"]:
            closing = {"!--": "-->", "?": "?>", "!": ">"}.get(special, f"</{special.lower()}>")
            end = lowered.find(closing, match.end())
            position = len(content) if end < 0 else end + len(closing)
        else:
            position = tags.end(start)
            if not position:
                position = start + 1
                continue
        parts.append(html.unescape(content[kept:start]))
        if match["name"]:
            parts.append("" if match["name"].lower() in WITHIN_WORDS else " ")
        parts.append("\n" * content.count("\n", start, position))
        kept = position
    parts.append(html.unescape(content[kept:]))
    text = "".join(parts)
    return text if "<pre" in content else "\n".join(" ".join(line.split()) for line in text.split("\n"))


def anchors(content: str, line: int) -> list[LinkTarget]:
    """Return a label for each ``id`` or ``name`` attribute in a block of HTML. ``line`` is its first line."""
    labels: list[LinkTarget] = []
    tags = TagFinder(content, HTML_TAG)
    counted = 0
    start = content.find("<")
    while start >= 0:
        end = tags.end(start)
        if end and (names := _ANCHOR.findall(content, start, end)):
            line += content.count("\n", counted, start)
            counted = start
            labels.extend(LinkTarget(name=name, line=line) for _, name in names)
        start = content.find("<", end or start + 1)
    return labels


def _without_components(text: str, mdx: bool, line: int, found: Findings) -> str:
    if "<" not in text and not (mdx and "{" in text):
        return text
    pattern = _JSX if mdx else _COMPONENT
    tags = TagFinder(text, JSX_TAG if mdx else COMPONENT_TAG)
    last_comment_end = text.rfind("*/}")
    runs: defaultdict[int, list[int]] = defaultdict(list)
    for run in re.finditer("`+", text):
        runs[len(run[0])].append(run.start())
    parts: list[str] = []
    kept = position = 0
    while match := pattern.search(text, position):
        start, position = match.span()
        if match["ticks"]:
            closing = runs[len(match["ticks"])]
            following = bisect_right(closing, start)
            if following < len(closing):
                position = closing[following] + len(match["ticks"])
            continue
        if match["escape"]:
            continue
        if match["tag"]:
            if not (end := tags.end(start)):
                continue
            position = end
            found.labels += anchors(text[start:end], line + text.count("\n", 0, start))
        elif match[0] == "{/*":
            if last_comment_end < position:
                continue
            position = text.index("*/}", position) + 3
        parts.append(text[kept:start])
        breaks = text.count("\n", start, position)
        parts.append("\n" * breaks if breaks or match["tag"] else " ")
        kept = position
    parts.append(text[kept:])
    return "".join(parts)


class _Rendering:
    """Converts inline tokens to readable text, and keeps track of the line number in the file."""

    def __init__(self, line: int, found: Findings) -> None:
        self.line = line
        self.parts: list[str] = []
        self.found = found

    def render(self, tokens: Sequence[Token]) -> None:
        links: list[tuple[str, int, int]] = []
        before = ""
        for number, token in enumerate(tokens):
            match token.type:
                case "text" if token.content.startswith("{"):
                    after = tokens[number + 1].type if number + 1 < len(tokens) else ""
                    self._add(self._without_attributes(token.content, before, after))
                case "text" if ":{" in token.content:
                    self._add(_ICON_ATTRIBUTES.sub("", token.content))
                case "text" | "text_special":
                    self._add(token.content)
                case "code_inline":
                    self._add_code(token.content)
                case "site_markup":
                    self._add(token.content)
                    if token.markup:
                        self.found.labels.append(LinkTarget(name=token.markup, line=self.line))
                    if token.info:
                        self.found.notes.append(LEAVES_OUT_FILES)
                case "softbreak" | "hardbreak":
                    self._add("\n")
                case "image":
                    self.render(token.children or ())
                case "link_open":
                    links.append((str(token.attrs.get("href", "")), len(self.parts), self.line))
                case "link_close":
                    target, first, line = links.pop()
                    self._refer("link", "".join(self.parts[first:]), target, line)
                case "html_inline":
                    self._add_html(token.content)
            before = token.type

    def _without_attributes(self, content: str, before: str, after: str) -> str:
        """Remove an attribute list directly after an element, and one that is the last line of a paragraph.

        An attribute list that starts with ``{:`` can also be another line of its own.
        """
        match = ATTRIBUTES.match(content)
        is_end = not after or (after == "softbreak" and content.startswith("{:"))
        is_line = before in ("", "softbreak") and is_end
        if not match or not (before in _WITH_ATTRIBUTES or (is_line and not content[match.end() :].strip())):
            return content
        self.found.labels += (LinkTarget(name=name, line=self.line) for name in ids_of(match[0]))
        return content[match.end() :]

    def _add(self, text: str) -> None:
        self.parts.append(text)
        self.line += text.count("\n")

    def _add_code(self, content: str) -> None:
        """Add the text of a code span or, if the code span follows a ``{role}``, the text of the role."""
        role = _ROLE.search(self.parts[-1]) if self.parts else None
        if role is None:
            self._add(content)
            return
        self.parts[-1] = self.parts[-1][: role.start()]
        line = self.line
        title, _, target = content[:-1].rpartition("<") if content.endswith(">") else ("", "", "")
        if not title or not target or ">" in target:
            self._add(content)
            return
        title = title.rstrip() or title[0]
        self._add(title)
        if role[1] in ("ref", "doc"):
            self._refer("ref" if role[1] == "ref" else "doc", title, target, line)

    def _add_html(self, content: str) -> None:
        self.found.labels.extend(anchors(content, self.line))
        tag = HTML_TAG.match(content) if TagFinder(content, HTML_TAG).end(0) else None
        breaks = "\n" * content.count("\n")
        self._add(breaks or ("" if tag is None or tag[1].lower() in WITHIN_WORDS else " "))

    def _refer(self, role: Any, text: str, target: str, line: int) -> None:
        text = " ".join(text.split())
        target = re.sub("^(?:path|project):", "", target)  # MyST
        if text and target and text != target and not (role == "link" and ABSOLUTE.match(target)):
            self.found.references.append(Reference(role=role, text=text, target=target, line=line))
