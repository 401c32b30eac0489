"""Open a chunker by its name, and find the lines and the sections of its chunks.

The setting ``index.chunker`` selects the chunker.

- ``sections`` divides each section of a document (:mod:`branchrank.documents.chunking`). It is not opened
here.
- ``window``, ``sentences``, ``recursive`` and ``document`` ignore headings, and ``langchain:CLASS``,
  ``llamaindex:CLASS`` and ``chonkie:CLASS`` are classes of these packages
  (:mod:`branchrank.documents.text_chunkers`).
- Another name is that of an entry point in the group ``branchrank.chunkers`` of an installed package.
- ``MODULE:OBJECT`` is an object or a class in a module of the user.

A chunker is given the lines of a document, or the readable text on these lines if the format is not meant to
be read as it is (HTML, notebooks), and returns the texts of the chunks in order. Their lines are found
without regard to whitespace:

1. at the offset that the chunker gives, if the text is there and does not start before the previous chunk;
2. directly after the previous chunk;
3. at the first place that does not start before the previous chunk, and ends after it;
4. at the first place that does not start before the previous chunk;
5. anywhere else in the document;
6. where it is most similar to the document (:mod:`branchrank.documents.locating`), if the chunker changed it.

A chunk whose text is not found is left out, and counted in a note. A chunk belongs to the section with which
it shares the most lines (the first of several), and it records all sections that it overlaps.
"""

from __future__ import annotations

import importlib
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from branchrank.core.errors import BranchRankError, UsageError, first_line
from branchrank.core.io.files import digest_file
from branchrank.core.records import Chunk, Passage
from branchrank.core.registry import Registry
from branchrank.core.settings import SECTIONS, IndexSettings
from branchrank.documents.chunking import token_counter
from branchrank.documents.document import Document
from branchrank.documents.reading import document_lines, reader_of, suffix_of
from branchrank.documents.text_chunkers import (
    PACKAGES,
    ChunkSize,
    Piece,
    TextChunker,
    adapted,
    named_class,
    package_version,
)

if TYPE_CHECKING:
    from branchrank.documents.locating import Locator

BUILTIN = (SECTIONS, "window", "recursive", "sentences", "document")
_KNOWN = (*BUILTIN, *(f"{package}:CLASS" for package in PACKAGES))
CHUNKERS = Registry[object]("chunker", "chunkers", dict.fromkeys(_KNOWN, ""), flag="--chunker")


class Chunker(Protocol):
    """Divides the text of a document into chunks."""

    def chunk(self, text: str) -> Iterable[str | Piece]:
        """Return the chunks in order. ``text`` has the document's lines, joined by line breaks."""
        ...


def is_code(name: str) -> bool:
    """Return whether ``name`` is a ``MODULE:OBJECT``, so that opening the chunker runs a user's module."""
    return ":" in name and name.partition(":")[0] not in PACKAGES


