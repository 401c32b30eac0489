"""Extract the outline and the text of each page of a PDF. :mod:`branchrank.documents.pdf` runs this file.

This file runs as a program of its own, because PDFium can't be interrupted: a small PDF can ask for years of
work, and a mistake in a C++ library ends its process. The program reads the PDF from its standard input. It
writes one line of JSON with the title and the outline, then one line for the text of each page, as soon as
the page has been read. It limits its own CPU time (the seconds are its argument) and
memory. JavaScript, forms and attachments are not read.
"""

from __future__ import annotations

import contextlib
import json
import resource
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any

_MEMORY_BYTES = 2 * 2**30
MAX_PAGES = 20_000
MAX_CHARACTERS = 32 * 2**20
MAX_ENTRIES = 10_000
#: The levels of an outline that are read. The library reads each level with a function call.
_MAX_DEPTH = 500
_MAX_TITLE = 300
#: The exit codes for a file that is encrypted or that PDFium can't open.
ENCRYPTED, UNREADABLE = 3, 4


def main() -> int:
    """Write the contents of the PDF on the standard input. Return the exit code."""
    _limit(resource.RLIMIT_CPU, int(sys.argv[1]))
    _limit(resource.RLIMIT_AS, _MEMORY_BYTES)
    _limit(resource.RLIMIT_CORE, 0)
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(sys.stdin.buffer.read())
    except pypdfium2.PdfiumError as error:
        return ENCRYPTED if "password" in str(error).lower() else UNREADABLE
    pages = len(document)
    outline = list(islice(_outline(document), MAX_ENTRIES + 1))
    _write({"title": document.get_metadata_value("Title")[:_MAX_TITLE], "pages": pages, "outline": outline})
    characters = 0
    for number in range(min(pages, MAX_PAGES)):
        text = _text(document, number)
        characters += len(text or "")
        if characters > MAX_CHARACTERS:
            break
        _write(text)
    return 0


def _limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
    with contextlib.suppress(OSError, ValueError):  # macOS does not limit the address space
        resource.setrlimit(kind, (allowed, hard))


def _outline(document: Any) -> Iterator[tuple[int, str, int | None]]:
    """Yield the level, the title and the page (from 0) of each entry. The library detects cycles."""
    import pypdfium2

    for entry in document.get_toc(max_depth=_MAX_DEPTH):
        try:
            target = entry.get_dest()
            yield entry.level, entry.get_title()[:_MAX_TITLE], target.get_index() if target else None
        except (pypdfium2.PdfiumError, UnicodeError):
            yield entry.level, "", None


def _text(document: Any, number: int) -> str | None:
    """Return the text of a page, or ``None`` if the page is damaged."""
    import pypdfium2

    try:
        page = document[number]
        lines = page.get_textpage()
        text: str = lines.get_text_range()
    except pypdfium2.PdfiumError:
        return None
    lines.close()
    page.close()
    return text


def _write(value: object) -> None:
    sys.stdout.buffer.write(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
