"""A Markdown parser for CommonMark and the extensions that most documentation generators support.

1. Tables, strikethrough and footnotes are parsed by markdown-it and its plugins.
2. A ``:::`` line, which opens or closes an admonition or directive, becomes one token of the type ``marker``.
   A ``(label)=`` line also becomes a marker token. The text between two ``:::`` lines is parsed as Markdown.
   The same holds for the ``///`` lines of pymdownx. An admonition (``!!! note``, ``??? note``) or content tab
   (``=== "Label"``) contains the lines after it that are indented by four spaces, and its title is a marker.
3. In MDX, indented code and HTML blocks are turned off, so the text inside a component is parsed as Markdown.
   ``import`` and ``export`` statements, ``{/* comments */}`` and HTML comments become marker tokens. In plain
   Markdown, only component tags (``<CamelCase>``) are parsed as in MDX. Lines that contain only component
   tags become a marker token.
4. Line breaks in a code span are kept, so that the lines of the text match the lines of the file.

HTML and JSX tags are found in linear time, even if many tags are never closed.

A tag starts with ``<`` and a name (such as ``<div``) and ends with ``>``. Between the name and the ``>``, a
tag can contain quoted strings and any characters except ``<`` and ``>``. A JSX tag can also contain
``{expressions}`` with up to three levels of braces. A regular expression would start again at each ``<``, and
could search to the end of the text each time. When a search reaches a string or expression that an earlier
search has already passed, :class:`TagFinder` reuses the result of the earlier search, so no part of the text
is searched more than twice.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import cache, partial
from typing import TYPE_CHECKING

from branchrank.documents.site_markup import add_site_markup, push_marker, text_of

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.ruler import RuleOptionsType
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline

MAX_NESTING = 50

_COLON_FENCE = re.compile(
    r":{3,}[ \t]*(?P<directive>\{[\w:.-]+\})?(?P<attributes>\{[^{}]*\})?(?P<name>[\w-]+)?[ \t]*(?P<title>.*)"
)
_DOCFX_BLOCK = re.compile(r"""(?:[\w-]+="[^"]*"[ \t]*)*(?::::)?""")
_SLASH_FENCE = re.compile(r"/{3,}(?:[ \t]+(?P<name>[\w-]+)[ \t]*(?:\|(?P<title>.*))?)?")
_SLASH_OPTION = re.compile(r"[\w-]+:(?:[ \t].*)?")
_INDENTED = re.compile(
    r"""(?:!!!|\?{3}\+?|={3}[+!]*(?=[ \t]+".*"[ \t]*$))[ \t]*(?P<type>[\w-]*)"""
    r"""(?:[ \t]+(?:inline|end)(?![\w-]))*(?P<title>.*)"""
)
_INDENT = 4
_OPTION = re.compile(r"[ \t]*:[\w-]+:(?:[ \t].*)?")
_TARGET = re.compile(r"\((?P<label>[^()\s](?:[^()]*[^()\s])?)\)=[ \t]*")
_ESM = re.compile(
    r"import\s*(?:['\"{*]|[\w$]+\s*(?:,|from\s))|export\s+(?:default|const|let|var|function|async|class)\b"
    r"|export\s*[{*]"
)
_COMPONENT = re.compile(r"</?[A-Z][\w.]*[a-z]")
#: A code fence, a line that only MDX has (an ESM line, an id or comment in braces, a closing component tag,
#: or a tag with an expression), or a line of a Vue page, whose components look the same.
_SIGN = re.compile(
    r"""^(?:[ \t>]*(?P<fence>`{3,}(?=[^`\n]*$)|~{3,})[^\n]*"""
    r"""(?:\n(?![ \t>]*(?P=fence)[`~]*[ \t]*$)[^\n]*)*+(?:\n[^\n]*)?"""
    r"""|(?P<vue><(?:(?:script|style|template)\b|[A-Za-z][^\n]*[ \t](?:[:@#]|v-)[\w:.-]+=))"""
    r"""|(?P<mdx>(?<![^\n;'"}-]\n)(?:import[ \t]++(?:[\w$*{},\t ]+[ \t]from[ \t]+)?"""
    r"""(?:'[^'\n]+'|"[^"\n]+");?[ \t]*$"""
    r"""|import[ \t]*\{[^}\n]*$"""
    r"""|export[ \t]+(?:(?:const|let|var)[ \t]+[\w$]+[ \t]*=|(?:default[ \t]+)?(?:async|function|class)\b"""
    r"""|default[ \t]+[({]|[{*][ \t]))"""
    r"""|\{/\*|#{1,6}[ \t][^\n]*\*/\}[ \t]*$|</[A-Z](?=[\w.]*[a-z])[\w.]*+>[ \t]*$"""
    r"""|<[A-Za-z][^\n]*[ \t](?:className=|[\w-]+=\{)))""",
    re.MULTILINE,
)
_ESM_LINES = 100
_COLUMN_LINES = 200
_WITH_ID = re.compile(r"\s(?:id|name)\s*=", re.IGNORECASE)
_REST_OF_LINE = re.compile(r"[^\S\n]*+(?:\n|\Z)")