def open_chunker(name: str, tokens: int, overlap: int) -> Chunker | None:
    """Open the chunker ``name``, or return ``None`` for the default chunker ``sections``.

    ``tokens`` is the size of a chunk, and ``overlap`` the number of tokens that two chunks share, which is
    limited to half of a chunk. Raises :class:`UsageError` for an unknown name and for a chunker that can't be
    made, and :class:`~branchrank.core.errors.MissingDependencyError` if its package is not installed.
    """
    if name == SECTIONS:
        return None
    size = ChunkSize(tokens, min(overlap, tokens // 2), token_counter())
    if name in BUILTIN:
        return TextChunker(name, size)
    prefix, colon, rest = name.partition(":")
    if prefix in PACKAGES:
        return adapted(named_class(prefix, rest), name, size)
    if name in CHUNKERS.installed:
        return adapted(CHUNKERS.get(name), name, size)
    if colon:
        return adapted(_object(prefix, rest), name, size)
    raise CHUNKERS.unknown(name)


def check_chunker(settings: IndexSettings) -> None:
    """Raise the errors of :func:`open_chunker` before any other work."""
    open_chunker(settings.chunker, settings.chunk_tokens, settings.chunk_overlap)


def chunker_version(name: str) -> str:
    """Return what identifies the code of a chunker: a package's version, or the digest of a module's file.

    The version of a built-in chunker, and of one whose code is not available here, is empty.
    """
    prefix, colon, _ = name.partition(":")
    if name in BUILTIN:
        return ""
    if prefix in PACKAGES:
        return package_version(prefix)
    if entry := CHUNKERS.installed.get(name):
        return f"{entry.dist.name} {entry.dist.version}" if entry.dist else ""
    try:
        spec = find_spec(prefix) if colon else None
    except (ImportError, ValueError):
        return ""
    origin = spec.origin if spec is not None else None
    return digest_file(Path(origin)) if origin and Path(origin).is_file() else ""


def _object(module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as error:  # The user's module can raise any exception.
        raise UsageError(
            f"the chunker {module}:{name} cannot be imported: {first_line(error)}",
            remedy=f"check that {module}.py is in the working directory or on PYTHONPATH, and defines {name}",
        ) from error


def lines_to_chunk(root: Path, document: Document) -> list[str]:
    """Return the lines that a chunker gets, which have the line numbers of the document.

    ``root`` is the folder of the corpus.
    """
    lines = document_lines(root, document.source)
    if not reader_of(suffix_of(document.source)).readable:
        lines = [""] * len(lines)
        for block in (block for section in document.sections for block in section.blocks):
            for number, line in enumerate(block.text.split("\n"), start=block.line_start - 1):
                lines[number] = f"{lines[number]} {line}".strip()
    return lines


def chunks_of(
    document: Document, lines: Sequence[str], chunker: Chunker, name: str
) -> tuple[list[Chunk], list[str]]:
    """Return the chunks of a document with the lines ``lines``, and a note if some were not found.

    ``name`` is the chunker's name in messages. Raises :class:`UsageError` if the chunker fails.
    """
    try:
        pieces = list(chunker.chunk("\n".join(lines)))
        texts = [piece if isinstance(piece, str) else str(piece.text) for piece in pieces]
    except BranchRankError:
        raise
    except Exception as error:  # Another package's chunker can raise any exception.
        raise UsageError(
            f"the chunker {name} failed on {document.source!r}: {first_line(error)}",
            remedy="correct the chunker, or exclude the document in branchrank.toml",
        ) from error
    finder = _LineFinder(lines)
    sections = _Sections(document)
    numbers: Counter[str] = Counter()
    chunks: list[Chunk] = []
    lost = 0
    for piece, text in zip(pieces, texts, strict=True):
        if not text.strip():
            continue
        found = finder.find(text, getattr(piece, "start_index", None))
        if found is None:
            lost += 1
            continue
        node_id, node_ids = sections.overlapping(*found)
        numbers[node_id] += 1
        chunks.append(
            Chunk(
                id=f"{node_id}@{numbers[node_id]}",
                node_id=node_id,
                node_ids=node_ids if len(node_ids) > 1 else (),
                source=document.source,
                line_start=found[0],
                line_end=found[1],
                breadcrumb="",
                text=text,
            )
        )
    total = len(chunks) + lost
    note = f"{document.source!a}: the text of {lost} of {total} chunks does not occur in the document"
    return chunks, [f"{note}; they were left out"] if lost else []


def _squeezed(text: str) -> str:
    return "".join(text.split())


class _LineFinder:
    """Finds the lines of chunks, in the order of the chunks. All offsets ignore whitespace."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._raw = "\n".join(lines)
        parts: list[str] = []
        #: The offset at which each line that is not blank starts, and the number of the line.
        self._starts: list[int] = []
        self._numbers: list[int] = []
        offset = 0
        for number, line in enumerate(lines, start=1):
            if part := _squeezed(line):
                parts.append(part)
                self._starts.append(offset)
                self._numbers.append(number)
                offset += len(part)
        self._text = "".join(parts)
        #: The previous chunk.
        self._start = self._end = 0
        #: An offset with whitespace, and the same offset without.
        self._known = (0, 0)

    def find(self, text: str, start_index: object = None) -> tuple[int, int] | None:
        """Return the first and the last line of a chunk's text, or ``None`` if the text does not occur."""
        wanted = _squeezed(text)
        given = None
        if isinstance(start_index, int) and 0 <= start_index <= len(self._raw):
            given = self._without_whitespace(start_index)
        if given is not None and given >= self._start and self._text.startswith(wanted, given):
            start = given
        elif self._text.startswith(wanted, self._end):
            start = self._end
        else:
            start = self._search(wanted)
        if start < 0:
            return self._anchored(text)
        self._start, self._end = start, start + len(wanted)
        return self._line(start), self._line(self._end - 1)

    def _search(self, wanted: str) -> int:
        for first in (max(self._start, self._end + 1 - len(wanted)), self._start, 0):
            start = self._text.find(wanted, first)
            if start >= 0:
                return start
        return -1

    def _anchored(self, text: str) -> tuple[int, int] | None:
        """Return the lines of a text that the chunker has changed, or ``None`` if it has no clear place.

        Of equally good places, the one directly after the previous chunk counts.
        """
        if not self._numbers:
            return None
        here = self._line(min(self._end, len(self._text) - 1))
        found = self._locator.find(Passage(text=text, line_start=here, line_end=here))
        if isinstance(found, str):
            return None
        self._start = self._starts[bisect_left(self._numbers, found.line_start)]
        self._end = [*self._starts, len(self._text)][bisect_right(self._numbers, found.line_end)]
        return found.line_start, found.line_end

    @cached_property
    def _locator(self) -> Locator:
        from branchrank.documents.locating import Locator

        return Locator({"": self._raw.split("\n")})

    def _without_whitespace(self, offset: int) -> int:
        """Convert an offset. The time depends on the distance from the previous offset."""
        known, squeezed = self._known
        between = len(_squeezed(self._raw[min(known, offset) : max(known, offset)]))
        squeezed += between if offset >= known else -between
        self._known = (offset, squeezed)
        return squeezed

    def _line(self, offset: int) -> int:
        return self._numbers[bisect_right(self._starts, offset) - 1]


class _Sections:
    """The own spans of a document's sections, which contain each line of the document once."""

    def __init__(self, document: Document) -> None:
        own = [each for each in document.sections if each.own_line_end >= each.line_start]
        self._own = sorted(own, key=lambda section: section.line_start)
        self._starts = [section.line_start for section in self._own]

    def overlapping(self, first: int, last: int) -> tuple[str, tuple[str, ...]]:
        """Return the section that shares the most lines with a span, and all sections, as ids."""
        found = self._own[bisect_right(self._starts, first) - 1 : bisect_right(self._starts, last)]
        most = max(found, key=lambda each: min(each.own_line_end, last) - max(each.line_start, first))
        return most.id, tuple(section.id for section in found)
