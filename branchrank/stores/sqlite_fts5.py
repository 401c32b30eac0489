"""Keyword search over one SQLite file with FTS5. Every score lies in 0..1.

The score is ``(e + s / (1 + s)) / 2`` with FTS5's BM25 ``s`` and ``e`` = 1 where the chunk holds one of the
query's terms as it is written, 0 where it only matches in part: by word stem, or (when that doesn't give
enough candidates) by prefix. So exact matches come first, and a score means the same from query to query.

The text of a query is only ever a bound value, its terms quoted FTS5 strings: no operator survives.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from branchrank.stores.sqlite_file import SqliteFile
from branchrank.stores.stop_words import STOP_WORDS

TERM_LIMIT = 32
PREFIX_LENGTH = 2

_TERM = re.compile(r"\"([^\"]*)\"|(\w+)")
_STEMS = "SELECT rowid, -rank FROM stems WHERE stems MATCH ? ORDER BY rank, rowid LIMIT ?"
_STEMS_OF = (
    "SELECT chunks.id, -stems.rank FROM stems JOIN chunks ON chunks.rowid = stems.rowid "
    "WHERE stems MATCH ? AND chunks.id IN ({marks})"
)
_WORDS = "SELECT rowid, -rank FROM words WHERE words MATCH ? ORDER BY rank, rowid LIMIT ?"


class KeywordMatch(NamedTuple):
    """A chunk that FTS5 found: BM25 at least 0, and whether it holds a term as it is written."""

    key: str
    bm25: float
    exact: bool

    @property
    def score(self) -> float:
        """The keyword score, in 0..1; at least 0.5 for exact matches, at most 0.5 for others."""
        return (self.exact + self.bm25 / (1.0 + self.bm25)) / 2.0

    @property
    def note(self) -> str:
        """How the score came about."""
        return f"BM25 {self.bm25:.4f}, {'exact' if self.exact else 'partial'}"


def query_terms(query: str) -> list[str]:
    """The terms of any text, lower case, each once: quoted phrases and words that aren't stop words.

    When all are stop words they are kept. At most :data:`TERM_LIMIT`.
    """
    readable = query.encode("utf-8", "ignore").decode("utf-8").replace("\0", " ").lower()
    found = [" ".join(phrase.split()) or word for phrase, word in _TERM.findall(readable)]
    terms = [term for term in dict.fromkeys(found) if re.search(r"\w", term)]
    telling = [term for term in terms if term not in STOP_WORDS]
    return (telling or terms)[:TERM_LIMIT]


def fts_expression(terms: Iterable[str], *, prefix: bool = False) -> str:
    """An FTS5 expression that matches any of the terms, each quoted; with ``prefix``, their beginnings."""
    return " OR ".join('"' + term.replace('"', '""') + ('"*' if prefix else '"') for term in terms)


def _literal(terms: Iterable[str]) -> re.Pattern[str]:
    """Finds any of the terms as it is written, no word cut; white space in the text must be folded."""
    # A word character may not stand next to a term's own; next to a bracket or a dash it may.
    return re.compile(
        "|".join(
            (r"(?<!\w)" if re.match(r"\w", term) else "")
            + re.escape(term)
            + (r"(?!\w)" if re.search(r"\w\Z", term) else "")
            for term in terms
        )
    )


class Fts5Table:
    """The keyword search of one file. Safe for several threads."""

    def __init__(self, path: Path, root: Path | None = None) -> None:
        """Open ``path`` as :class:`~branchrank.stores.sqlite_file.SqliteFile` does; it raises the same."""
        self.file = SqliteFile(path, root)

    def matches(self, query: str, n: int) -> list[KeywordMatch]:
        """At most ``n`` chunks that hold a term of the query: exact matches first, by BM25, ties by id."""
        terms = query_terms(query)
        if not terms:
            return []
        found = self.file.rows(_STEMS, (fts_expression(terms), n))
        begun = [term for term in terms if len(term) >= PREFIX_LENGTH]
        if len(found) < n and begun:
            seen = {row for row, _ in found}
            more = self.file.rows(_WORDS, (fts_expression(begun, prefix=True), n))
            found += [(row, bm25) for row, bm25 in more if row not in seen]
        literal = _literal(terms)
        chunks = self.file.chunks([int(str(row)) for row, _ in found])
        matches = [
            KeywordMatch(
                chunk.id,
                max(0.0, float(str(bm25))),
                literal.search(" ".join(f"{chunk.breadcrumb}\n{chunk.text}".lower().split())) is not None,
            )
            for chunk, (_, bm25) in zip(chunks, found, strict=True)
        ]
        return sorted(matches, key=lambda match: (-match.score, match.key))[:n]

    def bm25(self, query: str, keys: Sequence[str]) -> dict[str, float]:
        """FTS5's BM25 of some chunks, at least 0; 0 for one that holds no term of the query by its stem."""
        scores = dict.fromkeys(keys, 0.0)
        terms = query_terms(query)
        if terms and keys:
            statement = _STEMS_OF.format(marks=",".join("?" * len(keys)))
            found = self.file.rows(statement, (fts_expression(terms), *keys))
            scores |= {str(key): max(0.0, float(str(bm25))) for key, bm25 in found}
        return scores

    def close(self) -> None:
        """Close the file."""
        self.file.close()
