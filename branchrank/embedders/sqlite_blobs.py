"""A key-value store in one SQLite file, for caches of vectors.

1. Each row has a checksum of its key and its bytes. A row that does not match its checksum is treated as a
   cache miss and is overwritten.
2. A file that is damaged or is not a BranchRank cache is renamed, and a new cache is created. If the file
   can't be written, the command continues without the cache. A problem with the file is reported once, and
   never stops a command.
3. If the file has a size limit, the oldest rows are deleted to make room.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from branchrank.embedders.protocol import vector_checksum
from branchrank.io.files import check_opened, create_beneath, rename_beneath
from branchrank.io.progress import Notify

T = TypeVar("T")

_VERSION = 1
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class BlobLayout(NamedTuple):
    """The table, the application id and the size limit of one kind of cache file.

    ``what`` is a plural noun for the stored data, for use in messages. ``schema`` is the SQL statement that
    creates the table ``embeddings``. ``limit_bytes`` is the maximum size of the file, or 0 if the size is not
    limited. If ``limit_bytes`` is not 0, the table must have row ids.
    """

    what: str
    schema: str
    application_id: int
    limit_bytes: int = 0


class SqliteBlobs:
    """An open key-value store. Several threads and processes can use the file at the same time.

    ``root`` is a folder above the file (by default the file's folder). Symbolic links in ``path`` below
    ``root`` are not followed. ``notify`` is called with one line of text if the file was renamed or can't be
    used.
    """

    def __init__(
        self, path: Path, layout: BlobLayout, *, root: Path | None = None, notify: Notify | None = None
    ) -> None:
        self._path = path
        self._root = root or path.parent
        self._layout = layout
        self._notify = notify or (lambda line: None)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._off = False
        self._guarded(lambda connection: None)

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the stored bytes by key, omitting keys whose bytes are missing or damaged."""

        def select(connection: sqlite3.Connection) -> list[tuple[object, object, object]]:
            return connection.execute(
                "SELECT key, vector, checksum FROM embeddings WHERE key IN (SELECT value FROM json_each(?))",
                [msgspec.json.encode(keys).decode()],
            ).fetchall()

        return {
            key: blob
            for key, blob, checksum in self._guarded(select) or []
            if isinstance(key, str) and isinstance(blob, bytes) and checksum == vector_checksum(key, blob)
        }

    def put_many(self, blobs: Mapping[str, bytes]) -> None:
        """Store bytes under their keys, in one transaction."""
        rows = [(key, blob, vector_checksum(key, blob)) for key, blob in blobs.items()]

        def insert(connection: sqlite3.Connection) -> None:
            with connection:
                self._make_room(connection, sum(len(blob) for blob in blobs.values()))
                connection.executemany("INSERT OR REPLACE INTO embeddings VALUES (?, ?, ?)", rows)

        self._guarded(insert)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._close()
            self._off = True

    def _make_room(self, connection: sqlite3.Connection, coming: int) -> None:
        """Delete the oldest rows, one eighth of all rows at a time, until ``coming`` more bytes fit."""
        limit = self._layout.limit_bytes
        while limit and _used(connection) + coming > limit:
            count = connection.execute("SELECT count(*) FROM embeddings").fetchone()[0]
            if not count:
                break
            connection.execute(
                "DELETE FROM embeddings WHERE rowid IN (SELECT rowid FROM embeddings ORDER BY rowid LIMIT ?)",
                [max(1, count // 8)],
            )

    def _guarded(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Return the result of ``work``, or ``None`` if the cache can't be used."""
        with self._lock:
            for may_replace in (True, False):
                if self._off:
                    break
                try:
                    self._connection = self._connection or self._open()
                    return work(self._connection)
                except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
                    self._close()
                    if not (may_replace and _is_damage(error) and self._set_aside(error)):
                        self._off = True
                        self._notify(
                            f"{self._layout.what} are not cached, because {self._path} can't be used: {error}"
                        )
        return None

    def _set_aside(self, error: Exception) -> bool:
        """Rename the damaged cache file, and return whether the rename succeeded."""
        number = 1
        while (aside := self._path.with_name(f"{self._path.name}.set-aside-{number}")).exists():
            number += 1
        try:
            relative = self._path.relative_to(self._root).as_posix()
            rename_beneath(self._root, relative, aside.name)
            for suffix in ("-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    rename_beneath(self._root, f"{relative}{suffix}", f"{aside.name}{suffix}")
        except OSError:
            return False
        self._notify(
            f"{self._path} is not an intact cache of {self._layout.what} ({error}) and was renamed to "
            f"{aside.name}"
        )
        return True

    def _open(self) -> sqlite3.Connection:
        connection = _connect(self._path, self._root, self._layout)
        weakref.finalize(self, connection.close)  # Python 3.13 warns about connections that are not closed.
        return connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


class _ForeignFileError(sqlite3.DatabaseError):
    """The error for a file that is another program's database or has a different schema version."""


def _connect(path: Path, root: Path, layout: BlobLayout) -> sqlite3.Connection:
    """Open or create the cache file. Raises ``sqlite3.Error`` or ``OSError`` if the file can't be used."""
    root.mkdir(parents=True, exist_ok=True)
    relative = path.relative_to(root).as_posix()
    create_beneath(root, relative)
    connection = sqlite3.connect(path, timeout=10, check_same_thread=False)
    # A damaged key is decoded without an error, and does not match any requested key.
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    try:
        check_opened(root, relative)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                connection.execute(layout.schema)
                connection.execute(f"PRAGMA application_id = {layout.application_id}")
                connection.execute(f"PRAGMA user_version = {_VERSION}")
            found = (
                connection.execute("PRAGMA application_id").fetchone()[0],
                connection.execute("PRAGMA user_version").fetchone()[0],
                connection.execute("SELECT sql FROM sqlite_master WHERE sql NOT NULL").fetchall(),
            )
            if found != (layout.application_id, _VERSION, [(layout.schema,)]):
                raise _ForeignFileError("it is the database of another program")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        connection.close()
        raise
    return connection


def _used(connection: sqlite3.Connection) -> int:
    """Return how many bytes of the SQLite file are in use."""
    size, pages, free = (
        connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_size", "page_count", "freelist_count")
    )
    return int(size) * (int(pages) - int(free))


def _is_damage(error: Exception) -> bool:
    """Return whether an error was caused by the content of the file, not by the disk or another process."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return isinstance(error, _ForeignFileError | UnicodeDecodeError) or code in _DAMAGE
