"""Find the lines in a corpus from which another program extracted a passage of text.

1. A passage can list several possible paths for its document. A path can be absolute or relative to the
   corpus folder, and can start with folders that do not exist in the corpus. The first path that matches a
   document is used.
2. A passage's line numbers are used if the document's lines with these numbers contain the passage's
   normalized text. If a passage has no text, its line numbers are used unchecked.
3. In all other cases, the document is searched for the passage's text. If no path matches a document, the
   whole corpus is searched, and the text must occur exactly once.
4. If a document contains the text several times, the occurrence nearest to the passage's line numbers is
   used. For a passage without line numbers, occurrences that were not used for an earlier passage are
   preferred. If several occurrences are unused, the first one after the start of the previous passage is
   preferred, because most programs write the passages of a document in the order of the document.
5. If the text is not found, but the passage's line numbers exist in the document, the line numbers are used
   and marked as unconfirmed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple

from branchrank.core.records import Record, Span
from branchrank.documents.lines import NormalizedLines, normalize
from branchrank.documents.reading import document_lines

_PATHS = ("file_path", "path", "source")
_TEXTS = ("text", "page_content", "content", "document")
#: How line numbers were determined: given and confirmed, found by a search, or given but unconfirmed.
Evidence = Literal["lines", "anchored", "unconfirmed"]


class Passage(Record, frozen=True, kw_only=True):
    """A text from another program, with its location according to that program.

    ``paths`` contains the possible paths of the passage's document, the most reliable path first. ``lines``
    contains the first and the last line number.
    """

    text: str
    paths: tuple[str, ...] = ()
    lines: tuple[int, int] | None = None


def opened_up(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an object and of its ``metadata``. The object's own fields take precedence."""
    metadata = fields.get("metadata")
    return {**(metadata if isinstance(metadata, Mapping) else {}), **fields}


def passage_of(fields: Mapping[str, Any]) -> Passage:
    """Read a passage from a JSON object that uses the field names of common text splitters."""
    first, last = (
        next((value for name in names if isinstance(value := fields.get(name), int)), None)
        for names in (("line_start", "start_line"), ("line_end", "end_line"))
    )
    return Passage(
        text=next((text for name in _TEXTS if (text := string_of(fields, name))), ""),
        paths=tuple(path for name in _PATHS if (path := string_of(fields, name))),
        lines=None if first is None or last is None else (first, last),
    )


def string_of(fields: Mapping[str, Any], name: str) -> str:
    """Return the value of the ``name`` field, or an empty string if it is missing or not a string."""
    value = fields.get(name)
    return value if isinstance(value, str) else ""


class Place(NamedTuple):
    """The lines of a text, and how the line numbers were determined."""

    span: Span
    by: Evidence


class Places:
    """Finds texts in the documents listed in ``sources``, whose paths are relative to ``root``.

    The constructor reads all documents.
    """

    def __init__(self, root: Path, sources: Iterable[str]) -> None:
        self._root = root.resolve()
        self._lines: dict[str, Sequence[str]] = {}
        for source in sources:
            with contextlib.suppress(OSError):
                self._lines[source] = document_lines(root, source)
        self._taken: set[Span] = set()
        self._last: dict[str, int] = {}
        self._normalized = cache(lambda source: NormalizedLines.of(self._lines[source]))

    def source(self, paths: Sequence[str]) -> str:
        """Return the document that the first matching path in ``paths`` refers to, or an empty string."""
        return next((source for path in paths if (source := self._source(path))), "")

    def place(self, passage: Passage) -> Place | str:
        """Return the lines of a passage, or a message that says why they can't be determined."""
        place = self._place(passage)
        if isinstance(place, Place):
            self._taken.add(place.span)
            self._last[place.span.source] = place.span.line_start
        return place

    def _place(self, passage: Passage) -> Place | str:
        text = normalize(passage.text)
        source, lines = self.source(passage.paths), passage.lines
        given = None
        if source and lines and 1 <= lines[0] <= lines[1] <= len(self._lines[source]):
            given = Span(source=source, line_start=lines[0], line_end=lines[1])
            if text in normalize("\n".join(self._lines[source][lines[0] - 1 : lines[1]])):
                return Place(given, "lines")
        if not text:
            return "it has neither text nor valid line numbers"
        found = self._anchored(text, source, lines)
        if isinstance(found, Span):
            return Place(found, "anchored")
        return Place(given, "unconfirmed") if given else found

    def _source(self, path: str) -> str:
        path = path.removeprefix("file://").replace("\\", "/")
        if path in self._lines:
            return path
        parts = PurePosixPath(path).parts
        if path.startswith("/"):
            below = PurePosixPath(*parts)
            if below.is_relative_to(self._root.as_posix()):
                parts = below.relative_to(self._root.as_posix()).parts
        shorter = ("/".join(parts[start:]) for start in range(len(parts)))
        return next((candidate for candidate in shorter if candidate in self._lines), "")

    def _anchored(self, text: str, source: str, lines: tuple[int, int] | None) -> Span | str:
        spans = [
            Span(source=each, line_start=first, line_end=last)
            for each in ([source] if source else self._lines)
            for first, last in self._normalized(each).quoted(text)
        ]
        if not spans:
            return f"its text does not occur in {source or 'the corpus'}"
        if not source and len(spans) > 1:
            return f"no path matches a document, and its text occurs {len(spans)} times in the corpus"
        if lines is not None:
            start = lines[0]
            return min(spans, key=lambda span: (abs(span.line_start - start), span.line_start))
        last = self._last.get(source, 0)
        return min(spans, key=lambda span: (span in self._taken, span.line_start < last, span.line_start))
