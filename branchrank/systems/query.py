"""A query to the engine, with its text, keywords, filters, excluded spans and question id."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from branchrank.errors import UsageError, or_else
from branchrank.records import Record, Span
from branchrank.settings import arguments

#: Maps each possible filter key to the document field that is compared with the filter's value.
FILTER_KEYS = {"file_path": "source", "source": "source"}


class Filter(Record, frozen=True, kw_only=True):
    """Admits documents whose path equals ``pattern``, or matches it as a glob such as ``guide/*.md``."""

    key: str
    pattern: str

    def admits(self, source: str) -> bool:
        """Return whether a document passes the filter."""
        return source == self.pattern or fnmatch.fnmatchcase(source, self.pattern)


class Query(Record, frozen=True, kw_only=True):
    """One query, with its text and its restrictions.

    If ``keywords`` is given, ``grep``, ``fts5`` and ``qdrant-sparse`` search for ``keywords`` instead of
    ``text``. Passages that are inside an excluded span or rejected by a filter are not ranked.
    ``question_id`` and ``repeat`` identify the query in LLM calls.
    """

    text: str
    keywords: str = ""
    excluded: tuple[Span, ...] = ()
    filters: tuple[Filter, ...] = ()
    question_id: str = ""
    repeat: int = 0

    @property
    def restricted(self) -> bool:
        """Whether the query has filters or excluded spans."""
        return bool(self.excluded or self.filters)

    def admits(self, span: Span) -> bool:
        """Return whether a passage passes every filter and is not completely inside an excluded span."""
        if not all(each.admits(span.source) for each in self.filters):
            return False
        return all(span.overlap(outer) < span.lines for outer in self.excluded)


def read_filters(texts: str | Sequence[str]) -> tuple[Filter, ...]:
    """Parse one or more filters of the form ``KEY=VALUE``. A document must pass every filter.

    Raises :class:`UsageError` for an unknown key or an empty value.

    >>> [each.pattern for each in read_filters(["file_path=guide/*", "source=*.md"])]
    ['guide/*', '*.md']
    """
    return tuple(_read(text) for text in arguments.texts("filters", texts, "file_path=guide/*"))


def _read(text: str) -> Filter:
    key, equals, pattern = text.partition("=")
    if key not in FILTER_KEYS:
        raise UsageError(
            f"the filter {text!r} has no known key{or_else(key, FILTER_KEYS)}",
            remedy=f"write {' or '.join(FILTER_KEYS)}=PATH",
        )
    if not equals or not pattern:
        raise UsageError(f"the filter {text!r} has no value", remedy=f"write {key}=PATH")
    return Filter(key=key, pattern=pattern)
