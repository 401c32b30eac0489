"""Parse PDF files into documents. Their lines are those of the text that PDFium extracts, page by page.

1. :mod:`branchrank.documents.pdf_pages` extracts the text in a process of its own, with limits of CPU time,
   memory, pages and characters. Each page starts on a new line, and a page without text is an empty line.
2. Each entry of the PDF's outline starts a section: at the line of its page that consists of the entry's
   title or, if no line does, at the first line of the page. Without an outline, each page with text is a
   section. A section starts on a line of its own: an entry that starts on a line of another entry's title is
   left out, and a note counts such entries.
3. A file that is encrypted, damaged or without text is a document with one empty line, and a note says why.
4. A word that is divided by a hyphen at the end of a line is joined. Headers and footers are text.

An index stores the extracted text (:mod:`branchrank.documents.reading`).
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import msgspec

from branchrank.core.io import environment_of_parsers
from branchrank.documents import pdf_pages
from branchrank.documents.document import Findings, Heading, plain_blocks
from branchrank.documents.lines import joined_note, split_lines
from branchrank.documents.reading import Reader

#: A control character is a space, and PDFium's mark of a divided word is removed.
_CLEAN = {code: " " for code in range(32) if code != ord("\t")} | {0xFFFE: "", 0x7F: " "}
#: The CPU time of the extraction of one file.
CPU_SECONDS = 60
_NUMBERING = re.compile(r"[\d.\s]+")
_WHY = {
    pdf_pages.ENCRYPTED: "nothing was read, because the file is encrypted with a password",
    pdf_pages.UNREADABLE: "nothing was read, because the file is not a PDF or is damaged",
}


class _Contents(msgspec.Struct):
    """The title of a PDF, its number of pages, and the level, title and page of each outline entry."""

    title: str = ""
    pages: int = 0
    outline: list[tuple[int, str, int | None]] = []


class _Extract(NamedTuple):
    """The lines of a PDF, and the line on which each page starts."""

    lines: list[str]
    starts: list[int]
    contents: _Contents
    notes: tuple[str, ...]


@lru_cache(maxsize=1)
def _extract(content: bytes) -> _Extract:
    """Extract the text of a PDF. The last result is cached, because readers need its text and its outline."""
    if b"%PDF-" not in content[:1024]:
        return _Extract([""], [1], _Contents(), (_WHY[pdf_pages.UNREADABLE],))
    # -P keeps the modules beside the program from hiding those of the standard library.
    command = [sys.executable, "-P", str(Path(pdf_pages.__file__)), str(CPU_SECONDS)]
    env = environment_of_parsers()
    done = subprocess.run(
        command, input=content, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False, env=env
    )
    head, *rows = done.stdout.split(b"\n")[:-1] or [b""]
    contents = msgspec.json.decode(head, type=_Contents) if head else _Contents()
    pages = [msgspec.json.decode(row, type=str | None) for row in rows]
    lines: list[str] = []
    starts: list[int] = []
    for page in pages:
        starts.append(len(lines) + 1)
        text = (page or "").replace("\r\n", "\n").strip("\r\n")
        lines += (line.translate(_CLEAN).rstrip() for line in text.split("\n"))
    notes = tuple(_notes(done.returncode, contents, pages, any(lines)))
    return _Extract(lines or [""], starts or [1], contents, notes)


def _notes(code: int, contents: _Contents, pages: Sequence[str | None], has_text: bool) -> Iterator[str]:
    if code in _WHY:
        yield _WHY[code]
        return
    if code == -signal.SIGXCPU:
        yield f"page {len(pages) + 1}: the rest was not read, because it takes over {CPU_SECONDS} s"
    elif code:
        yield f"page {len(pages) + 1}: the rest was not read, because PDFium crashed or ran out of memory"
    elif len(pages) < contents.pages:
        yield f"page {len(pages) + 1}: the rest was not read, because the pages or their text are too many"
    if damaged := pages.count(None):
        yield f"{damaged} damaged {'page was' if damaged == 1 else 'pages were'} not read"
    if not has_text and not code:
        yield "has no text: if its pages are scans, add a text layer with OCR"
    if len(contents.outline) > pdf_pages.MAX_ENTRIES:
        yield f"only the first {pdf_pages.MAX_ENTRIES} outline entries were read"


def _key(text: str) -> str:
    """Return the letters and digits of a title without its number, for comparisons."""
    text = unicodedata.normalize("NFKC", text).casefold()
    bare = _NUMBERING.sub("", text, count=1) if _NUMBERING.match(text) else text
    return re.sub(r"[\W_]+", "", bare) or re.sub(r"[\W_]+", "", text)


class _Pdf(Findings):
    """The findings of one PDF."""

    def __init__(self, extract: _Extract) -> None:
        super().__init__()
        self.extract = extract
        self.title = " ".join(extract.contents.title.translate(_CLEAN).split()) or None
        self.notes = [*extract.notes]
        self.headings = self._of_outline() or self._of_pages()
        text = [*extract.lines]
        for heading in self.headings:
            if not heading.in_text:
                text[heading.line_start - 1 : heading.line_end] = [""] * (
                    heading.line_end - heading.line_start + 1
                )
        self.blocks = plain_blocks(text, {*extract.starts, *(each.line_start for each in self.headings)})

    @cached_property
    def ends(self) -> list[int]:
        """The last line of each page."""
        return [*(start - 1 for start in self.extract.starts[1:]), len(self.extract.lines)]

    def _of_pages(self) -> list[Heading]:
        """Return a heading for each page with text, unless there is only one."""
        found = [
            Heading(level=1, title=f"Page {number}", line_start=start, line_end=start, in_text=True)
            for number, (start, end) in enumerate(zip(self.extract.starts, self.ends, strict=True), start=1)
            if any(self.extract.lines[start - 1 : end])
        ]
        return found if len(found) > 1 else []

    def _of_outline(self) -> list[Heading]:
        """Return the headings of the outline entries that start on lines of their own, in line order."""
        found: list[Heading] = []
        searched = dict[int, int]()
        absent = 0
        for level, raw, page in self.extract.contents.outline[: pdf_pages.MAX_ENTRIES]:
            title = " ".join(raw.translate(_CLEAN).split())
            if page is None or not 0 <= page < len(self.extract.starts) or not title:
                absent += 1
                continue
            heading = self._heading(level + 1, title, page, searched.get(page, 0))
            searched[page] = heading.line_end
            found.append(heading)
        if absent:
            self.notes.append(
                f"{absent} outline {'entry has' if absent == 1 else 'entries have'} no page or no title"
            )
        kept: list[Heading] = []
        joined: list[int] = []
        for heading in sorted(found, key=lambda each: each.line_start):
            if kept and heading.line_start <= kept[-1].line_end:
                joined.append(heading.line_start)
            else:
                kept.append(heading)
        self.notes += joined_note(joined)
        return kept

    def _heading(self, level: int, title: str, page: int, searched: int) -> Heading:
        """Return the heading at the lines of a page, after the line ``searched``, that are the title.

        If the page has no such lines, the heading starts on the first line of the page, or on the line
        ``searched`` of the previous entry.
        """
        first, end, wanted = self.extract.starts[page], self.ends[page], _key(title)
        for start in range(max(first, searched + 1), end + 1):
            text = ""
            for last in range(start, min(start + 3, end + 1)):
                text += f"{self.extract.lines[last - 1]} "
                if (key := _key(text)) and key == wanted:
                    return Heading(level, title, start, last)
                if not key or not wanted.startswith(key):
                    break
        line = max(first, searched)
        return Heading(level, title, line, line, in_text=True)


class _PdfReader(Reader):
    binary = True

    def __init__(self) -> None:
        super().__init__(lambda source, lines: Findings())
        self.version = f"pypdfium2 {metadata.version('pypdfium2')}"

    def text(self, content: bytes) -> tuple[str, tuple[str, ...]]:
        """Return the text of all pages."""
        extract = _extract(content)
        return "".join(f"{line}\n" for line in extract.lines), extract.notes

    def read(self, source: str, content: bytes) -> tuple[list[str], Findings]:
        """Return the lines of all pages, and the sections of the outline."""
        return split_lines(self.text(content)[0]), _Pdf(_extract(content))


READER = _PdfReader()
