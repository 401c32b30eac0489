"""The parsed form of one file: sections with exact line spans, and blocks of readable text.

Every line of the file is in exactly one section's own span. ``sections[0]`` is the file itself: its own
span holds the text before the first heading and, if the file has a single top heading, that heading too.
"""

from __future__ import annotations

from typing import Literal

from branchrank.records import Record

BlockKind = Literal["heading", "prose", "code", "table", "list"]

#: The suffix of the file of a BEIR entry.
ENTRY_SUFFIX = ".beir"


class Block(Record, frozen=True, kw_only=True):
    """A run of whole lines that belong together, with their text as a person would read it.

    A section's blocks are in line order, disjoint, and inside its own span. A heading is a block of
    its own. Blank lines and lines that carry no text (labels, comments, directive options) may
    lie in no block.

    The n-th line of ``text`` is the readable text of the n-th line of the span (except in a heading, whose
    text is one line), so a long block can be cut between lines.
    """

    kind: BlockKind
    text: str
    line_start: int
    line_end: int


class Section(Record, frozen=True, kw_only=True):
    """A heading and the text after it, up to the next heading.

    ``id`` is ``source`` for the file itself, else ``source#slug/slug`` with the slugs of the headings above
    it and its own; a repeated id gets ``~2``. ``parent`` is an index into the document's sections. ``level``
    is 0 for the file and 1 for headings directly below it. ``labels`` are the reference targets at the
    heading. ``line_end`` includes the subsections, ``own_line_end`` does not.
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
    """A reference target at ``line``: an RST label, a Markdown heading anchor or explicit id."""

    name: str
    line: int


class Reference(Record, frozen=True, kw_only=True):
    """A cross reference whose link text was written by the corpus's author.

    ``role`` is ``ref``, ``doc`` or ``link``; ``target`` is the raw target (label, document path or
    relative URL with ``#anchor``).
    """

    role: Literal["ref", "doc", "link"]
    text: str
    target: str
    line: int


class Document(Record, frozen=True, kw_only=True):
    """One file of a corpus after parsing.

    ``source`` is the path relative to the corpus, with ``/``. ``digest`` is the SHA-256 of the raw bytes.
    ``toctree`` lists the entries of the file's toctrees in order, as they are written; the caller resolves
    them to sources. ``notes`` lists the problems in the file that the reader worked around.
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
    """What a build keeps of a document while it reads the others; ``title`` is that of the file's section."""

    source: str
    title: str
    digest: str
    line_count: int
    toctree: tuple[str, ...]

    @classmethod
    def of(cls, document: Document) -> DocumentOutline:
        """The outline of a document."""
        return cls(
            source=document.source,
            title=document.sections[0].title,
            digest=document.digest,
            line_count=document.line_count,
            toctree=document.toctree,
        )
