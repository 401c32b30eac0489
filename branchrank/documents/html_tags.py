"""Find the tags of an HTML file, and the part of the page that is its content, in the raw text.

1. The tags are found in one pass over the text. Comments, declarations, scripts and styles are skipped.
2. An end tag closes the nearest open element with its name, and all elements inside that element. An element
   that is never closed ends with the file.
3. The content of a page is its ``main`` element (or the elements with the role ``main``). A page without
   text in one has its ``article`` elements as content, and a page without text in articles its whole text.
4. Navigation, page footers, scripts and controls inside the content are left out. A page header and an
   ``aside`` are left out only if they are not part of a ``main`` or ``article`` element, because titles and
   notes are often inside such elements. An element that is never closed is not left out.

No parser that builds a tree is used. Such parsers (lxml, selectolax) have no line numbers for text, and move
the text of malformed tables before the table. The standard library's tokenizer takes quadratic time in older
patch versions of Python and finds different tags in newer ones, so an index would depend on the version.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from branchrank.documents.markdown_syntax import HTML_TAG, TagFinder

_MARKUP = re.compile(r"<(?:(?P<special>!--|!\[CDATA\[|[!?])|/?(?P<name>[a-z][\w:-]*+))", re.IGNORECASE)
_SPECIAL_ENDS = {"!--": "-->", "![CDATA[": "]]>", "!": ">", "?": ">"}
_RAW_ENDS = {name: re.compile(rf"</{name}\b", re.IGNORECASE) for name in ("script", "style", "textarea")}
_ATTRIBUTE = re.compile(r"""([^\s"'<>/=]++)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'=<>`]++)))?""")
_VOID = frozenset(re.findall(r"\w+", "area base br col embed hr img input link meta param source track wbr"))
_NEVER_CONTENT = frozenset(
    re.findall(
        r"\w+",
        "audio button canvas dialog footer iframe math nav noscript object select svg template title video",
    )
)
_OUTSIDE_CONTENT = frozenset(("aside", "header"))
_NEVER_ROLES = frozenset(("banner", "contentinfo", "navigation", "search"))
#: Classes of navigation, of permanent links and of line numbers beside code, as generators write them.
_NEVER_CLASSES = frozenset(
    re.findall(
        r"[\w-]+",
        "breadcrumb breadcrumbs footer gutter hash-link headerlink lineno linenodiv linenos navbar "
        "navigation pagination toc",
    )
)
_WORD = re.compile(r"\w")


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
