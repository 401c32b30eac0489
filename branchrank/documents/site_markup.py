"""Find what site generators add to Markdown: front matter, shortcodes, tags, commands and includes.

1. Shortcodes of Hugo (``{{< tab >}}``, ``{{% tab %}}``), tags of Liquid (``{% tab %}``), commands of mdBook
   (``{{#title Name}}``) and blocks of DocFX (``:::image source="..." alt-text="..." :::``) are removed. Lines
   that contain nothing else become a token of the type ``marker``, and others a token ``site_markup``, whose
   content is the text to keep, such as the description of an image.
2. What a pair of shortcodes encloses is parsed as Markdown. It is code in ``highlight``, and left out in
   ``comment``.
3. A token for the inclusion of another file has the info ``include``.

Each search stops at the next brace or at the end of the line, so that it takes linear time.

The front matter of a page is YAML between ``---`` lines or TOML between ``+++`` lines. Only the keys
``title`` and ``description`` at the top level are parsed, each on its own, by PyYAML and tomllib. Therefore a
mistake in another key has no effect, and the time is limited. A value that is not valid, such as ``Rust: an
overview``, is used as it is written.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline

_MARKUP = (
    r"(?:\{\{<(?!/\*)[^{}]*+(?<=>)\}\}|\{\{%(?!/\*)[^{}]*+(?<=%)\}\}"
    r"|\{\{-?\s*+/\*[^{}]*+\}\}|\{%[^{}]*+(?<=%)\}|\{\{#(?:title|quiz|playground|(?:rustdoc_)?include)\s[^{}]*+\}\}"
    r"|\[!(?:include|code(?:-[\w-]+)?)[ \t]*\[[^\[\]\n]*+\]\([^()\n]*+\)\]"
    r"|\[!(?:uicontrol|dnl)[ \t][^\[\]\n]*+\]"
    r"|\$\$\$(?P<id>[A-Za-z_]\w+-[\w.-]+)\$\$\$"
    r"|:::[\w-]+(?:[ \t]+[\w-]+=\"[^\"\n]*+\")*+[ \t]*:::)"
)
_INLINE = re.compile(_MARKUP, re.IGNORECASE)
#: An inclusion of mdBook or of the snippets of pymdownx, which can also be in code.
_INCLUDE_LINE = r"[ \t]*+(?:\{\{#(?:playground|(?:rustdoc_)?include)\s[^{}\n]*+\}\}|-+8<-+[ \t]+[\"'][^\n]*)"
_IN_CODE = re.compile(_INCLUDE_LINE)
_BLOCK = re.compile(
    rf"(?:(?:{_MARKUP}[ \t]*+)++|{_INCLUDE_LINE}|<<<[ \t][^\n]*|<!--[ \t]*@include:[^\n]*-->[ \t]*)(?=\n|\Z)",
    re.IGNORECASE,
)
_STARTS = ("{{", "{%", "[!", "-", "<<<", "<!--")
_INCLUDING = re.compile(
    r"\[!(?:include|code)|:::code|<<<|<!--|-|\{[{%<#-]+\s*"
    r"(?:include|rustdoc_include|readfile|playground|codenew|code_sample|data reusables)",
    re.IGNORECASE,
)
_KEPT = re.compile(
    r"""(?<=\salt-text=")[^"]+|(?<=\stext=")[^"]+|(?<=\[!uicontrol\s)[^\]]+|(?<=\[!dnl\s)[^\]]+""",
    re.IGNORECASE,
)
_VERBATIM = re.compile(r"\{[{%<-]+\s*(highlight|codeblock|comment)\b")
_MAX_VERBATIM = 2**15
_DESTINATION = re.compile(
    r"""(?<=\]\()(?:\{\{[^{}]*\}\}(?=[{/]))?(?:\{%-?\s*link\s+([^\s{}]+)\s*-?%\}"""
    r"""|\{\{[<%]?\s*(?:(?:rel)?ref\s+)?(?:path=)?["'`]?([^\s{}"'`|>]*)[^{}]*\}\}|(?=/))"""
)


def add_site_markup(parser: MarkdownIt) -> None:
    """Let a parser find the markup of site generators."""
    alternatives = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    parser.block.ruler.before("fence", "site_markup", _block, alternatives)  # type: ignore[arg-type]
    parser.inline.ruler.before("link", "site_markup", _inline)


def with_plain_destinations(content: str) -> str:
    """Replace the shortcodes in the destinations of links by the paths in them."""
    return (
        _DESTINATION.sub(lambda link: f"/{link[1]}" if link[1] else link[2] or "", content)
        if "]({" in content
        else content
    )


def without_included_files(lines: list[str]) -> list[str]:
    """Return lines of code with empty lines instead of inclusions."""
    return ["" if _IN_CODE.fullmatch(line) else line for line in lines]


def text_of(markup: str) -> str:
    """Return the text to keep of markup, such as the description of an image."""
    return found[0] if (found := _KEPT.search(markup)) else ""


def push_marker(state: StateBlock, start: int, end: int, kind: str, content: str = "") -> None:
    """Add a marker token for the lines from ``start`` to before ``end``."""
    state.line = end
    token = state.push("marker", "", 0)
    token.map, token.info, token.content = [start, end], kind, content


def _inline(state: StateInline, silent: bool) -> bool:
    match = _INLINE.match(state.src, state.pos) if state.src[state.pos] in "{[:$" else None
    if match is None:
        return False
    if not silent:
        token = state.push("site_markup", "", 0)
        token.content = text_of(match[0]) + "\n" * match[0].count("\n")
        token.info = "include" if _INCLUDING.match(match[0]) else ""
        token.markup = match["id"] or ""
    state.pos = match.end()
    return True


def _block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse lines that contain only markup, and the lines that a ``highlight`` or ``comment`` encloses."""
    position = state.bMarks[start] + state.tShift[start]
    if not state.src.startswith(_STARTS, position) or state.is_code_block(start):
        return False
    match = _BLOCK.match(state.src, position)
    after = bisect_left(state.eMarks, match.end()) + 1 if match else end + 1
    if match is None or after > end:
        return False
    if not silent:
        kind = "include" if _INCLUDING.match(match[0]) else "title"
        push_marker(state, start, after, kind, text_of(match[0]))
        if name := _VERBATIM.match(match[0]):
            before = r"\{\{[<%]\s*/\s*" if match[0].startswith("{{") else r"\{%-?\s*end"
            closing = re.compile(before + name[1])
            found = closing.search(state.src, match.end(), match.end() + _MAX_VERBATIM)
            last = bisect_left(state.eMarks, found.start() if found else -1)
            if after <= last < end:
                code = state.getLines(after, last, state.blkIndent, True)
                token = state.push("code_block", "", 0)
                token.map, token.content = [after, last], "" if name[1] == "comment" else code
                push_marker(state, last, last + 1, "title")
    return True


_ENDS = {"---": ("---", "..."), "+++": ("+++",)}
_KEY = re.compile(r"""(["']?)(title|description)\1\s*+([:=])""")
_MULTILINE_TOML = re.compile(r"""\s*("{3}|'{3})(?!.*\1)""")
_BLOCK_SCALAR = re.compile(r"[|>][-+0-9]*(?:\s+#.*)?")
_QUOTED = re.compile(r"""("{3}|'{3}|["'])(.*?)(?:\1)?""", re.DOTALL)
_NULL = ("", "~", "null", "Null", "NULL")
_MAX_VALUE = 2**14
_MAX_BRACKETS = 32


#: The events that PyYAML finds in a mapping from one scalar to another.
_EVENTS_OF_A_SCALAR = 8


class FrontMatter(NamedTuple):
    """The number of lines of the front matter, its title, and the lines of its description.

    ``first_line`` is the number of the description's first line.
    """

    line_count: int = 0
    title: str = ""
    description: Sequence[str] = ()
    first_line: int = 0


def front_matter(lines: Sequence[str]) -> FrontMatter:
    """Read the front matter at the start of a file. If it is never closed, there is none."""
    ends = _ENDS.get(lines[0].rstrip(), ())
    last = next((number for number, line in enumerate(lines) if number and line.rstrip() in ends), 0)
    if not last:
        return FrontMatter()
    found = FrontMatter(last + 1)
    known = set()
    for number in range(1, last):
        if ends == _ENDS["+++"] and lines[number].startswith("["):
            break  # the keys of a table are not at the top level
        if (key := _KEY.match(lines[number])) and key[2] not in known:
            known.add(key[2])
            text, written = _value(lines[number : _end_of_value(lines, number, last, key)], key)
            if key[2] == "title":
                found = found._replace(title=" ".join(text.split()))
            else:
                found = found._replace(description=written, first_line=number + 1)
    return found


def _end_of_value(lines: Sequence[str], number: int, last: int, key: re.Match[str]) -> int:
    """Return the number of the line after the value that starts in the line ``number``."""
    if key[3] == "=":
        quotes = _MULTILINE_TOML.match(lines[number], key.end())
        return 1 + next((n for n in range(number + 1, last) if quotes and quotes[1] in lines[n]), number)
    end = number + 1
    while end < last and (not lines[end].strip() or lines[end][0].isspace()):
        end += 1
    return end


def _value(lines: Sequence[str], key: re.Match[str]) -> tuple[str, Sequence[str]]:
    """Return the text of a value, and its lines as they are written, without quotes."""
    written = [lines[0][key.end() :].strip(), *(line.strip() for line in lines[1:])]
    text = _parsed("\n".join(lines), toml=key[3] == "=")
    if text is None:
        text = "\n".join(written)
    elif not text or not any(written[1:]):
        written = [" ".join(text.split())]
    elif _BLOCK_SCALAR.fullmatch(written[0]):
        written[0] = ""
    elif quoted := _QUOTED.fullmatch("\n".join(written).strip()):
        written = quoted[2].split("\n")
    return text, written


def _parsed(value: str, *, toml: bool) -> str | None:
    """Return the text of a key's value, or ``None`` if it is not valid. A list has no text."""
    import yaml

    if len(value) > _MAX_VALUE or sum(map(value.count, "[{")) > _MAX_BRACKETS:
        return None
    try:
        if toml:
            text = next(iter(tomllib.loads(value).values()))
            return text if isinstance(text, str) else ""
        events = list(yaml.parse(value, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    if not isinstance(events[2], yaml.MappingStartEvent):
        return None
    scalar = events[4] if len(events) == _EVENTS_OF_A_SCALAR else None
    if not isinstance(scalar, yaml.ScalarEvent) or (not scalar.style and scalar.value in _NULL):
        return ""
    return str(scalar.value)
