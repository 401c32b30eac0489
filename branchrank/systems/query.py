"""The engine's query: its text and keywords, its filters and excluded spans, and its id."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from branchrank import arguments
from branchrank.errors import UsageError, or_else
from branchrank.records import Record, Span

#: Keys that a filter can name, and the field of a document that each compares.
FILTER_KEYS = {"file_path": "source", "source": "source"}


class Filter(Record, frozen=True, kw_only=True):
    """Admits documents whose ``key`` equals ``pattern`` or matches it as a glob (``guide/*.md``)."""

    key: str
    pattern: str

    def admits(self, source: str) -> bool:
        """Whether a document passes."""
        return source == self.pattern or fnmatch.fnmatchcase(source, self.pattern)


class Query(Record, frozen=True, kw_only=True):
    """One query. ``keywords`` replace the text's own words in the branches that match words.

    Passages inside ``excluded`` or rejected by a filter never enter a ranking. ``question_id`` and ``repeat``
    identify the query in LLM calls.
    """

    text: str
    keywords: str = ""
    excluded: tuple[Span, ...] = ()
    filters: tuple[Filter, ...] = ()
    question_id: str = ""
    repeat: int = 0

    @property
    def restricted(self) -> bool:
        """Whether the query excludes a part of the corpus."""
        return bool(self.excluded or self.filters)

    def admits(self, span: Span) -> bool:
        """Whether a passage may be found: it passes every filter, and no excluded span holds it whole."""
        if not all(each.admits(span.source) for each in self.filters):
            return False
        return all(span.overlap(outer) < span.lines for outer in self.excluded)


def read_filters(texts: str | Sequence[str]) -> tuple[Filter, ...]:
    """Read one or several ``KEY=VALUE``; a document must pass all of them.

    Raises :class:`UsageError` for a key that documents do not have.

    >>> [each.pattern for each in read_filters(["file_path=guide/*", "source=*.md"])]
    ['guide/*', '*.md']
    """
    return tuple(_read(text) for text in arguments.texts("filters", texts, "file_path=guide/*"))


def _read(text: str) -> Filter:
    key, equals, pattern = text.partition("=")
    if key not in FILTER_KEYS:
        raise UsageError(
            f"the filter {text!r} names no known key{or_else(key, FILTER_KEYS)}",
            remedy=f"write {' or '.join(FILTER_KEYS)}=PATH",
        )
    if not equals or not pattern:
        raise UsageError(f"the filter {text!r} has no value", remedy=f"write {key}=PATH")
    return Filter(key=key, pattern=pattern)
