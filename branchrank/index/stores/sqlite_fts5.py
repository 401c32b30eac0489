"""Search chunks by keywords with SQLite's FTS5. Every score is between 0 and 1.

1. A chunk matches a query if it contains a word with the same stem as a term of the query. If too few chunks
   match by stem, the results also include chunks with words that start with a term of the query.
2. The score of a chunk is ``(e + s / (1 + s)) / 2``, where ``s`` is FTS5's BM25 score. ``e`` is 1 if the
   chunk contains one of the query's terms exactly as written, and 0 otherwise. With this formula, chunks that
   contain a term exactly as written always rank above other chunks, and the scores of different queries are
   comparable.
3. The terms of a query are quoted as FTS5 strings and passed as a bound value, so a query can't contain FTS5
   or SQL operators.
4. The file is opened with SQLite's options ``mode=ro`` and ``immutable=1``, and with ``trusted_schema`` off.
   It does not contain the chunks' texts, which are read from the index.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import threading
import weakref
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import regex

from branchrank.core.errors import ArtifactError
from branchrank.core.io.files import atomic_writer, storage_errors
from branchrank.core.letters import EDGE, RUN, UNSPACED_RUN, folded, pairs_of
from branchrank.core.records import Chunk
from branchrank.core.settings import Bm25Settings
from branchrank.index.stores.analyzer import Analyze, analyzer, stop_words
from branchrank.index.stores.arrays import REBUILD

TERM_LIMIT = 32
PREFIX_LENGTH = 2

_TERM = regex.compile(rf"\"([^\"]*)\"|({RUN})|({UNSPACED_RUN})", regex.V1)
_JOINED = str.maketrans("._'’", "    ")
#: The table ``stems`` is used to find all forms of a word. The table ``words`` is used to find all words with
#: a given prefix. A prefix of a word is not always a prefix of the word's stem. (The stem of ``deploy`` is
#: ``deploi``.)
_FTS_TABLES = ("stems", "words")
_STEMS = "SELECT rowid, -rank FROM stems WHERE stems MATCH ? ORDER BY rank, rowid LIMIT ?"
_STEMS_OF = (
    "SELECT chunks.id, -stems.rank FROM stems JOIN chunks ON chunks.rowid = stems.rowid "
    "WHERE stems MATCH ? AND chunks.id IN ({marks})"
)
_WORDS = "SELECT rowid, -rank FROM words WHERE words MATCH ? ORDER BY rank, rowid LIMIT ?"
_TABLES = (
    "CREATE TABLE chunks (rowid INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE)",
    *(
        f"CREATE VIRTUAL TABLE {table} USING fts5(breadcrumb, text, content='', "
        "tokenize=\"unicode61 categories 'L* M* N* C*'\")"
        for table in _FTS_TABLES
    ),
)


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


def query_terms(query: str, stopped: Container[str]) -> list[str]:
    """Return the distinct terms of a query without differences in case.

    A term is a quoted phrase, a word or, in a script without spaces, a pair of letters. The stop words
    ``stopped`` are removed, unless all terms are stop words. Only the first :data:`TERM_LIMIT` terms are
    returned.
    """
    readable = folded(query.encode("utf-8", "ignore").decode("utf-8").replace("\0", " "))
    found = (
        pairs_of(run) if run else [" ".join(phrase.split()) or word]
        for phrase, word, run in _TERM.findall(readable)
    )
    terms = [term for term in dict.fromkeys(chain.from_iterable(found)) if any(map(str.isalnum, term))]
    telling = [term for term in terms if term not in stopped]
    return (telling or terms)[:TERM_LIMIT]


def fts_expression(terms: Iterable[str], analyze: Analyze, *, prefix: bool = False) -> str:
    """Return an FTS5 expression that matches any of the terms, as phrases of the tokens of ``analyze``.

    If ``prefix`` is true, the expression also matches words that start with one of the terms.
    """
    return " OR ".join(f'"{_tokens(term, analyze)}"{"*" if prefix else ""}' for term in terms)


def _tokens(text: str, analyze: Analyze) -> str:
    """Return the tokens of a text, joined by spaces. A word ends at a dot, an apostrophe and ``_``."""
    return " ".join(analyze(text.translate(_JOINED)))


def _literal(terms: Iterable[str]) -> regex.Pattern[str]:
    """Return a regular expression that matches any of the terms as whole words."""
    return regex.compile(f"{EDGE}(?:{'|'.join(map(regex.escape, terms))}){EDGE}", regex.V1)


class Fts5Table:
    """Keyword search with FTS5 in one SQLite file. Several threads can search, but one at a time reads."""

    def __init__(self, path: Path, chunks: Mapping[str, Chunk], settings: Bm25Settings) -> None:
        """Open the file ``path``, which contains the words of ``chunks``, with the settings of its build.

        Raises :class:`ArtifactError` if the file does not exist or is damaged.
        """
        self._path = path
        self._chunks = chunks
        self._stopped = stop_words(settings)
        self._analyzers = _analyzers(settings)
        self._lock = threading.Lock()
        try:
            uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
            self._connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
        except sqlite3.Error as error:
            raise self._damaged(error) from error
        # Python 3.13 warns about connections that are not closed.
        weakref.finalize(self, self._connection.close)
        self._rows("PRAGMA trusted_schema = OFF")

    def matches(self, query: str, n: int) -> list[KeywordMatch]:
        """Return at most ``n`` chunks that match a term of the query.

        Chunks are sorted by keyword score, highest first, so exact matches come first. Chunks with equal
        scores are sorted by id.
        """
        terms = query_terms(query, self._stopped)
        if not terms:
            return []
        stems, words = self._analyzers
        found = self._rows(_STEMS, (fts_expression(terms, stems), n))
        begun = [term for term in terms if len(term) >= PREFIX_LENGTH]
        if len(found) < n and begun:
            seen = {row for row, _ in found}
            more = self._rows(_WORDS, (fts_expression(begun, words, prefix=True), n))
            found += [(row, bm25) for row, bm25 in more if row not in seen]
        literal = _literal(terms)
        marks = ",".join("?" * len(found))
        statement = f"SELECT rowid, id FROM chunks WHERE rowid IN ({marks})"  # noqa: S608
        ids = dict(self._rows(statement, [row for row, _ in found]))
        chunks = [self._chunks[ids[row]] for row, _ in found]
        matches = [
            KeywordMatch(
                chunk.id,
                max(0.0, bm25),
                literal.search(" ".join(folded(f"{chunk.breadcrumb}\n{chunk.text}").split())) is not None,
            )
            for chunk, (_, bm25) in zip(chunks, found, strict=True)
        ]
        return sorted(matches, key=lambda match: (-match.score, match.key))[:n]

    def bm25(self, query: str, keys: Sequence[str]) -> dict[str, float]:
        """Return FTS5's BM25 score (at least 0) of each chunk whose id is in ``keys``.

        The score is 0 if the chunk contains no word with the same stem as a term of the query.
        """
        scores = dict.fromkeys(keys, 0.0)
        terms = query_terms(query, self._stopped)
        if terms and keys:
            statement = _STEMS_OF.format(marks=",".join("?" * len(keys)))
            found = self._rows(statement, (fts_expression(terms, self._analyzers[0]), *keys))
            scores |= {key: max(0.0, bm25) for key, bm25 in found}
        return scores

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, Any]]:
        try:
            with self._lock:
                return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise self._damaged(error) from error

    def _damaged(self, error: sqlite3.Error) -> ArtifactError:
        return ArtifactError(f"the search file {self._path} is damaged: {error}", remedy=REBUILD)


def _analyzers(settings: Bm25Settings) -> tuple[Analyze, Analyze]:
    """Return the functions that split a text into the tokens of the table ``stems`` and of ``words``."""
    plain = msgspec.structs.replace(settings, stop_words="none", split_identifiers=False)
    return analyzer(plain), analyzer(msgspec.structs.replace(plain, stemmer="none"))


def build_fts5(path: Path, chunks: Iterable[Chunk], settings: Bm25Settings) -> None:
    """Write the FTS5 index of ``chunks`` to the SQLite file ``path``, atomically.

    Raises :class:`ArtifactError` if two chunks have the same id, and
    :class:`~branchrank.core.errors.StorageError` if the file can't be written. After an error, an existing
    file is unchanged.
    """
    # Rows are written in the order of the chunk ids, so that ties sorted by row are also sorted by id.
    ordered = sorted(chunks, key=lambda chunk: chunk.id)
    with tempfile.TemporaryDirectory(prefix="branchrank-") as folder:
        made = Path(folder) / path.name
        _write(made, ordered, settings)
        with atomic_writer(path) as stream, made.open("rb") as content:
            shutil.copyfileobj(content, stream, 1 << 20)


def _write(path: Path, chunks: Sequence[Chunk], settings: Bm25Settings) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        # No journal is needed, because the file is renamed to its final path only after it is complete.
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        for statement in _TABLES:
            connection.execute(statement)
        rows = list(enumerate(chunks, start=1))
        connection.executemany("INSERT INTO chunks VALUES (?, ?)", ((row, chunk.id) for row, chunk in rows))
        for table, analyze in zip(_FTS_TABLES, _analyzers(settings), strict=True):
            connection.executemany(
                f"INSERT INTO {table} (rowid, breadcrumb, text) VALUES (?, ?, ?)",  # noqa: S608
                (
                    (row, _tokens(chunk.breadcrumb, analyze), _tokens(chunk.text, analyze))
                    for row, chunk in rows
                ),
            )
            connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")  # noqa: S608
        connection.execute("COMMIT")
    except sqlite3.IntegrityError as error:
        raise ArtifactError(f"cannot index the chunks: {error}", remedy=REBUILD) from error
    except sqlite3.OperationalError as error:
        with storage_errors(path):
            raise OSError(str(error)) from error
    finally:
        connection.close()
