"""Parse reStructuredText (RST) files into documents.

1. The bytes of the file are decoded and split into lines.
2. :mod:`branchrank.corpus.rst_scan` finds the headings and blocks with their exact lines. docutils reads
   inline markup and tables. Directives are never run, so no other file is included and no code is executed.
   Unknown directives and roles are read as text.
3. The headings and blocks become sections.
"""

from __future__ import annotations

from hashlib import sha256

from branchrank.corpus.document import Document, finish_sections, limit_headings
from branchrank.corpus.lines import decode, split_lines
from branchrank.corpus.rst_scan import Scanner


def read_rst(source: str, content: bytes) -> Document:
    """Read an RST file. Malformed content raises no exception.

    In the returned document, ``toctree`` contains the toctree entries as written, including patterns.
    ``labels`` contains the internal targets with normalized names. ``references`` contains the cross
    references that have explicit link text.
    """
    text, notes = decode(content)
    lines = split_lines(text)
    scanner = Scanner(source, lines)
    scanner.scan()
    headings, rest, more_notes = limit_headings(source, scanner.headings, len(content))
    sections = finish_sections(
        source, headings=headings, blocks=[*scanner.blocks, *rest], line_count=len(lines)
    )
    return Document(
        source=source,
        title=sections[0].title,
        digest=sha256(content).hexdigest(),
        line_count=len(lines),
        sections=sections,
        toctree=tuple(scanner.toctree),
        labels=tuple(scanner.labels),
        references=tuple(scanner.inline.references),
        notes=(*notes, *more_notes),
    )
