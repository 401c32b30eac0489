"""Finds the prose of raw files, sharing no code with the readers.

It looks at lines and characters only and knows as little as it can: what is certainly markup (directive
heads, options, targets, comments, URLs, tags, front matter) is blanked out, what is left are words, each
with its line. Then every word has to be in exactly one chunk, and in one that covers its line.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from branchrank.core.records import Chunk

_WORD = re.compile(r"[^\W_]+")


class Word(NamedTuple):
    """A word of prose or code, and its line (from 1)."""

    text: str
    line: int


def raw_lines(content: bytes) -> list[str]:
    """Lines as grep counts them."""
    content = content.removeprefix(b"\xef\xbb\xbf")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    return [line.removesuffix("\r") for line in text.replace("\0", " ").split("\n")]


def line_count(content: bytes) -> int:
    """Lines as ``wc -l`` counts them, and one more for a last line without an end; at least one."""
    content = content.removeprefix(b"\xef\xbb\xbf")
    return max(1, content.count(b"\n") + (not content.endswith(b"\n")))


def prose_words(source: str, content: bytes) -> list[Word]:
    """Words that a person reads in the file, in order."""
    lines = raw_lines(content)
    if source.lower().endswith((".md", ".mdx")):
        return list(_markdown_words(lines, mdx=source.lower().endswith(".mdx")))
    if source.lower().endswith(".adoc"):  # only the words that tests put in places where a person reads them
        return [word for word in _located("\n".join(lines), 1) if re.fullmatch(r"word\d+", word.text)]
    if source.lower().endswith(".html"):
        hidden = re.sub(
            r"(?s)<!--.*?-->|<(script|style|nav|title)\b.*?</\1>|<[^<>]*>|&\w+;", _blanked, "\n".join(lines)
        )
        return list(_located(hidden, 1))
    return list(_rst_words(lines))


def misplaced(source: str, content: bytes, chunks: Sequence[Chunk]) -> list[str]:
    """Words that are in no chunk of their line or in more than one, as ``source:line:word: what``.

    ``chunks`` are all chunks of the file, made without an overlap.
    """
    problems: list[str] = []
    counts = {chunk.id: Counter(_words_in(chunk.text)) for chunk in chunks}
    texts = {chunk.id: chunk.text for chunk in chunks}
    covering: defaultdict[int, list[str]] = defaultdict(list)
    for chunk in chunks:
        for line in range(chunk.line_start, chunk.line_end + 1):
            covering[line].append(chunk.id)
    places: defaultdict[tuple[str, ...], defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for word in prose_words(source, content):
        places[tuple(covering[word.line])][word.text].append(word.line)
    for identifiers, words in places.items():
        for word, lines in words.items():
            found = sum(counts[identifier][word] for identifier in identifiers)
            if found < len(lines):
                found = sum(texts[identifier].count(word) for identifier in identifiers)
            if found < len(lines):
                problems.append(
                    f"{source}:{lines[0]}:{word}: {len(lines)} in the file, {found} in its chunks"
                )
    in_file: Counter[str] = Counter()
    for line in raw_lines(content):  # a word may be written in parts: `Link`s
        plain, joined = Counter(_words_in(line)), Counter(_words_in(re.sub(r"[`*_\\]", "", line)))
        in_file.update(plain | joined)
    in_chunks: Counter[str] = Counter()
    for count in counts.values():
        in_chunks.update(count)
    for word, number in in_chunks.items():
        if 0 < in_file[word] < number and word not in _VERSION_PHRASES:
            problems.append(f"{source}:0:{word}: {in_file[word]} in the file, {number} in all chunks")
    return problems


def _blanked(match: re.Match[str]) -> str:
    return " " + "\n" * match[0].count("\n")


def _words_in(text: str) -> list[str]:
    return _WORD.findall(text)


def _located(text: str, line: int) -> Iterator[Word]:
    for offset, each in enumerate(text.split("\n")):
        for word in _words_in(each):
            yield Word(word, line + offset)


# -- reStructuredText

#: A reader may say in words what a version directive means.
_VERSION_PHRASES = frozenset(["New", "in", "version", "Changed", "Removed", "Deprecated", "since"])
_EXPLICIT = re.compile(r"(\s*(?:(?:[-*+•]|#\.|\d+\.)\s+)*)\.\.(?:\s+(.*))?$")
_DIRECTIVE = re.compile(r"(?:[\w.+-]+:)*([\w.+-]+)\s?::(?:\s+(.*))?$")
_ITEM = re.compile(r"\s*(?:[-*+•‣⁃]|\(?(?:#|\d+|[A-Za-z]|[ivxlcIVXLC]+)[.)])\s+")
_FIELD = re.compile(r"\s*:[^:`\s][^:`]*:(?:\s|$)")
_BODY_IS_CODE = frozenset(
    re.findall(
        r"[\w-]+",
        "code code-block code-cell console csv-table digraph doctest graphviz math parsed-literal "
        "productionlist prompt shell snippet sourcecode terminal testcleanup testcode testoutput testsetup "
        "uml",
    )
)
_NOTHING_TO_READ = frozenset(
    re.findall(
        r"[\w-]+",
        "currentmodule default-domain default-role highlight include index literalinclude meta raw role "
        "sectnum tabularcolumns toctree",
    )
)
_ARGUMENT_IS_NO_TEXT = _BODY_IS_CODE | frozenset(
    re.findall(r"[\w-]+", "class code-tab container cssclass figure ifconfig image module only rst-class")
)
_RST_INLINE = re.compile(
    r"``(?P<literal>.+?)``(?!`)"
    r"|:(?P<role>[\w.+:-]+):`(?P<role_title>[^`<]*?)\s*(?:<[^`]*>[^`]*)?`"
    r"|`(?P<phrase>[^`<]*?)\s*(?:<[^`]*>)?`(?:__?|:[\w.+:-]+:)?"
    r"|\|[^\s|][^|\n]*\|_{0,2}"
    r"|\[[^\]\s]+\]_"
    r"|[A-Za-z][A-Za-z0-9+.-]*:(?://)?[^\s<>`]+",
    re.DOTALL,
)
_LABEL_ROLES = frozenset(["ref", "doc", "numref", "any", "download"])


def _rst_words(lines: list[str]) -> Iterator[Word]:
    prose, verbatim = _rst_split(lines)
    for number in sorted(verbatim):
        yield from _located(lines[number], number + 1)
    group: list[str] = []
    start = 0
    for number in range(len(lines) + 1):
        text = prose.get(number, "")
        if group and (not text.strip() or _starts_anew(text, group)):
            yield from _rst_inline("\n".join(group), start + 1)
            group = []
        if text.strip():
            if not group:
                start = number
            group.append(text)


def _starts_anew(text: str, group: list[str]) -> bool:
    table = text.lstrip()[:1] in ("|", "+")
    return table or bool(_ITEM.match(text)) or (len(group) > 1 and _indent(text) != _indent(group[-1]))


def _rst_inline(text: str, line: int) -> Iterator[Word]:
    for match in reversed(list(_RST_INLINE.finditer(text))):
        kept = match["literal"] or match["role_title"] or match["phrase"] or ""
        if match["role"] and (match["role"].rpartition(":")[2] in _LABEL_ROLES or kept.startswith("~")):
            kept = kept if "<" in match[0] else ""
        breaks = match[0].count("\n") - kept.count("\n")
        text = f"{text[: match.start()]} {kept} {chr(10) * breaks}{text[match.end() :]}"
    yield from _located(text, line)


def _rst_split(lines: list[str]) -> tuple[dict[int, str], set[int]]:
    """Prose by line (markup at its head blanked), and the lines that are code."""
    prose: dict[int, str] = {}
    verbatim: set[int] = set()
    at = 0
    while at < len(lines):
        line = lines[at]
        explicit = _EXPLICIT.match(line)
        if explicit:
            at = _rst_explicit(lines, at, explicit, prose, verbatim)
            continue
        if line.lstrip().startswith("__ "):
            at += 1
            while _at(lines, at).strip() and _indent(lines[at]) > _indent(line):
                at += 1
            continue
        item = _ITEM.match(line)
        field = _FIELD.match(line)
        head = item or field
        prose[at] = " " * head.end() + line[head.end() :] if head else line
        if line.rstrip().endswith("::") and not _at(lines, at + 1).strip():
            end = _indented_end(lines, at + 1, item.end() if item else _indent(line))
            verbatim.update(range(at + 1, end))
            at = end
            continue
        at += 1
    return prose, verbatim


def _rst_explicit(
    lines: list[str], at: int, explicit: re.Match[str], prose: dict[int, str], verbatim: set[int]
) -> int:
    column, content = len(explicit[1]), (explicit[2] or "").rstrip()
    end = _indented_end(lines, at + 1, column)
    directive = _DIRECTIVE.match(content)
    if directive is None:
        footnote = re.match(r"\[[^\]]+\]\s", content)
        if footnote:
            prose[at] = " " * (column + 3) + content[footnote.end() :]
            return at + 1
        return at + 1 if not content and not _at(lines, at + 1).strip() else end
    name, argument = directive[1].lower(), directive[2] or ""
    if name in _NOTHING_TO_READ:
        return end
    repeated = set(_words_in(argument)) <= set(_words_in(_at(lines, end)))  # a target; its heading says it
    if argument and name not in _ARGUMENT_IS_NO_TEXT and not repeated:
        prose[at] = " " * (column + 3) + argument
    body = at + 1
    option = False
    while _at(lines, body).strip() and _indent(lines[body]) > column:
        option = option or bool(_FIELD.match(lines[body]))
        if not option:
            break
        body += 1
    if name in _BODY_IS_CODE:
        verbatim.update(range(body, end))
        return end
    return body


def _indented_end(lines: list[str], start: int, column: int) -> int:
    end = start
    while end < len(lines) and (not lines[end].strip() or _indent(lines[end]) > column):
        end += 1
    return end


def _indent(line: str) -> int:
    expanded = line.expandtabs(8)
    return len(expanded) - len(expanded.lstrip())


def _at(lines: Sequence[str], number: int) -> str:
    return lines[number] if number < len(lines) else ""


# -- Markdown

_CONTAINERS = r"(?:[\s>]|[-*+]\s|\d+[.)]\s)*"
_FENCE = re.compile(_CONTAINERS + r"(`{3,}|~{3,})(.*)")
_DEFINITION = re.compile(_CONTAINERS + r"\[(?!\^)[^\]]+\]:")
_MARKUP_LINE = re.compile(
    r"(?:[\s>]|[-*+]\s|\d+[.)]\s)*(?::{3,}.*|\([^()]+\)=\s*|(?:!!!|\?\?\?).*|:[\w-]+:.*)$"
)
_MARKDOWN_ITEM = re.compile(r"[\s>]*(?:(?:[-*+]|\d{1,9}[.)])\s+)+(?:\[[ xX]\]\s)?")
_ESM = re.compile(r"(?:import|export)\s")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)|\{/\*.*?\*/\}", re.DOTALL)
_ELEMENT = re.compile(r"<(script|style)\b.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_MARKDOWN_INLINE = re.compile(
    r"(?P<ticks>`+)(?P<code>(?:(?!`).)(?:.*?(?!`).)??)(?P=ticks)(?!`)"
    r"|</?[A-Za-z](?:[^<>\"'{}]|\"[^\"]*\"|'[^']*'|\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\})*>"
    r"|\]\([^()]*(?:\([^()]*\)[^()]*)*\)"
    r"|\]\[[^\]]*\]"
    r"|\[[\^!][^\]\s]+\]"
    r"|<[A-Za-z][A-Za-z0-9+.-]*:[^\s<>]*>"
    r"|&#?\w+;"
    r"|\{[#\w.:-][^{}]*\}"
    r"|[A-Za-z][A-Za-z0-9+.-]*://[^\s<>`]+",
    re.DOTALL,
)


def _markdown_words(lines: list[str], *, mdx: bool) -> Iterator[Word]:
    prose: list[str] = []
    fence = ""
    at = _front_matter_end(lines)
    prose.extend([""] * at)
    in_esm = False
    for number in range(at, len(lines)):
        line = lines[number]
        opening = _FENCE.match(line)
        if fence:
            bare = line.strip(" \t>")
            if bare and not bare.strip(fence[0]) and len(bare) >= len(fence):
                fence = ""
            else:
                yield from _located("" if _MARKUP_LINE.match(line) else line, number + 1)
            prose.append("")
            continue
        if opening and not ("`" in opening[1] and "`" in opening[2]):
            fence = opening[1]
            prose.append("")
            continue
        in_esm = (
            mdx and bool(line.strip()) and (in_esm or bool(_ESM.match(line) and prose[-1:] in ([], [""])))
        )
        if in_esm or _MARKUP_LINE.match(line) or _DEFINITION.match(line):
            prose.append("")
            continue
        item = _MARKDOWN_ITEM.match(line)
        prose.append(" " * item.end() + line[item.end() :] if item else line)
    text = "\n".join(prose)
    for pattern in (_COMMENT, _ELEMENT):
        text = pattern.sub(lambda match: "\n" * match[0].count("\n"), text)
    line = 1
    for paragraph in re.split(r"(\n\s*\n)", text):
        yield from _markdown_inline(paragraph, line)
        line += paragraph.count("\n")


def _markdown_inline(text: str, line: int) -> Iterator[Word]:
    def readable(match: re.Match[str]) -> str:
        kept = match["code"] or ""
        return f" {kept} " + "\n" * (match[0].count("\n") - kept.count("\n"))

    yield from _located(_MARKDOWN_INLINE.sub(readable, text), line)


def _front_matter_end(lines: list[str]) -> int:
    first = lines[0].rstrip()
    if first in ("---", "+++"):
        for number, line in enumerate(lines[1:], start=1):
            if line.rstrip() == first or (first == "---" and line.rstrip() == "..."):
                return number + 1
    return 0
