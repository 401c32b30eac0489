"""What a reader makes of one file: sections with line-exact spans, and blocks of readable text.

Every line of the file lies in exactly one section's own span. ``sections[0]`` is the file itself: it
owns the text before the first heading and, when the file has one lone top heading, that heading too.
"""

from __future__ import annotations

from typing import Literal

from branchrank.records import Record

BlockKind = Literal["heading", "prose", "code", "table", "list"]

#: What ends the name of an entry of a BEIR folder.
ENTRY_SUFFIX = ".beir"


class Block(Record, frozen=True, kw_only=True):
    """A run of whole lines that belongs together, with its text as a person would read it.

    A section's blocks are in line order, disjoint, and inside its own span. A heading is a block of
    its own. Blank lines and lines that carry no text (labels, comments, directive options) may
    lie in no block.

    The n-th line of ``text`` is what there is to read on the n-th line of the span (except in a heading,
    whose text is one line), so that a long block can be cut between lines.
    """

    kind: BlockKind
    text: str
    line_start: int
    line_end: int


class Section(Record, frozen=True, kw_only=True):
    """A heading and what follows it, up to the next heading.

    ``id`` is ``source`` for the file itself, else ``source#slug/slug`` along the path of headings,
    repeats ``~2``. ``parent`` is an index into the document's sections; ``level`` is 0 for the file,
    1 for headings right below it. ``labels`` are the reference targets that stand at the heading.
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
    """A cross reference with text of its own, as the corpus's author wrote it.

    ``role`` is ``ref``, ``doc`` or ``link``; ``target`` is the raw target (label, document path or
    relative URL with ``#anchor``).
    """

    role: Literal["ref", "doc", "link"]
    text: str
    target: str
    line: int


class Document(Record, frozen=True, kw_only=True):
    """One file of a corpus as a reader sees it.

    ``source`` is the path relative to the corpus, with ``/``. ``digest`` is the SHA-256 of the raw bytes.
    ``toctree`` lists the sources that the file's toctrees name, in order, as far as they can be
    resolved by the caller. ``notes`` says what the reader met and got over.
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
