"""A query as the engine gets it: its words, what it must not find, and whom it is asked for."""

from __future__ import annotations

import fnmatch

from branchrank.errors import UsageError
from branchrank.records import Record, Span

#: Keys that a filter can name, and the field of a document that each compares.
FILTER_KEYS = {"file_path": "source", "source": "source"}


class Filter(Record, frozen=True, kw_only=True):
    """Keeps documents whose ``key`` equals ``pattern`` or matches it as a glob (``guide/*.md``)."""

    key: str
    pattern: str

    def admits(self, source: str) -> bool:
        """Whether a document passes."""
        return source == self.pattern or fnmatch.fnmatchcase(source, self.pattern)


class Query(Record, frozen=True, kw_only=True):
    """One query. ``keywords`` are exact words for the branches that match words, in place of the text's own.

    Nothing inside ``excluded`` and nothing that a filter rejects enters a ranking. ``question_id`` and
    ``repeat`` name the query in LLM calls.
    """

    text: str
    keywords: str = ""
    excluded: tuple[Span, ...] = ()
    filters: tuple[Filter, ...] = ()
    question_id: str = ""
    repeat: int = 0

    @property
    def restricted(self) -> bool:
        """Whether some of the corpus is left out."""
        return bool(self.excluded or self.filters)

    def admits(self, span: Span) -> bool:
        """Whether a passage may be found: it passes every filter, and no excluded span holds it whole."""
        if not all(each.admits(span.source) for each in self.filters):
            return False
        return all(span.overlap(outer) < span.lines for outer in self.excluded)


def read_filter(text: str) -> Filter:
    """Read ``KEY=VALUE``. Raises :class:`UsageError` for a key that documents do not have."""
    key, equals, pattern = text.partition("=")
    if not equals or key not in FILTER_KEYS:
        raise UsageError(
            f"the filter {text!r} names no known key", remedy=f"write {' or '.join(FILTER_KEYS)}=PATH"
        )
    return Filter(key=key, pattern=pattern)
