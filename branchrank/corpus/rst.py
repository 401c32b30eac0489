"""The reader of reStructuredText.

1. The bytes are decoded and split into lines.
2. The scanner finds headings and blocks with exact lines, docutils reads inline markup and tables.
   No directive is run: nothing is included, inserted or executed. An unknown directive or role is read as
   text.
3. Headings and blocks become sections.
"""

from __future__ import annotations

from hashlib import sha256

from branchrank.corpus.document import Document
from branchrank.corpus.lines import decode, split_lines
from branchrank.corpus.rst_scan import Scanner
from branchrank.corpus.sections import finish_sections, limit_headings


def read_rst(source: str, content: bytes) -> Document:
    """Read an RST file. Never raises, whatever the file contains.

    In the result, ``toctree`` holds the entries as written, including globs; ``labels`` holds the internal
    targets, normalised as RST compares names; ``references`` holds the cross references with explicit text.
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
