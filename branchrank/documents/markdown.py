"""Parse Markdown and MDX files into documents.

1. Front matter is removed, except the value of ``description``, which is kept as text
   (:mod:`branchrank.documents.site_markup`). The page title is the ``title`` in the front matter. If all
   other headings on the page are nested below a level-1 heading, the level-1 heading is the page title
   instead.
2. markdown-it splits the rest of the file into blocks with line numbers. Inline markup is parsed separately
   for each block.
3. An ATX or setext heading starts a section unless the heading is inside a quote or a list. The labels of a
   heading are its GitHub-style slug, the explicit ids in ``{#id}`` or in an attribute list (``{: #id .class
   }``), the labels in the ``(label)=`` lines above the heading, and the ids of HTML tags in the heading or
   above it, if the lines between have no text.
4. List items, paragraphs, table rows and code become blocks. Each line of a block's text is the readable form
   of the corresponding line in the file. The content of a code fence is read as Markdown if the fence is a
   directive for prose, such as ``{note}``.
5. Lines that markdown-it skips because the lines are nested too deeply are kept as plain text.

Parsing takes time linear in the size of the file.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from branchrank.core.letters import NOT_IN_ANCHOR
from branchrank.documents.document import (
    LEAVES_OUT_FILES,
    READ_AS_MDX,
    BlockKind,
    Findings,
    Heading,
    LinkTarget,
    plain_blocks,
)
from branchrank.documents.lines import names_in
from branchrank.documents.markdown_syntax import looks_like_mdx, markdown_parser
from branchrank.documents.markdown_text import ATTRIBUTES, MAX_INLINE, anchors, html_text, ids_of, inline_text
from branchrank.documents.reading import Reader
from branchrank.documents.site_markup import front_matter, without_included_files

if TYPE_CHECKING:
    from markdown_it.token import Token

_EXPLICIT_ID = re.compile(r"\{[ \t]*+(?:#([^\s{}]++)[^{}]*+|/\*\s*+#?([^\s*{}]++)\s*+\*/)\}")
#: The id of a heading of Elastic's docs, such as ``Title [my-id]``. Other words in brackets are text. A
#: single word (the last group) is an id if the title contains it, or if the page has ids of several words.
_ANCHOR = re.compile(
    r"(.*\S)\s+\[(?!(?:read-only|opt-in|built-in|third-party|pre-release|optional|required|deprecated|experimental|beta|alpha|preview|draft|new"
    r"|unreleased|legacy|internal|private|public)\])((?:[A-Za-z][\w.]*[-_]|_)[\w.-]+|([a-z]{3,}))\]"
)
#: A heading of DocFX that is the title of a tab.
_TAB = re.compile(r"\[(.*)\]\(#tab/[^()\s]*\)")
#: The type of an alert (``[!NOTE]``) or block of DocFX (``[!div class="x"]``).
_ALERT = re.compile(r"^\[![A-Za-z]+(?:[ \t][^\[\]\n]*)?\][+-]?[ \t]*")
#: The place of a table of contents.
_CONTENTS = re.compile(r"\[TOC\]|\[\[_?(?:TOC|toc)_?\]\]|.*\n\{:[ \t]*toc\b[^{}\n]*\}")
_DIRECTIVE = re.compile(r"\{([\w:.-]+)\}\s*(.*)")
_OPTION = re.compile(r"\s*:[\w-]+:(?:\s.*)?")
_CONTAINER_MARKERS = re.compile(r"[\s>]*(?:(?:[-+*]|\d{1,9}[.)])(?:[\s>]+|$))*(?:\[\^[^\s\]]+\]:\s*$)?")
_PROSE_DIRECTIVES = names_in(
    "admonition attention caution card danger deprecated details dropdown epigraph error figure grid "
    "grid-item grid-item-card hint image important margin note only seealso sidebar tab-item tab-set tip "
    "topic versionadded versionchanged versionremoved warning"
)
_MAX_DIRECTIVE_NESTING = 8
_PARSER_FAULTS = (IndexError, KeyError, RuntimeError, ValueError)


def read_markdown(source: str, lines: list[str]) -> Findings:
    """Read a Markdown file or an MDX file. Malformed content raises no exception.

    An MDX file has the suffix ``.mdx``, or the suffix ``.md`` and lines that only MDX has.
    """
    lines = [line.replace("\r", " ") for line in lines]
    front = front_matter(lines)
    lines = [""] * front.line_count + lines[front.line_count :]
    anchors = (_ANCHOR.match(line) for line in lines if line.startswith("#"))
    in_md = source.lower().endswith(".md") and looks_like_mdx("\n".join(lines))
    reader = _Reader(mdx=in_md or source.lower().endswith(".mdx"))
    reader.has_anchors = any(anchor and not anchor[3] for anchor in anchors)
    reader.notes = [READ_AS_MDX] if in_md else []
    try:
        reader.read(lines, first_line=1, nesting=0)
    except _PARSER_FAULTS as error:
        reader = _Reader(mdx=False)
        reader.notes = [f"read as plain text, because the Markdown parser failed ({type(error).__name__})"]
        reader.blocks = plain_blocks(lines)
    reader.title = front.title or None
    body, reader.blocks = reader.blocks, []
    reader.add_block("prose", front.description, front.first_line)
    reader.blocks += body
    reader.notes = list(dict.fromkeys(reader.notes))
    reader.labels = sorted(set(reader.labels), key=lambda label: (label.line, label.name))
    return reader


class _Reader(Findings):
    """Collects the headings, blocks and labels of one file in line order."""

    def __init__(self, *, mdx: bool) -> None:
        super().__init__()
        self.mdx = mdx
        self.has_anchors = False
        self.targets: list[LinkTarget] = []
        self._env: dict[str, Any] = {}
        self._slugs: Counter[str] = Counter()

    def read(self, lines: list[str], *, first_line: int, nesting: int) -> None:
        """Read ``lines``, the first of which is line ``first_line`` of the file.

        ``nesting`` is the number of directives that enclose the lines.
        """
        parser = markdown_parser(self.mdx)
        tokens: list[Token] = []
        parser.block.parse("\n".join(lines) + "\n", parser, self._env, tokens)
        covered = bytearray(len(lines) + 1)
        for token in tokens:
            if token.map and (token.nesting == 0 or token.type in ("heading_open", "table_open")):
                covered[token.map[0] : token.map[1]] = b"\1" * (token.map[1] - token.map[0])
        _Walk(self, first_line, nesting).walk(tokens)
        rest = ["" if covered[index] else _without_markers(line) for index, line in enumerate(lines)]
        left_out = plain_blocks(rest)
        if left_out:
            self.notes.append(
                f"line {first_line + left_out[0].line_start - 1}: "
                "read as plain text, because it is nested too deeply"
            )
        for block in left_out:
            self.add(
                "\n".join(rest[block.line_start - 1 : block.line_end]),
                "prose",
                first_line + block.line_start - 1,
            )

    def add(self, text: str, kind: BlockKind, line: int) -> None:
        """Add ``text``, which starts at ``line``, as a block without blank lines at the start and end."""
        if text.strip():
            self.drop_targets()
        self.add_block(kind, [each.rstrip() for each in text.split("\n")], line)

    def inline(self, content: str, line: int) -> str:
        """Return the inline Markdown at ``line`` as readable text, and store its references and labels."""
        text = inline_text(content, line, self._env, self.mdx, self)
        if len(content) > MAX_INLINE:
            self.notes.append(
                f"line {line}: inline markup was not read, because the text has {len(content)} characters, "
                f"more than {MAX_INLINE}"
            )
        return "\n".join(each.strip() for each in text.split("\n"))

    def add_labeled(
        self, text: str, kind: BlockKind, line: int, known: int, *, attached: bool = False
    ) -> None:
        """Add ``text``. Its labels are those after the first ``known``.

        Labels after the last line of the text belong to a heading that may follow. If the labels are
        ``attached`` to the block above, and no text is with them, they can belong to the heading above.
        """
        self.add(text, kind, line)
        labels = self.labels[known:]
        above = self.headings[-1] if self.headings else None
        if attached and not text.strip() and above and above.line_end == line - 1:
            self.headings[-1] = above._replace(labels=(*above.labels, *(label.name for label in labels)))
        elif not (attached and text.strip()):
            end = line + text.rstrip().count("\n") if text.strip() else line - 1
            self.labels[known:] = (label for label in labels if label.line <= end)
            self.targets += (label for label in labels if label.line > end)

    def drop_targets(self) -> None:
        """Store the labels that no heading follows."""
        self.labels += self.targets
        self.targets = []

    def add_heading(self, level: int, content: str, lines: range) -> None:
        """Add a heading on the given lines. The labels directly above it are in ``targets``."""
        targets = list(self.targets)
        self.drop_targets()
        content, explicit = _without_explicit_ids(content)
        defined = self._env.get("references", {})
        anchor = _ANCHOR.fullmatch(content)
        if anchor and anchor[3] and anchor[3] not in anchor[1].lower() and not self.has_anchors:
            anchor = None
        if anchor and anchor[2].upper() not in defined:
            content, explicit = anchor[1], [anchor[2], *explicit]
        known = len(self.labels)
        title = " ".join(self.inline(content, lines.start).split())
        explicit += (label.name for label in self.labels[known:])
        del self.labels[known:]
        slug = self._slug(title)
        names = dict.fromkeys([*(target.name for target in targets), *explicit, *([slug] if slug else [])])
        self.labels.extend(LinkTarget(name=name, line=lines.start) for name in explicit)
        if slug and slug not in explicit:
            self.labels.append(LinkTarget(name=slug, line=lines.start, derived=True))
        start = targets[0].line if targets else lines.start
        self.headings.append(Heading(level, title, start, lines.stop - 1, tuple(names)))

    def _slug(self, title: str) -> str:
        normal = unicodedata.normalize("NFC", title).lower()
        slug = str(NOT_IN_ANCHOR.sub("", normal)).replace(" ", "-")
        self._slugs[slug] += 1
        count = self._slugs[slug]
        return slug if count == 1 else f"{slug}-{count - 1}"


class _Walk:
    """Converts markdown-it's tokens to blocks.

    The line number 0 in a token stands for line ``first_line`` of the file.
    """

    def __init__(self, reader: _Reader, first_line: int, nesting: int) -> None:
        self.reader = reader
        self.first_line = first_line
        self.nesting = nesting
        self.lists = 0
        self.tabs = 0
        self.bullet = ""
        self.row = first_line
        self.cells: list[str] = []

    def walk(self, tokens: Sequence[Token]) -> None:
        for index, token in enumerate(tokens):
            line = self.first_line + token.map[0] if token.map else 0
            match token.type:
                case "heading_open":
                    self._heading(token, tokens[index + 1].content, line)
                case "inline" if tokens[index - 1].type in ("th_open", "td_open"):
                    content, ids = _without_explicit_ids(token.content)
                    self.reader.labels.extend(LinkTarget(name=name, line=line) for name in ids)
                    self.cells.append(self.reader.inline(content, line))
                case "inline" if tokens[index - 1].type != "heading_open":
                    self._paragraph(token.content, line)
                case "bullet_list_open" | "ordered_list_open":
                    self.lists += 1
                case "bullet_list_close" | "ordered_list_close":
                    self.lists -= 1
                case "tab_open" | "tab_close":
                    self.tabs += token.nesting
                case "list_item_open":
                    self.bullet = f"{token.info}{token.markup} " if token.info else "- "
                case "tr_open":
                    self.cells = []
                    self.row = line
                case "tr_close":
                    self.reader.add(" | ".join(filter(None, self.cells)), "table", self.row)
                case "code_block":
                    self.reader.add(token.content, "code", line)
                case "fence":
                    self._fence(token, line)
                case "html_block":
                    self._html(token, line)
                case "marker":
                    self._marker(token, line)
        self.reader.drop_targets()

    def _heading(self, token: Token, content: str, line: int) -> None:
        assert token.map is not None
        if tab := _TAB.fullmatch(content):
            self._paragraph(tab[1], line)
        elif token.level == self.tabs and self.nesting == 0:
            end = self.first_line + token.map[1]
            self.reader.add_heading(int(token.tag[1]), content, range(line, end))
        else:
            self._paragraph(content, line)

    def _html(self, token: Token, line: int) -> None:
        known = len(self.reader.labels)
        self.reader.labels += (labels := anchors(token.content, line))
        if not labels and not token.content.startswith("<!--"):
            self.reader.drop_targets()
        self.reader.add_labeled(html_text(token.content), "prose", line, known)

    def _paragraph(self, content: str, line: int) -> None:
        known = len(self.reader.labels)
        text = _ALERT.sub("", self.reader.inline(content, line))
        text = self.bullet + text if text.strip() and not _CONTENTS.fullmatch(content) else ""
        kind: BlockKind = "list" if self.lists else "prose"
        self.reader.add_labeled(text, kind, line, known, attached=content.rpartition("\n")[2].startswith("{"))
        self.bullet = ""

    def _fence(self, token: Token, line: int) -> None:
        assert token.map is not None
        reader, lines = self.reader, token.content.split("\n")[:-1]
        if token.map[1] - token.map[0] < len(lines) + 2:
            reader.notes.append(f"line {line}: the code fence that starts here is never closed")
        directive = _DIRECTIVE.fullmatch(token.info.strip())
        name, argument = directive.groups() if directive else ("", "")
        if (code := without_included_files(lines)) != lines or name in ("include", "literalinclude"):
            reader.notes.append(LEAVES_OUT_FILES)
        if name in ("include", "literalinclude"):
            return
        if name not in _PROSE_DIRECTIVES | {"toctree"} or self.nesting == _MAX_DIRECTIVE_NESTING:
            reader.add("\n".join(code), "code", line + 1)
            return
        options = 0
        while options < len(lines) and _OPTION.fullmatch(lines[options]):
            options += 1
        body = [""] * options + lines[options:]
        if name == "toctree":
            reader.toctree.extend(entry.strip() for entry in body if entry.strip())
            return
        if argument and name not in ("figure", "image"):
            self._paragraph(argument, line)
        reader.read(body, first_line=line + 1, nesting=self.nesting + 1)

    def _marker(self, token: Token, line: int) -> None:
        if token.info == "target":
            self.reader.targets.append(LinkTarget(name=token.content, line=line))
        elif token.info == "toctree":
            self.reader.drop_targets()
            self.reader.toctree.extend(entry.strip() for entry in token.content.split("\n") if entry.strip())
        elif token.info == "include":
            self.reader.notes.append(LEAVES_OUT_FILES)
        elif token.content:
            self._paragraph(token.content, line)


def _without_explicit_ids(content: str) -> tuple[str, list[str]]:
    """Split a heading or table cell into its text and the ids in the attribute lists at its end."""
    ids: list[str] = []
    kept = end = len(content)
    while True:
        while end and content[end - 1].isspace():
            end -= 1
        start = content.rfind("{", 0, end)
        if start < 0:
            break
        if match := _EXPLICIT_ID.fullmatch(content, start, end):
            ids.append(match[1] or match[2])
        elif ATTRIBUTES.fullmatch(content, start, end):
            ids += ids_of(content[start:end])[::-1]
        else:
            break
        kept = end = start
    return content[:kept].rstrip() if kept < len(content) else content, ids[::-1]


def _without_markers(line: str) -> str:
    """Return ``line`` without the quote and list markers at its start."""
    match = _CONTAINER_MARKERS.match(line)
    return line[match.end() :] if match else line


READER = Reader(read_markdown)
