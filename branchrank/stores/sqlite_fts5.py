"""Search the chunks in a SQLite file by keywords with FTS5. Every score is between 0 and 1.

A chunk matches a query if it contains a word with the same stem as a term of the query. If too few chunks
match by stem, the results also include chunks with words that start with a term of the query.

The score of a chunk is ``(e + s / (1 + s)) / 2``, where ``s`` is FTS5's BM25 score. ``e`` is 1 if the chunk
contains one of the query's terms exactly as written, and 0 otherwise. With this formula, chunks that contain
a term exactly as written always rank above other chunks, and the scores of different queries are comparable.

The terms of a query are quoted as FTS5 strings and passed as a bound value, so a query can't contain FTS5 or
SQL operators.
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
    """A chunk that FTS5 found.

    ``bm25`` is the BM25 score, at least 0. ``exact`` is true if the chunk contains a term of the query
    exactly as written.
    """

    key: str
    bm25: float
    exact: bool

    @property
    def score(self) -> float:
        """The keyword score, from 0.5 to 1 for exact matches and from 0 to 0.5 for other matches."""
        return (self.exact + self.bm25 / (1.0 + self.bm25)) / 2.0

    @property
    def note(self) -> str:
        """A short explanation of the keyword score."""
        return f"BM25 {self.bm25:.4f}, {'exact' if self.exact else 'partial'}"


def query_terms(query: str) -> list[str]:
    """Return the distinct terms of a query in lower case. A term is a quoted phrase or a word.

    Stop words are removed, unless all terms are stop words. Only the first :data:`TERM_LIMIT` terms are
    returned.
    """
    readable = query.encode("utf-8", "ignore").decode("utf-8").replace("\0", " ").lower()
    found = [" ".join(phrase.split()) or word for phrase, word in _TERM.findall(readable)]
    terms = [term for term in dict.fromkeys(found) if re.search(r"\w", term)]
    telling = [term for term in terms if term not in STOP_WORDS]
    return (telling or terms)[:TERM_LIMIT]


def fts_expression(terms: Iterable[str], *, prefix: bool = False) -> str:
    """Return an FTS5 expression that matches any of the terms.

    If ``prefix`` is true, the expression also matches words that start with one of the terms.
    """
    return " OR ".join('"' + term.replace('"', '""') + ('"*' if prefix else '"') for term in terms)


def _literal(terms: Iterable[str]) -> re.Pattern[str]:
    """Return a regular expression that matches any of the terms as whole words."""
    # A word boundary is required only where a term starts or ends with a word character, not punctuation.
    return re.compile(
        "|".join(
            (r"(?<!\w)" if re.match(r"\w", term) else "")
            + re.escape(term)
            + (r"(?!\w)" if re.search(r"\w\Z", term) else "")
            for term in terms
        )
    )


class Fts5Table:
    """Keyword search with FTS5 in one SQLite file. Several threads can search at the same time."""

    def __init__(self, path: Path, root: Path | None = None) -> None:
        """Open the file ``path``.

        Raises the same errors as :class:`~branchrank.stores.sqlite_file.SqliteFile`.
        """
        self.file = SqliteFile(path, root)

    def matches(self, query: str, n: int) -> list[KeywordMatch]:
        """Return at most ``n`` chunks that match a term of the query.

        Chunks are sorted by keyword score, highest first, so exact matches come first. Chunks with equal
        scores are sorted by id.
        """
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
        """Return FTS5's BM25 score (at least 0) of each chunk whose id is in ``keys``.

        The score is 0 if the chunk contains no word with the same stem as a term of the query.
        """
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
