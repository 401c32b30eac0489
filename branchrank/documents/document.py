"""Records for a parsed file, its sections and their blocks of readable text, with line numbers.

A section's own span contains the section's lines that are not in a subsection. Every line of the file belongs
to exactly one section's own span. ``sections[0]`` represents the whole file, and its own span contains the
text before the first heading. If the file has exactly one top-level heading, that heading and the text up to
the next heading also belong to the own span of ``sections[0]``.

A reader's flat list of headings and blocks becomes the sections of a document.

1. The parent of a heading is the nearest earlier heading with a smaller level, so skipped levels (``#`` then
   ``###``) do not matter.
2. If the file has exactly one top-level heading, that heading is normally the page title, and the heading and
   its labels become part of the first section.
3. A section's own span runs from the first line of the section's heading to the line before the next heading.
   The first section represents the whole file, and its own span starts at line 1. If the second section also
   starts on line 1, the first section's own span is empty, and the first section's ``own_line_end`` is 0.
   Every line of the file is in exactly one section's own span.
4. The id of a section consists of the file's path and the slugs of all headings from the top-level heading to
   the section. If sections with the same parent have the same slug, the second section gets the suffix
   ``~2``, the third one ``~3``, and so on.
5. Each block is added to the section whose own span contains the block's lines. Each heading becomes a
   separate block.
6. The sections of a file may add only a limited number of bytes to the index, and this limit grows with the
   size of the file. The first heading that would exceed the limit is read as text, and so are all later
   headings.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Container, Sequence
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

from msgspec.structs import replace

from branchrank.core.letters import title_words, unhyphenated
from branchrank.core.records import BREADCRUMB_SEPARATOR, Record

BlockKind = Literal["heading", "prose", "code", "table", "list"]

#: The names of pages that stand for their folder, without suffixes.
FOLDER_PAGES = ("README", "index", "_index")
#: The start of an absolute URL, which does not refer to a document.
ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
#: The suffix of files that contain one BEIR entry each.
ENTRY_SUFFIX = ".beir"


class Block(Record, frozen=True, kw_only=True):
    """The readable text of one paragraph, table row, code block or other group of consecutive lines.

    The blocks of a section are in line order, do not overlap, and are inside the section's own span. Each
    heading is a separate block. Lines without text (blank lines, labels, comments, directive options) need
    not be in a block.

    The n-th line of ``text`` is the readable text of the n-th line of the block, so a long block can be cut
    between lines. As an exception, the ``text`` of a heading is always one line.
    """

    kind: BlockKind
    text: str
    line_start: int
    line_end: int


class Section(Record, frozen=True, kw_only=True):
    """A heading and the text after it, up to the next heading.

    The ``id`` of the section for the whole file is the file's path. The ids of other sections have the form
    ``path#slug/slug``, with the slugs of all headings from the top-level heading to the section's heading. A
    repeated id gets the suffix ``~2``. ``parent`` is the position of the parent section in the document's
    list of sections. ``level`` is 0 for the section of the whole file and 1 for that section's children.
    ``labels`` are the reference targets at the heading. ``line_end`` is the last line including subsections,
    and ``own_line_end`` is the last line before the first subsection.
    """

    id: str
    title: str
    level: int
    parent: int | None
    line_start: int
    own_line_end: int
    line_end: int
    blocks: tuple[Block, ...] = ()
    labels: tuple[str, ...] = ()


class LinkTarget(Record, frozen=True, kw_only=True):
    """A reference target in a document, such as an RST label, a Markdown heading anchor or an explicit id.

    ``derived`` is true for a name made from a heading's title, which names the heading only within its page.
    """

    name: str
    line: int
    derived: bool = False


class Reference(Record, frozen=True, kw_only=True):
    """A cross-reference whose link text was written by the author.

    ``role`` is ``ref``, ``doc`` or ``link``. ``target`` is a label, the path of a document, or a relative URL
    that may end with ``#anchor``, as written in the file.
    """

    role: Literal["ref", "doc", "link"]
    text: str
    target: str
    line: int


class Document(Record, frozen=True, kw_only=True):
    """One parsed file in a corpus.

    ``source`` is the file's path relative to the corpus folder, with ``/`` as the separator. ``digest`` is
    the SHA-256 of the file's bytes. ``toctree`` contains the entries of the file's toctree directives as
    written. :mod:`branchrank.documents.tree_build` finds the documents that the entries refer to.
    ``order`` is the document's position in the navigation files of the corpus, from 0. ``notes`` describes
    the problems in the file that the parser worked around.
    """

    source: str
    title: str
    digest: str
    line_count: int
    sections: tuple[Section, ...]
    toctree: tuple[str, ...] = ()
    order: int | None = None
    labels: tuple[LinkTarget, ...] = ()
    references: tuple[Reference, ...] = ()
    notes: tuple[str, ...] = ()


#: Notes on a Markdown file. A corpus has one such note for all of its files.
LEAVES_OUT_FILES = "read without the files that are included"
READ_AS_MDX = "read as MDX, because of import lines, JSX tags or comments in braces"


def without_content(document: Document) -> Document:
    """Return the part of a document that an index build keeps in memory while it parses other documents."""
    return replace(document, sections=(), labels=(), references=(), notes=())


_MAX_SLUG = 80
#: The sections of a file of n bytes may add at most ``_MAX_GROWTH * n + _FREE_GROWTH`` bytes to the index.
_MAX_GROWTH = 64
_FREE_GROWTH = 16_384
#: The number of bytes that each section adds to the index besides its id and its breadcrumb.
_SECTION_BYTES = 500
_IDS_PER_SECTION = 6


class Heading(NamedTuple):
    """A heading that a parser found in a file, before the file is split into sections.

    ``level`` is 1 for a top-level heading and larger for lower-level headings. ``line_start`` is the first
    line of the heading, including labels and an overline above the title. ``line_end`` is the last line of
    the heading, including an underline. ``title`` is the heading's text without markup. ``in_text`` is true
    if a block already contains the title, because other text is on the same line.
    """

    level: int
    title: str
    line_start: int
    line_end: int
    labels: tuple[str, ...] = ()
    in_text: bool = False


#: Stands for the first section of a file in which no heading is the title of the whole page.
_WHOLE_FILE = Heading(level=0, title="", line_start=1, line_end=0)


def slug(title: str) -> str:
    """Return the words of a title in lower case, joined by ``-``.

    Words are runs of letters, their marks, digits and ``_`` in any script.
    """
    return "-".join(title_words(title.casefold()))[:_MAX_SLUG].rstrip("-") or "section"


def title_from_source(source: str) -> str:
    """Derive a title from the path of a file that has no title.

    The derived title is the file's name without its suffix, or the name of the folder if the name is one of
    :data:`FOLDER_PAGES`.
    """
    path = PurePosixPath(source)
    name = path.name.split(".")[0] or path.name
    return path.parent.name if name in FOLDER_PAGES and path.parent.name else name


def _named(source: str, headings: Sequence[Heading], parents: Sequence[int]) -> tuple[list[str], list[int]]:
    """Return the ids and the levels of all sections. Repeated ids get a suffix such as ``~2``."""
    ids, levels = [source], [0]
    used: Counter[tuple[int, str]] = Counter()
    for heading, parent in zip(headings[1:], parents[1:], strict=True):
        name = slug(heading.title)
        used[parent, name] += 1
        if used[parent, name] > 1:
            name = f"{name}~{used[parent, name]}"
        ids.append(f"{ids[parent]}{'/' if parent else '#'}{name}")
        levels.append(levels[parent] + 1)
    return ids, levels


def limit_headings(
    source: str, headings: Sequence[Heading], size: int
) -> tuple[Sequence[Heading], list[Block], tuple[str, ...]]:
    """Return the headings that start sections, the remaining headings as blocks of text, and notes.

    ``size`` is the size of the file in bytes. Each section repeats the titles of all enclosing sections, so
    the sections of a small file could need hundreds of times as many bytes as the file. To limit the size of
    the index, the ids, breadcrumbs and records of the sections may take up at most 64 times ``size`` bytes
    plus 16 KiB. The first heading that would exceed this limit is returned as a block of text, and so are all
    later headings.
    """
    room = _MAX_GROWTH * size + _FREE_GROWTH
    lengths = [(len(source.encode()), 0)]
    parents = _parents([_WHOLE_FILE, *headings])[1:]
    for index, (heading, parent) in enumerate(zip(headings, parents, strict=True)):
        id_length, crumb_length = lengths[parent]
        id_length += 1 + len(slug(heading.title).encode())
        crumb_length += len(BREADCRUMB_SEPARATOR) + len(heading.title.encode())
        lengths.append((id_length, crumb_length))
        room -= _SECTION_BYTES + _IDS_PER_SECTION * id_length + 2 * crumb_length
        if room < 0 and index:
            rest = [
                Block(kind="prose", text=other.title, line_start=other.line_start, line_end=other.line_end)
                for other in headings[index:]
                if other.title and not other.in_text
            ]
            note = (
                f"line {heading.line_start}: from here on, headings are read as text, "
                "because the file has too many headings for its size"
            )
            return headings[:index], rest, (note,)
    return headings, [], ()


def finish_sections(
    source: str,
    *,
    headings: Sequence[Heading],
    blocks: Sequence[Block],
    line_count: int,
    title: str | None = None,
) -> tuple[Section, ...]:
    """Return the sections of a document in line order. The first section represents the whole file.

    ``headings`` and ``blocks`` must be in line order. No two headings may start on the same line. Blocks must
    not overlap each other or a heading. ``title`` is the title in the file's front matter, or ``None`` to use
    the file's path. If the document has exactly one top-level heading, the heading becomes part of the first
    section and starts no section of its own. However, if ``title`` is not empty, a top-level heading of level
    2 or deeper always starts a section of its own, because ``title`` is then the page title.
    """
    contents = [
        Block(kind="heading", text=heading.title, line_start=heading.line_start, line_end=heading.line_end)
        for heading in headings
        if heading.title and not heading.in_text
    ]
    contents = sorted([*contents, *blocks], key=lambda block: block.line_start)
    has_page_heading = _parents(headings).count(-1) == 1 and (not title or headings[0].level == 1)
    if not has_page_heading:
        headings = [_WHOLE_FILE, *headings]
    file_title = headings[0].title or (title_from_source(source) if title is None else title)
    parents = _parents(headings)
    starts = [1, *(heading.line_start for heading in headings[1:])]
    own_ends = [*(start - 1 for start in starts[1:]), line_count]
    ends = list(own_ends)
    for position in range(len(ends) - 1, 0, -1):
        ends[parents[position]] = max(ends[parents[position]], ends[position])
    ids, levels = _named(source, headings, parents)
    blocks_of: list[list[Block]] = [[] for _ in starts]
    for block in contents:
        readable = unhyphenated(block.text)
        shown = block if readable == block.text else replace(block, text=readable)
        blocks_of[bisect_right(starts, block.line_start) - 1].append(shown)
    return tuple(
        Section(
            id=ids[position],
            title=unhyphenated(heading.title if position else file_title),
            level=levels[position],
            parent=parents[position] if position else None,
            line_start=starts[position],
            own_line_end=own_ends[position],
            line_end=ends[position],
            blocks=tuple(blocks_of[position]),
            labels=heading.labels,
        )
        for position, heading in enumerate(headings)
    )


class Findings:
    """What a parser finds in one file, in line order.

    ``title`` is the title of a file without a page heading, such as the title in the front matter. If
    ``title`` is ``None``, the file is named after its path.
    """

    def __init__(self) -> None:
        self.title: str | None = None
        self.headings: list[Heading] = []
        self.blocks: list[Block] = []
        self.labels: list[LinkTarget] = []
        self.references: list[Reference] = []
        self.toctree: list[str] = []
        self.notes: list[str] = []

    def add_block(self, kind: BlockKind, lines: Sequence[str], first: int) -> None:
        """Add a block of ``lines``, which start at line ``first``, without the blank lines at both ends."""
        filled = [number for number, line in enumerate(lines) if line.strip()]
        if filled:
            start, end = filled[0], filled[-1]
            text = "\n".join(lines[start : end + 1])
            self.blocks.append(Block(kind=kind, text=text, line_start=first + start, line_end=first + end))

    def document(self, source: str, *, digest: str, size: int, line_count: int) -> Document:
        """Return the document of a file with ``size`` bytes."""
        headings, rest, more_notes = limit_headings(source, self.headings, size)
        sections = finish_sections(
            source,
            headings=headings,
            blocks=[*self.blocks, *rest],
            line_count=line_count,
            title=self.title,
        )
        return Document(
            source=source,
            title=sections[0].title,
            digest=digest,
            line_count=line_count,
            sections=sections,
            toctree=tuple(self.toctree),
            labels=tuple(self.labels),
            references=tuple(self.references),
            notes=(*self.notes, *more_notes),
        )


def breadcrumbs(document: Document) -> tuple[str, ...]:
    """Return the breadcrumb of each section: the titles from the document's title to the section's title."""
    crumbs: list[str] = []
    for section in document.sections:
        above = "" if section.parent is None else crumbs[section.parent] + BREADCRUMB_SEPARATOR
        crumbs.append(above + section.title)
    return tuple(crumbs)


def _parents(headings: Sequence[Heading]) -> list[int]:
    """Return the position of each heading's parent, and -1 for a top-level heading."""
    parents: list[int] = []
    open_headings = [-1]
    for index, heading in enumerate(headings):
        while len(open_headings) > 1 and headings[open_headings[-1]].level >= heading.level:
            open_headings.pop()
        parents.append(open_headings[-1])
        open_headings.append(index)
    return parents


def read_as_text(lines: list[str], reason: str) -> Findings:
    """Return the paragraphs of a document whose format can't be read, with a note that gives the reason."""
    found = Findings()
    found.blocks = plain_blocks(lines)
    found.notes = [f"read as plain text, because {reason}"]
    return found


def plain_blocks(lines: list[str], starts: Container[int] = ()) -> list[Block]:
    """Return one block for each run of non-blank lines. The first line has line number 1.

    A new block also starts at each line in ``starts``.
    """
    blocks: list[Block] = []
    run: list[str] = []
    for number, line in enumerate([*lines, ""], start=1):
        if run and (number in starts or not line.strip()):
            text = "\n".join(run)
            blocks.append(Block(kind="prose", text=text, line_start=number - len(run), line_end=number - 1))
            run = []
        if line.strip():
            run.append(line)
    return blocks
