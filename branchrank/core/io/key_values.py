"""Key-value stores in one SQLite file, or on a Redis server that several machines share.

1. :class:`Database` is an SQLite file with one table, for caches and for recorded LLM calls. A file with
   another application id, version or schema, such as a file with a view or a trigger, is never read.
2. :class:`CacheFile` and :class:`RedisValues` store bytes by key for caches. A value that does not match its
   checksum is treated as missing and is overwritten. A problem with the store is reported once, and never
   stops a command.
3. :func:`stored_values` opens a file that another program wrote, such as a database of Chroma or Qdrant.
4. A damaged cache file is renamed, and a new file is created. If a file has a size limit, the oldest rows are
   deleted to make room.
5. The URL of a Redis server may set only a few options, because other options could remove the timeouts or
   change how data is read. Error messages do not show the URL, because a password that is not percent-encoded
   can appear in any part of the URL. After a failure, Redis is not called for 30 seconds, so that a stopped
   server does not delay every call.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import re
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlsplit

import msgspec

from branchrank.core.errors import MissingDependencyError, UsageError
from branchrank.core.io.files import safe_path
from branchrank.core.io.progress import Notify, no_notice

if TYPE_CHECKING:
    from redis import Redis

T = TypeVar("T")

#: The number of seconds to wait for a file that other processes have locked.
PATIENCE = 30.0
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_CHECKSUM_BYTES = 16

#: The definition of a table or index whose values are all stored in the file. Generated columns (``AS``) and
#: conditions (``CHECK``) are computed.
_STORED = re.compile(r"CREATE (TABLE|(UNIQUE )?INDEX) (?!.*\b(AS|CHECK)\b)", re.DOTALL | re.IGNORECASE)
#: The end of a journal that names a second file, which SQLite would delete.
_SECOND_FILE = bytes.fromhex("d9d505f920a163d7")

#: Timeout in seconds for connecting to Redis and for each answer from Redis.
TIMEOUT = 0.5
#: Number of seconds during which Redis is not called after a failure.
PAUSE = 30.0
#: A value in Redis expires this many seconds after it was last written.
EXPIRY = 30 * 24 * 3600
#: The number of keys that are requested from Redis at once.
KEYS_PER_CALL = 500
_TLS_OPTIONS = ("ssl_cert_reqs", "ssl_ca_certs")


class FileLayout(NamedTuple):
    """The table and the application id of one kind of SQLite file.

    ``what`` is a plural noun for the stored data, for use in messages. ``schema`` is the SQL statement that
    creates the table, and ``insert`` the statement that stores a row. If ``durable`` is true, the whole file
    is checked when it is opened, and a stored row survives a power loss.
    """

    what: str
    schema: str
    insert: str
    application_id: int
    durable: bool = False


class ForeignFileError(sqlite3.DatabaseError):
    """The error for a file that does not have the expected layout."""


class Database:
    """An open SQLite file with one table. Several threads and processes can use the file at the same time.

    Unless ``readonly`` is true, a missing file is created, which only its owner can access. Symbolic links in
    ``path`` below the folder ``root`` are not followed. Raises ``sqlite3.Error`` or ``OSError`` if the file
    can't be used, and :class:`ForeignFileError` if the file does not have the layout.
    """

    def __init__(
        self, path: Path, layout: FileLayout, *, root: Path | None = None, readonly: bool = False
    ) -> None:
        self._layout = layout
        self._readonly = readonly
        self._lock = threading.Lock()
        if not readonly:
            # Without ``root``, links are followed, because the user gave the path.
            path = safe_path(root, path.relative_to(root).as_posix()) if root else path.resolve()
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                path.touch(mode=0o600)
            if not path.is_file():
                raise PermissionError(errno.EACCES, "not a regular file", str(path))
        self._connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={'ro' if readonly else 'rw'}",
            uri=True,
            check_same_thread=False,
            isolation_level=None,
            timeout=PATIENCE,
        )
        # A damaged text is decoded without an error, and does not match its checksum.
        self._connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        weakref.finalize(
            self, self._connection.close
        )  # Python 3.13 warns about connections that are not closed.
        try:
            self._prepare_patiently()
        except BaseException:
            self._connection.close()
            raise

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run a query with the bound values ``values``, and return all rows."""
        with self._lock:
            return self._connection.execute(statement, values).fetchall()

    def put(self, rows: Sequence[tuple[Any, ...]], *, room_for: int = 0, limit_bytes: int = 0) -> None:
        """Store rows in one transaction, and replace rows with the same key.

        If ``limit_bytes`` is not 0, the oldest rows are deleted until ``room_for`` more bytes fit.
        """
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            with self._connection:
                while limit_bytes and self._used() + room_for > limit_bytes and self._delete_oldest():
                    pass
                self._connection.executemany(self._layout.insert, rows)

    def close(self) -> None:
        """Close the file. The write-ahead log of a durable file is merged into the file."""
        with self._lock:
            if self._layout.durable and not self._readonly:
                # If another process has the file open, that process merges the log when it closes the file.
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("PRAGMA journal_mode = DELETE")
            self._connection.close()

    def _prepare_patiently(self) -> None:
        """Prepare the file, and retry while another process has it locked."""
        # If the file is locked, changing SQLite's journal mode fails at once, without SQLite's usual wait.
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self._prepare()
            except UnicodeDecodeError as error:  # SQLite's message about the schema is not UTF-8
                raise ForeignFileError("it is damaged") from error
            except sqlite3.OperationalError as error:
                code = getattr(error, "sqlite_errorcode", 0)  # errors raised by Python have no code
                if code & 0xFF not in _LOCKED or time.monotonic() > deadline:
                    raise
                self._connection.rollback()
                time.sleep(0.01)

    def _prepare(self) -> None:
        """Create the table in a new file, and check the layout of any other file."""
        layout, run = self._layout, self._connection.execute
        run("PRAGMA trusted_schema = OFF")
        run("PRAGMA cell_size_check = ON")
        run("BEGIN" if self._readonly else "BEGIN IMMEDIATE")
        with self._connection:
            found = self._found()
            if found == (0, []) and not self._readonly:
                run(layout.schema)
                run(f"PRAGMA application_id = {layout.application_id}")
                found = self._found()
        if found != (layout.application_id, [(layout.schema,)]):
            raise ForeignFileError(f"it does not contain {layout.what}")
        if layout.durable and run("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise ForeignFileError("it is damaged")
        if not self._readonly:
            run("PRAGMA journal_mode = WAL")
            run(f"PRAGMA synchronous = {'FULL' if layout.durable else 'NORMAL'}")

    def _found(self) -> tuple[int, list[tuple[str]]]:
        """Return the file's application id and schema."""
        run = self._connection.execute
        return (
            run("PRAGMA application_id").fetchone()[0],
            run("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall(),
        )

    def _used(self) -> int:
        """Return how many bytes of the file are in use."""
        size, pages, free = (
            self._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_size", "page_count", "freelist_count")
        )
        return int(size) * (int(pages) - int(free))

    def _delete_oldest(self) -> bool:
        """Delete an eighth of the rows of a cache file, and return whether the file had rows."""
        count = self._connection.execute("SELECT count(*) FROM embeddings").fetchone()[0]
        self._connection.execute(
            "DELETE FROM embeddings WHERE rowid IN (SELECT rowid FROM embeddings ORDER BY rowid LIMIT ?)",
            [max(1, count // 8)],
        )
        return bool(count)


@contextlib.contextmanager
def stored_values(path: Path, search_tables: Sequence[str] = ()) -> Iterator[sqlite3.Connection]:
    """Open an SQLite file of another program for reading, after a check that reading it ends.

    The file may contain only tables and indexes of stored values and the virtual tables whose definitions are
    in ``search_tables``, because a view, a trigger or a generated column can be computed without end. Each of
    its pages may be used only once. A transaction that the other program did not finish is rolled back.

    Raises :class:`ForeignFileError` for any other file, and ``sqlite3.Error`` or ``OSError`` for a file that
    can't be read.
    """
    journal = Path(f"{path}-journal")
    if journal.is_file() and journal.read_bytes().endswith(_SECOND_FILE):
        raise ForeignFileError("its journal names another file")
    steps = iter(range(100 + path.stat().st_size))  # of 1,000 instructions each
    uri = f"{path.absolute().as_uri()}?mode=rw"
    with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=PATIENCE)) as database:
        database.set_progress_handler(lambda: next(steps, None) is None, 1000)
        database.executescript("PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA query_only=ON")
        for (sql,) in database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"):
            if not _STORED.match(sql) and sql not in search_tables:
                raise ForeignFileError(f"it computes values: {sql[:100]}")
        if database.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise ForeignFileError("it is damaged")
        yield database


def cache_layout(what: str, application_id: int, *, aging: bool = False) -> FileLayout:
    """Return the layout of a :class:`CacheFile`. If ``aging`` is true, the oldest rows can be deleted."""
    return FileLayout(
        what=what,
        schema="CREATE TABLE embeddings (key TEXT PRIMARY KEY, vector BLOB NOT NULL, checksum BLOB NOT NULL)"
        + ("" if aging else " WITHOUT ROWID"),
        insert="INSERT OR REPLACE INTO embeddings VALUES (?, ?, ?)",
        application_id=application_id,
    )


class CacheFile:
    """Bytes by key in the SQLite file ``path``, which has at most ``limit_bytes`` bytes (0: no limit).

    ``notify`` is called with one line of text if the file was renamed or can't be used.
    """

    def __init__(
        self,
        path: Path,
        layout: FileLayout,
        *,
        root: Path | None = None,
        limit_bytes: int = 0,
        notify: Notify | None = None,
    ) -> None:
        self._path = path
        self._root = root or path.parent
        self._layout = layout
        self._limit_bytes = limit_bytes
        self._notify = notify or no_notice
        self._lock = threading.Lock()
        self._database: Database | None = None
        self._off = False
        self._attempt(lambda database: None)

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the stored bytes by key, omitting keys whose bytes are missing or damaged."""
        statement = (
            "SELECT key, vector, checksum FROM embeddings WHERE key IN (SELECT value FROM json_each(?))"
        )
        wanted = msgspec.json.encode(keys).decode()
        found = self._attempt(lambda database: database.rows(statement, [wanted]))
        return {
            key: content
            for key, content, checksum in found or ()
            if isinstance(key, str) and isinstance(content, bytes) and checksum == _checksum(key, content)
        }

    def put_many(self, values: Mapping[str, bytes]) -> None:
        """Store bytes under their keys, in one transaction."""
        rows = [(key, content, _checksum(key, content)) for key, content in values.items()]
        size = sum(map(len, values.values()))
        self._attempt(lambda database: database.put(rows, room_for=size, limit_bytes=self._limit_bytes))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._close()
            self._off = True

    def _attempt(self, work: Callable[[Database], T]) -> T | None:
        """Return the result of ``work``, or ``None`` if the cache can't be used."""
        with self._lock:
            for may_replace in (True, False):
                if self._off:
                    break
                try:
                    if self._database is None:
                        self._database = Database(self._path, self._layout, root=self._root)
                    return work(self._database)
                except (sqlite3.Error, OSError) as error:
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
        while (aside := Path(f"{self._path}.set-aside-{number}")).exists():
            number += 1
        try:
            for suffix in ("", "-wal", "-shm"):
                if (file := Path(f"{self._path}{suffix}")).exists():
                    file.rename(f"{aside}{suffix}")
        except OSError:
            return False
        self._notify(
            f"{self._path} is not an intact cache of {self._layout.what} ({error}) and was renamed to "
            f"{aside.name}"
        )
        return True

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
        self._database = None


class RedisValues:
    """Bytes by key on the Redis server at ``url``. The names of the keys in Redis start with ``prefix``.

    ``what`` describes the cache, for use in messages. ``notify`` is called at the first failure. The URL may
    set the ``db`` option. A ``rediss`` URL may also set ``ssl_cert_reqs`` and ``ssl_ca_certs``. Raises
    :class:`MissingDependencyError` if the package ``redis`` is not installed, and :class:`UsageError` if
    ``url`` is not a Redis URL or sets an option that is not allowed.
    """

    def __init__(self, url: str, prefix: str, *, what: str, notify: Notify | None = None) -> None:
        self.client = _redis_client(url)
        self._prefix = prefix
        self._what = what
        parts = urlsplit(url)
        self._shown = parts.netloc.rpartition("@")[2] or parts.path
        self._notify = notify or no_notice
        self._resume_at = 0.0
        self._told = False

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the stored bytes by key, omitting keys whose bytes are missing or damaged."""
        found: dict[str, bytes] = {}
        for start in range(0, len(keys), KEYS_PER_CALL):
            part = keys[start : start + KEYS_PER_CALL]
            values: Any = self._attempt(partial(self.client.mget, [self._prefix + key for key in part]))
            for key, value in zip(part, values or (), strict=False):
                if isinstance(value, bytes):
                    checksum, content = value[:_CHECKSUM_BYTES], value[_CHECKSUM_BYTES:]
                    if checksum == _checksum(key, content):
                        found[key] = content
        return found

    def put_many(self, values: Mapping[str, bytes]) -> None:
        """Store bytes under their keys until they expire."""
        pipeline = self.client.pipeline(transaction=False)
        for key, content in values.items():
            pipeline.set(self._prefix + key, _checksum(key, content) + content, ex=EXPIRY)

        def store() -> None:
            # With ``raise_on_error=True``, the error message would contain the stored bytes.
            for answer in pipeline.execute(raise_on_error=False):
                if isinstance(answer, Exception):
                    raise answer

        self._attempt(store)

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    def _attempt(self, call: Callable[[], T]) -> T | None:
        """Return the result of ``call``, or ``None`` if it fails or Redis failed a short time ago."""
        from redis.exceptions import RedisError

        if time.monotonic() < self._resume_at:
            return None
        try:
            return call()
        except (RedisError, OSError, UnicodeError) as error:  # an invalid host name raises UnicodeError
            self._resume_at = time.monotonic() + PAUSE
            if not self._told:
                self._told = True
                self._notify(
                    f"the {self._what} at {self._shown} is not available; continuing without it: {error}"
                )
            return None


#: Stores bytes by key. A failed read finds nothing, and a failed write is ignored.
Values = CacheFile | RedisValues


def _redis_client(url: str) -> Redis:
    try:
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError:
        raise MissingDependencyError("redis", extra="redis", purpose="the Redis cache") from None
    try:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        allowed = {"db", *_TLS_OPTIONS} if parts.scheme == "rediss" else {"db"}
        if (
            parts.scheme not in ("redis", "rediss", "unix")
            or "@" in parts.path + parts.query + parts.fragment
            or options.keys() - allowed
        ):
            raise ValueError
        client: Redis = Redis.from_url(
            url, socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT, retry=Retry(NoBackoff(), 0)
        )
    except ValueError:
        raise UsageError(
            "the URL of the Redis cache is not a Redis URL, or it sets an option that is not allowed",
            remedy="use redis://HOST:6379/0 (or rediss://, unix://), percent-encode / ? # and @ in a "
            f"password, and set no option but db and, with rediss://, {' and '.join(_TLS_OPTIONS)}",
        ) from None
    return client


def _checksum(key: str, content: bytes) -> bytes:
    """Return a 16-byte checksum of a key and its bytes."""
    key_bytes = key.encode("ascii", "replace")[:64]
    return hashlib.blake2b(content, key=key_bytes, digest_size=_CHECKSUM_BYTES).digest()


def _is_damage(error: Exception) -> bool:
    """Return whether an error was caused by the content of the file, not by the disk or another process."""
    return isinstance(error, ForeignFileError) or (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _DAMAGE
