"""Create and read search files, which are SQLite files with chunks and their FTS5 index.

1. A search file is built in a temporary folder, copied to a temporary name in its final folder, and renamed.
   A search file is not modified after it has been renamed to its final name.
2. A search file is opened with SQLite's options ``mode=ro`` and ``immutable=1``, and with ``trusted_schema``
   off. A search file with a wrong application id is rejected. A search file with a wrong schema, such as one
   with a view or a trigger, is rejected. A search file for which SQLite's ``quick_check`` fails is rejected.
3. The FTS5 index is compared with its digest when a search file is opened. Each chunk is compared with its
   checksum when the chunk is read. SQLite's ``quick_check`` does not detect a changed byte in a value.

The digests detect damage, but do not protect against attackers, who can change the digests as well.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import sqlite3
import tempfile
import threading
import weakref
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import msgspec

from branchrank.errors import ArtifactError
from branchrank.io.files import NOT_JSON, safe_path, storage_errors, writer_beneath
from branchrank.records import Chunk, Record

APPLICATION_ID = 0x42524B31
SCHEMA_VERSION = 2
REMEDY = "rebuild the index: branchrank index"

_TABLES = (
    "CREATE TABLE meta (header BLOB NOT NULL)",
    "CREATE TABLE chunks (rowid INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, chunk BLOB NOT NULL, "
    "checksum BLOB NOT NULL)",
    "CREATE VIRTUAL TABLE stems USING fts5(breadcrumb, text, content='', tokenize='porter unicode61')",
    "CREATE VIRTUAL TABLE words USING fts5(breadcrumb, text, content='', tokenize='unicode61')",
)
#: The table ``stems`` is used to find all forms of a word. The table ``words`` is used to find all words with
#: a given prefix. A prefix of a word is not always a prefix of the word's stem. (The stem of ``deploy`` is
#: ``deploi``.)
_FTS_TABLES = ("stems", "words")
_FTS_CONTENT = (
    "SELECT id, block FROM {}_data ORDER BY id",
    "SELECT segid, term, pgno FROM {}_idx ORDER BY segid, term",
    "SELECT id, sz FROM {}_docsize ORDER BY id",
    "SELECT k, v FROM {}_config ORDER BY k",
)


class SqliteHeader(Record, frozen=True, kw_only=True):
    """The header of a SQLite search file, with the digests and the number of chunks."""

    corpus_digest: str
    chunk_count: int
    fts_digest: str


class SqliteFile:
    """An open SQLite file with chunks and their FTS5 index.

    Several threads can use the file, but only one thread reads at a time.
    """

    def __init__(self, path: Path, root: Path | None = None) -> None:
        """Open and check the file ``path``.

        Symbolic links in the path below ``root`` (by default the file's folder) are not followed.

        Raises :class:`ArtifactError` if the file does not exist, is damaged, is a symbolic link, or is not a
        BranchRank search file.
        """
        if not path.is_file():
            raise ArtifactError(f"the search file {path} does not exist", remedy=REMEDY)
        root = root or path.parent
        self.path = path
        self._lock = threading.Lock()
        with self._damage():
            safe_path(root, path.relative_to(root).as_posix())
            uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
            self._connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
        try:
            with self._damage():
                self.header = self._checked_header()
        except BaseException:
            self._connection.close()
            raise

        # Python 3.13 warns about connections that are not closed.
        weakref.finalize(self, self._connection.close)

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple[object, ...]]:
        """Run the SQL query ``statement`` with the bound values ``values``, and return all rows.

        Raises :class:`ArtifactError` if the file is damaged.
        """
        with self._lock, self._damage():
            return self._connection.execute(statement, values).fetchall()

    def chunks(self, rows: Sequence[int]) -> list[Chunk]:
        """Return the chunks with the row ids ``rows``, in the same order, after verifying their checksums."""
        marks = ",".join("?" * len(rows))
        found = self.rows(f"SELECT rowid, id, chunk, checksum FROM chunks WHERE rowid IN ({marks})", rows)  # noqa: S608
        chunks: dict[object, Chunk] = {}
        for row, key, encoded, checksum in found:
            if not isinstance(encoded, bytes) or checksum != _checksum(encoded):
                raise self._damaged(f"chunk {key!r} does not match its checksum")
            with self._damage():
                chunks[row] = msgspec.json.decode(encoded, type=Chunk)
        if len(chunks) != len(set(rows)):
            raise self._damaged("a chunk of the index is missing")
        return [chunks[row] for row in rows]

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _checked_header(self) -> SqliteHeader:
        run = self._connection.execute
        run("PRAGMA trusted_schema = OFF")
        if run("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise ArtifactError(f"{self.path} is not a BranchRank search file", remedy=REMEDY)
        version = run("PRAGMA user_version").fetchone()[0]
        if version != SCHEMA_VERSION:
            raise ArtifactError(
                f"the search file {self.path} has schema version {version}, not {SCHEMA_VERSION}",
                remedy=REMEDY,
            )
        if _schema(self._connection) != _expected_schema():
            raise self._damaged("the tables do not have the schema of a search file")
        if run("PRAGMA quick_check").fetchone()[0] != "ok":
            raise self._damaged("SQLite's quick_check fails")
        (encoded,) = run("SELECT header FROM meta").fetchone() or (b"",)
        header = msgspec.json.decode(encoded, type=SqliteHeader)
        if header.fts_digest != _fts_digest(self._connection):
            raise self._damaged("the full-text index does not match its digest")
        if header.chunk_count != run("SELECT count(*) FROM chunks").fetchone()[0]:
            raise self._damaged("chunks are missing")
        return header

    def _damaged(self, reason: str) -> ArtifactError:
        return ArtifactError(f"the search file {self.path} is damaged: {reason}", remedy=REMEDY)

    @contextlib.contextmanager
    def _damage(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, TypeError, OSError, *NOT_JSON) as error:
            raise self._damaged(str(error)) from error


def build_sqlite(
    path: Path, chunks: Sequence[Chunk], *, corpus_digest: str, root: Path | None = None
) -> None:
    """Write ``chunks`` and their FTS5 index to the SQLite file ``path``.

    Symbolic links in the path below ``root`` (by default the file's folder) are not followed.

    Raises :class:`ArtifactError` if two chunks have the same id, and :class:`~branchrank.errors.StorageError`
    if the file can't be written. After an error, an existing file is unchanged.
    """
    # Rows are written in the order of the chunk ids, so that ties sorted by row are also sorted by id.
    ordered = sorted(chunks, key=lambda chunk: chunk.id)
    root = root or path.parent
    with storage_errors(path):
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="branchrank-") as folder:
            made = Path(folder) / path.name
            _write(made, ordered, corpus_digest)
            relative = path.relative_to(root).as_posix()
            with made.open("rb") as stream, writer_beneath(root, relative) as target:
                shutil.copyfileobj(stream, target, 1 << 20)


def _write(path: Path, chunks: Sequence[Chunk], corpus_digest: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        # No journal is needed, because the file is renamed to its final path only after it is complete.
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("BEGIN")
        for statement in _TABLES:
            connection.execute(statement)
        encoded = [msgspec.json.encode(chunk) for chunk in chunks]
        connection.executemany(
            "INSERT INTO chunks VALUES (?, ?, ?, ?)",
            (
                (row, chunk.id, content, _checksum(content))
                for row, (chunk, content) in enumerate(zip(chunks, encoded, strict=True), start=1)
            ),
        )
        for table in _FTS_TABLES:
            connection.executemany(
                f"INSERT INTO {table} (rowid, breadcrumb, text) VALUES (?, ?, ?)",  # noqa: S608
                ((row, chunk.breadcrumb, chunk.text) for row, chunk in enumerate(chunks, start=1)),
            )
            connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")  # noqa: S608
        # The digest is computed after the commit, because the full-text index is incomplete until then.
        connection.execute("COMMIT")
        header = SqliteHeader(
            corpus_digest=corpus_digest,
            chunk_count=len(chunks),
            fts_digest=_fts_digest(connection),
        )
        connection.execute("INSERT INTO meta VALUES (?)", (msgspec.json.encode(header),))
    except sqlite3.IntegrityError as error:
        raise ArtifactError(f"cannot index the chunks: {error}", remedy=REMEDY) from error
    except sqlite3.OperationalError as error:
        with storage_errors(path):
            raise OSError(str(error)) from error
    finally:
        connection.close()


def _checksum(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def _fts_digest(connection: sqlite3.Connection) -> str:
    digest = hashlib.sha256()
    for statement in (content.format(table) for table in _FTS_TABLES for content in _FTS_CONTENT):
        for row in connection.execute(statement):
            for value in row:
                content = value if isinstance(value, bytes) else repr(value).encode("utf-8")
                digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()


def _schema(connection: sqlite3.Connection) -> list[tuple[object, ...]]:
    return connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name").fetchall()


@cache
def _expected_schema() -> list[tuple[object, ...]]:
    """Return the schema of a valid search file, including the internal tables of FTS5."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        for statement in _TABLES:
            connection.execute(statement)
        return _schema(connection)
