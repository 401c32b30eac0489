"""The parsed form of one file, with sections, their exact lines, and blocks of readable text.

Every line of the file is in the own span of exactly one section. ``sections[0]`` is the section of the whole
file. The own span of this section contains the text before the first heading and, if the file has a single
top heading, that heading and the text below it.
"""

from __future__ import annotations

from typing import Literal

from branchrank.records import Record

BlockKind = Literal["heading", "prose", "code", "table", "list"]

#: The suffix of files that contain one BEIR entry each.
ENTRY_SUFFIX = ".beir"


class Block(Record, frozen=True, kw_only=True):
    """Consecutive lines that belong together (a paragraph, a table row, a code block), as readable text.

    The blocks of a section are in line order, disjoint, and inside the section's own span. Each heading is a
    separate block. Lines without text (blank lines, labels, comments, directive options) may be outside all
    blocks.

    The n-th line of ``text`` is the readable text of the n-th line of the block, so a long block can be cut
    between lines. A heading is an exception, because its text is always one line.
    """

    kind: BlockKind
    text: str
    line_start: int
    line_end: int


class Section(Record, frozen=True, kw_only=True):
    """A heading and the text after it, up to the next heading.

    ``id`` is ``source`` for the section of the file, else ``source#slug/slug`` with the slugs of all headings
    from the top to the section; a repeated id gets ``~2``. ``parent`` is the position of the parent in the
    document's sections. ``level`` is 0 for the file and 1 for headings directly below the file. ``labels``
    are the reference targets at the heading. ``line_end`` includes the subsections, ``own_line_end`` does
    not.
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


class Label(Record, frozen=True, kw_only=True):
    """A reference target at ``line``, such as an RST label, a Markdown heading anchor or an explicit id."""

    name: str
    line: int


class Reference(Record, frozen=True, kw_only=True):
    """A cross reference with a link text that the author of the corpus wrote.

    ``role`` is ``ref``, ``doc`` or ``link``. ``target`` is the raw target, which is a label, a document path
    or a relative URL with ``#anchor``.
    """

    role: Literal["ref", "doc", "link"]
    text: str
    target: str
    line: int


class Document(Record, frozen=True, kw_only=True):
    """One file of a corpus after parsing.

    ``source`` is the path relative to the corpus, with ``/``. ``digest`` is the SHA-256 of the raw bytes.
    ``toctree`` lists the entries of the file's toctrees as they are written; :mod:`branchrank.tree.toctree`
    finds their documents. ``notes`` lists the problems in the file that the reader worked around.
    """

    source: str
    title: str
    digest: str
    line_count: int
    sections: tuple[Section, ...]
    toctree: tuple[str, ...] = ()
    labels: tuple[Label, ...] = ()
    references: tuple[Reference, ...] = ()
    notes: tuple[str, ...] = ()


class DocumentOutline(Record, frozen=True, kw_only=True):
    """The part of a document that a build keeps in memory while it reads the other documents.

    ``title`` is the title of the file's section.
    """

    source: str
    title: str
    digest: str
    line_count: int
    toctree: tuple[str, ...]

    @classmethod
    def of(cls, document: Document) -> DocumentOutline:
        """Return the outline of ``document``."""
        return cls(
            source=document.source,
            title=document.sections[0].title,
            digest=document.digest,
            line_count=document.line_count,
            toctree=document.toctree,
        )