@cache
def markdown_parser(mdx: bool) -> MarkdownIt:
    """Return a markdown-it parser for MDX if ``mdx`` is true, otherwise for Markdown."""
    from markdown_it import MarkdownIt
    from markdown_it.rules_block.html_block import html_block
    from markdown_it.rules_inline.backticks import backtick
    from mdit_py_plugins.footnote import footnote_plugin

    def markdown_html(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        return not _COMPONENT.match(_line(state, start)) and html_block(state, start, end, silent)

    def code_span(state: StateInline, silent: bool) -> bool:
        start, count = state.pos, len(state.tokens)
        matched = backtick(state, silent)
        if matched and len(state.tokens) > count and state.tokens[-1].type == "code_inline":
            width = len(state.tokens[-1].markup)
            content = state.src[start + width : state.pos - width]
            if "\n" in content:
                state.tokens[-1].content = content.strip(" ")
        return matched

    parser = MarkdownIt("commonmark", {"maxNesting": MAX_NESTING, "inline_definitions": True})
    parser.enable(["table", "strikethrough"])
    footnote_plugin(parser, inline=False, move_to_end=False)
    interrupts: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    parser.block.ruler.before("fence", "colon_fence", _colon_fence, interrupts)
    parser.block.ruler.before("fence", "slash_fence", _slash_fence, interrupts)
    parser.block.ruler.before("fence", "indented", _indented, interrupts)
    parser.block.ruler.before("fence", "target", _target, interrupts)
    add_site_markup(parser)
    tag = JSX_TAG if mdx else COMPONENT_TAG
    parser.block.ruler.before("fence", "component", partial(_component, tag), interrupts)
    parser.inline.ruler.at("backticks", code_span)
    if mdx:
        parser.disable(["html_block", "code"])
        parser.block.ruler.before("fence", "esm", _esm)
        parser.block.ruler.before("fence", "comment", _comment)
    else:
        html_alternatives: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote"]}
        parser.block.ruler.at("html_block", markdown_html, html_alternatives)
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    parser.normalizeLink = lambda url: url  # type: ignore[method-assign]
    return parser


def looks_like_mdx(text: str) -> bool:
    """Return whether Markdown has lines that only MDX has, outside code fences, and is not a Vue page."""
    signs = [sign for sign in _SIGN.finditer(text) if not sign["fence"]]
    return any(sign["mdx"] for sign in signs) and not any(sign["vue"] for sign in signs)


def _line(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]


def _colon_fence(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse an opening line such as ``:::note Title`` with the option lines after it, or a closing ``:::``.

    The content of the marker token is the title of the admonition or, for a toctree, the toctree's entries.
    """
    line = _line(state, start)
    if not line.startswith(":::") or state.is_code_block(start):
        return False
    if silent:
        return True
    match = _COLON_FENCE.fullmatch(line)
    assert match is not None
    after = start + 1
    if match["directive"]:
        while after < end and _OPTION.fullmatch(_line(state, after)):
            after += 1
    if match["directive"] == "{toctree}":
        first = after
        while after < end and not _line(state, after).startswith(":::"):
            after += 1
        entries = "\n".join(_line(state, number) for number in range(first, after))
        push_marker(state, start, after, "toctree", entries)
        return True
    title = re.sub(r"\{[^{}]*\}\s*$", "", match["title"]).strip()
    if _DOCFX_BLOCK.fullmatch(title):
        title = text_of(f" {title}")
    if title.startswith("[") and title.endswith("]"):
        title = title[1:-1]
    title = "" if match["directive"] in ("{figure}", "{image}") else title
    including = match["name"] == "code" or match["directive"] in ("{include}", "{literalinclude}")
    push_marker(state, start, after, "include" if including else "title", title)
    if match["name"] == "column":
        lines = range(after, min(end, after + _COLUMN_LINES))
        last = next((n for n in lines if _line(state, n).startswith(":::column-end")), after)
        indents = [state.sCount[number] for number in range(after, last) if not state.isEmpty(number)]
        if indents:
            _parse_within(state, last, max(min(indents), state.blkIndent), "tab")
    return True


def _parse_within(state: StateBlock, after: int, indent: int, kind: str) -> None:
    """Parse the lines to before the line ``after``, which are indented by ``indent``, as a container."""
    before = state.parentType, state.lineMax, state.blkIndent
    state.parentType, state.lineMax, state.blkIndent = "root", after, indent
    state.push(f"{kind}_open", "", 1)
    state.md.block.tokenize(state, state.line, after)
    state.push(f"{kind}_close", "", -1)
    state.parentType, state.lineMax, state.blkIndent = before
    state.line = after


def _slash_fence(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse an opening line such as ``/// note | Title`` with its indented options, or a closing ``///``."""
    line = _line(state, start)
    match = _SLASH_FENCE.fullmatch(line) if line.startswith("///") else None
    if match is None or state.is_code_block(start):
        return False
    if not silent:
        after = start + 1
        options = state.blkIndent + _INDENT
        while match["name"] and after < end and state.sCount[after] >= options:
            if not _SLASH_OPTION.fullmatch(_line(state, after)):
                break
            after += 1
        title = "" if match["name"] == "html" else (match["title"] or "").strip()
        push_marker(state, start, after, "title", title)
    return True


def _indented(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse an admonition or content tab. The content of its marker token is its title."""
    line = _line(state, start)
    match = _INDENTED.fullmatch(line) if line.startswith(("!!!", "???", "===")) else None
    title = match["title"].strip() if match else ""
    if match is None or not (match["type"] or title) or state.is_code_block(start):
        return False
    after, indent = start + 1, state.blkIndent + _INDENT
    while after < end and (state.isEmpty(after) or state.sCount[after] >= indent):
        after += 1
    if title and '"' not in title and all(map(state.isEmpty, range(start + 1, after))):
        return False
    if silent:
        return True
    if len(title.split('"')) > 2 and title.endswith('"'):
        title = title.partition('"')[2][:-1]
    elif not re.search(r"[^\w -]", title):  # other words are classes
        title = match["type"].title()
    kind = "tab" if line.startswith("=") else "admonition"
    push_marker(state, start, start + 1, "title", title)
    _parse_within(state, after, indent, kind)
    return True


def _target(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse a ``(label)=`` line. The content of the marker token is the label."""
    match = _TARGET.fullmatch(_line(state, start))
    if match is None or state.is_code_block(start):
        return False
    if not silent:
        push_marker(state, start, start + 1, "target", match["label"])
    return True


def _component(tag: re.Pattern[str], state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse component tags that have no text after them on their last line.

    A tag on a single line interrupts a paragraph only in MDX. A line with an id is left to the inline parser.
    """
    position = state.bMarks[start] + state.tShift[start]
    if not state.src.startswith("<", position) or state.is_code_block(start):
        return False
    finders: dict[str, TagFinder] = state.env.setdefault("tag finders", {})
    finder = finders.get(state.src) or finders.setdefault(state.src, TagFinder(state.src, tag))
    after = finder.end(position)
    last = bisect_left(state.eMarks, after)
    if not after or last >= end:
        return False
    if last == start and ((silent and tag is COMPONENT_TAG) or _WITH_ID.search(_line(state, start))):
        return False
    while (following := finder.end(after)) and following <= state.eMarks[last]:
        after = following
    if not _REST_OF_LINE.match(state.src, after):
        return False
    if not silent:
        push_marker(state, start, last + 1, "component")
    return True


def _esm(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse an ``import`` or ``export`` statement, which ends at the first blank line outside brackets."""
    if state.level or state.sCount[start] or not _ESM.match(_line(state, start)):
        return False
    depth, after, first_blank = 0, start, None
    while after < min(end, start + _ESM_LINES):
        line = _line(state, after)
        if not line.strip():
            first_blank = first_blank or after
            if depth <= 0:
                break
        depth += sum(line.count(bracket) for bracket in "{([") - sum(line.count(bracket) for bracket in "})]")
        after += 1
    push_marker(state, start, first_blank if depth > 0 and first_blank else after, "esm")
    return True


def _comment(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse an MDX or HTML comment that starts a line and has no text after it on its last line."""
    opening = _line(state, start)[:4]
    closing = "-->" if opening == "<!--" else "*/}" if opening.startswith("{/*") else ""
    if not closing or silent:
        return False
    position = state.bMarks[start]
    found: dict[tuple[str, str], tuple[int, bool]] = state.env.setdefault("comment ends", {})
    close, alone = found.get((closing, state.src), (0, False))
    if 0 <= close < position or (closing, state.src) not in found:
        # Store the position of the closing marker, because one search per comment would take quadratic time.
        close = state.src.find(closing, position)
        alone = close >= 0 and _REST_OF_LINE.match(state.src, close + 3) is not None
        found[closing, state.src] = close, alone
    last = bisect_left(state.eMarks, close)
    if not alone or last >= end:
        return False
    push_marker(state, start, last + 1, "comment")
    return True


_HTML_RUN = re.compile(r"""[^"'<>]*+""")
_JSX_RUN = re.compile(r"""[^"'{}<>]*+""")
_BRACE = re.compile(r"[{}]")
_EXPRESSION_DEPTH = 3

#: Match the start of HTML tags (``<div``, not ``<id,text>>``), component tags (``<CamelCase``) and MDX tags
#: (not ``<a@b.c>``).
HTML_TAG = re.compile(r"</?([A-Za-z][\w:-]*+)(?=[\s/>])")
COMPONENT_TAG = re.compile(r"</?[A-Z](?:(?![a-z])[\w.])*+[a-z][\w.]*+(?=[\s/>])")
JSX_TAG = re.compile(r"</?(?:(?=>)|(?![a-z]+://)(?![^\s<>]+@)[A-Za-z_$][\w.$:-]*+(?=[\s/>]))")


class TagFinder:
    """Finds the tags in ``text``. Tags can contain JSX expressions unless ``opening`` is ``HTML_TAG``."""

    def __init__(self, text: str, opening: re.Pattern[str]) -> None:
        self.text = text
        self._opening = opening
        self._expressions = opening is not HTML_TAG
        self._run = _JSX_RUN if self._expressions else _HTML_RUN
        self._last_quote = {quote: text.rfind(quote) for quote in "\"'"}
        #: Maps positions inside a tag to the end of the tag, or to 0 if the tag is never closed.
        self._ends: dict[int, int] = {}
        self._closing: dict[int, int] | None = None

    def end(self, position: int) -> int:
        """Return the position after the tag that begins at ``position``, or 0 if there is no tag."""
        opening = self._opening.match(self.text, position)
        if opening is None:
            return 0
        position = opening.end()
        if opening[0] in ("<", "</"):  # a fragment of MDX
            return position + 1
        passed: list[int] = []
        end = self._ends.get(position)
        while end is None:
            passed.append(position)
            position, closed = self._pass(position)
            end = position if closed else self._ends.get(position)
        self._ends.update(dict.fromkeys(passed, end))
        return end

    def _pass(self, position: int) -> tuple[int, bool]:
        """Move from a position in a tag past the next string, expression or ``>``, whichever comes first.

        Return the new position, and whether the tag ends at the new position. If the tag is never closed, the
        returned position is 0.
        """
        run = self._run.match(self.text, position)
        at = run.end() if run else position
        match self.text[at : at + 1]:
            case ">":
                return at + 1, True
            case ("'" | '"') as quote if at < self._last_quote[quote]:
                return self.text.index(quote, at + 1) + 1, False
            case "{" if at in (closing := self._expression_ends()):
                return closing[at] + 1, False
        return 0, True

    def _expression_ends(self) -> dict[int, int]:
        """Map opening braces to closing braces. Expressions with too many levels of braces are omitted."""
        if self._closing is None:
            self._closing = {}
            opened: list[list[int]] = []  # the position of each open brace, and its number of levels
            for brace in _BRACE.finditer(self.text):
                if brace[0] == "{":
                    opened.append([brace.start(), 1])
                elif opened:
                    start, height = opened.pop()
                    if height <= _EXPRESSION_DEPTH:
                        self._closing[start] = brace.start()
                    if opened:
                        opened[-1][1] = max(opened[-1][1], height + 1)
        return self._closing
