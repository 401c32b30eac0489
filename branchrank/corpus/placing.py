"""Where in a corpus a text stands that another program took from it.

1. A document is named by a path: relative to the corpus, absolute, or with folders in front that the corpus
   does not have. Of several paths the first that is a document counts.
2. Lines that are given count when they hold the text, compared normalised, or when there is no text.
3. Else the text is looked for: in its document, and where none is named, in the whole corpus, where it must
   stand once. Of several places in a document the nearest to the given lines wins; without lines, the first
   that no earlier text took, from the last text of that document on, for programs cut documents in order.
4. A text that stands nowhere keeps the lines given, unconfirmed, where the document has such lines.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple

from branchrank.corpus.lines import decode, split_lines
from branchrank.corpus.normalised import NormalisedLines, normalise
from branchrank.records import Record, Span
from branchrank.safe_open import read_beneath

_PATHS = ("file_path", "path", "source")
_TEXTS = ("text", "page_content", "content", "document")
#: By what a text has its lines.
Evidence = Literal["lines", "anchored", "unconfirmed"]


class Passage(Record, frozen=True, kw_only=True):
    """A text, and what is said of where it stands; ``paths`` are names of its document, the best first."""

    text: str
    paths: tuple[str, ...] = ()
    lines: tuple[int, int] | None = None


def opened_up(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an object, those of its ``metadata`` among them."""
    metadata = fields.get("metadata")
    return {**(metadata if isinstance(metadata, Mapping) else {}), **fields}


def passage_of(fields: Mapping[str, Any]) -> Passage:
    """The text of an object, as programs that cut documents store it, and what it says of its place."""
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
    """A field that is a string; empty where it is missing or something else."""
    value = fields.get(name)
    return value if isinstance(value, str) else ""


class Place(NamedTuple):
    """The lines of a text, and by what."""

    span: Span
    by: Evidence


class Places:
    """Finds texts in the documents ``sources`` below ``root``, which are read at once."""

    def __init__(self, root: Path, sources: Iterable[str]) -> None:
        self._root = root.resolve()
        self._lines: dict[str, Sequence[str]] = {}
        for source in sources:
            with contextlib.suppress(OSError):
                self._lines[source] = split_lines(decode(read_beneath(root, source))[0])
        self._taken: set[Span] = set()
        self._last: dict[str, int] = {}
        self._normalised = cache(lambda source: NormalisedLines.of(self._lines[source]))

    def source(self, paths: Sequence[str]) -> str:
        """The document that the first usable path names; empty when none does."""
        return next((source for path in paths if (source := self._source(path))), "")

    def place(self, passage: Passage) -> Place | str:
        """Where a text stands, or in words why that can't be said."""
        place = self._place(passage)
        if isinstance(place, Place):
            self._taken.add(place.span)
            self._last[place.span.source] = place.span.line_start
        return place

    def _place(self, passage: Passage) -> Place | str:
        text = normalise(passage.text)
        source, lines = self.source(passage.paths), passage.lines
        given = None
        if source and lines and 1 <= lines[0] <= lines[1] <= len(self._lines[source]):
            given = Span(source=source, line_start=lines[0], line_end=lines[1])
            if text in normalise("\n".join(self._lines[source][lines[0] - 1 : lines[1]])):
                return Place(given, "lines")
        if not text:
            return "it has neither text nor lines of a document"
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
            for first, last in self._normalised(each).quoted(text)
        ]
        if not spans:
            return f"its text is not in {source or 'the corpus'}"
        if not source and len(spans) > 1:
            return f"no document is named, and its text stands at {len(spans)} places"
        if lines is not None:
            start = lines[0]
            return min(spans, key=lambda span: (abs(span.line_start - start), span.line_start))
        last = self._last.get(source, 0)
        return min(spans, key=lambda span: (span in self._taken, span.line_start < last, span.line_start))
