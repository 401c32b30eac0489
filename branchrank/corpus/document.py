"""Records for a parsed file, its sections and their blocks of readable text, with line numbers.

A section's own span contains the section's lines that are not in a subsection. Every line of the file belongs
to exactly one section's own span. ``sections[0]`` represents the whole file, and its own span contains the
text before the first heading. If the file has exactly one top-level heading, that heading and the text up to
the next heading also belong to the own span of ``sections[0]``.
"""

from __future__ import annotations

from typing import Literal

from branchrank.records import Record

BlockKind = Literal["heading", "prose", "code", "table", "list"]

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


class Label(Record, frozen=True, kw_only=True):
    """A reference target in a document, such as an RST label, a Markdown heading anchor or an explicit id."""

    name: str
    line: int


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
    written. :mod:`branchrank.tree.build` finds the documents that the entries refer to. ``notes`` describes
    the problems in the file that the parser worked around.
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
    """The part of a document that an index build keeps in memory while it parses other documents.

    ``title`` is the title of the section that represents the whole file.
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
