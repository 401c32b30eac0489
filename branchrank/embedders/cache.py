"""Embeddings kept by what they depend on, so that an unchanged text costs nothing.

1. A vector's key is the SHA-256 of the embedder's identity and of the exact text, prefix included.
2. Texts that the cache lacks are embedded once each, in batches; a batch is committed as soon as it is done,
   so that a killed build loses at most one.
3. Each row carries a checksum of its key and vector. A row that fails it, or has another dimension, is a
   miss and is written anew.
4. A file that is not such a cache, or is damaged, is set aside under another name. A disk that can't be
   written means no cache. Both are said once, and neither is an error.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
import numpy as np

from branchrank.artifacts import digest_of
from branchrank.embedders.protocol import Embedder, EmbedderIdentity, Vectors, vector_checksum
from branchrank.progress import Notify, Progress, no_progress

#: Texts embedded between two commits: what a killed build can lose.
BATCH = 64


T = TypeVar("T")

_APPLICATION_ID = 0x4252454D
_VERSION = 1
_SCHEMA = (
    "CREATE TABLE embeddings"
    " (key TEXT PRIMARY KEY, vector BLOB NOT NULL, checksum BLOB NOT NULL) WITHOUT ROWID"
)
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class EmbeddingCache(Protocol):
    """Keeps vectors by key. It never fails: what it can't read is a miss, what it can't write is skipped."""

    def get_many(self, keys: Sequence[str], dimension: int) -> dict[str, Vectors]:
        """The vectors that are there, each float32 of shape ``(dimension,)``."""

    def put_many(self, vectors: Mapping[str, Vectors]) -> None:
        """Keep vectors under their keys, replacing what is there."""

    def close(self) -> None:
        """Release the connection."""


def cache_keys(identity: EmbedderIdentity, prefix: str, texts: Sequence[str]) -> list[str]:
    """The key of each text as ``identity`` embeds it after ``prefix``: 64 hexadecimal digits."""
    space = hashlib.sha256(digest_of(identity).encode("ascii"))
    keys = []
    for text in texts:
        digest = space.copy()
        digest.update(f"{prefix}{text}".encode("utf-8", "surrogatepass"))
        keys.append(digest.hexdigest())
    return keys


def cached_documents(
    embedder: Embedder,
    cache: EmbeddingCache | None,
    texts: Sequence[str],
    progress: Progress = no_progress,
) -> Vectors:
    """The documents' unit rows, float32 ``(len(texts), dimension)``; only what ``cache`` lacks is embedded.

    ``progress`` counts texts, those from the cache at once.
    """
    if cache is None:
        return embedder.embed_documents(texts, progress)
    identity = embedder.identity
    keys = cache_keys(identity, identity.document_prefix, texts)
    known = cache.get_many(list(dict.fromkeys(keys)), identity.dimension)
    missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
    done = len(texts) - len(missing)
    progress("embed", done, len(texts))
    pending = list(missing)
    for start in range(0, len(pending), BATCH):
        batch = pending[start : start + BATCH]
        rows = embedder.embed_documents([missing[key] for key in batch])
        fresh = dict(zip(batch, rows, strict=True))
        cache.put_many(fresh)
        known |= fresh
        done += len(batch)
        progress("embed", done, len(texts))
    result = np.empty((len(texts), identity.dimension), dtype=np.float32)
    for row, key in enumerate(keys):
        result[row] = known[key]
    return result


def cached_query(embedder: Embedder, cache: EmbeddingCache | None, text: str) -> Vectors:
    """A query's unit vector, float32 ``(dimension,)``; pass no cache to time the embedding itself."""
    if cache is None:
        return embedder.embed_query(text)
    identity = embedder.identity
    # The leading NUL keeps queries apart from documents of the same text and prefix.
    (key,) = cache_keys(identity, f"\0{identity.query_prefix}", [text])
    known = cache.get_many([key], identity.dimension)
    if key not in known:
        known[key] = embedder.embed_query(text)
        cache.put_many(known)
    return known[key]


def open_cache(path: Path, *, redis_url: str = "", notify: Notify | None = None) -> EmbeddingCache:
    """The cache in the SQLite file ``path``, or in Redis where ``redis_url`` names one."""
    if not redis_url:
        return SqliteEmbeddingCache(path, notify=notify)
    from branchrank.embedders.cache_redis import RedisEmbeddingCache

    return RedisEmbeddingCache(redis_url, notify=notify)


class SqliteEmbeddingCache:
    """Vectors in one SQLite file, shared safely by threads and processes.

    ``notify`` hears, once, why the cache was set aside or is not used.
    """

    def __init__(self, path: Path, *, notify: Notify | None = None) -> None:
        self._path = path
        self._notify = notify or (lambda line: None)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._off = False
        self._guarded(lambda connection: None)

    def get_many(self, keys: Sequence[str], dimension: int) -> dict[str, Vectors]:
        """The vectors that are there and intact, each float32 of shape ``(dimension,)``."""

        def select(connection: sqlite3.Connection) -> list[tuple[object, object, object]]:
            return connection.execute(
                "SELECT key, vector, checksum FROM embeddings WHERE key IN (SELECT value FROM json_each(?))",
                [msgspec.json.encode(keys).decode()],
            ).fetchall()

        return {
            key: np.frombuffer(vector, dtype="<f4")
            for key, vector, checksum in self._guarded(select) or []
            if isinstance(key, str)
            and isinstance(vector, bytes)
            and len(vector) == 4 * dimension
            and checksum == vector_checksum(key, vector)
        }

    def put_many(self, vectors: Mapping[str, Vectors]) -> None:
        """Keep vectors under their keys, in one transaction."""
        packed = [(key, vector.astype("<f4").tobytes()) for key, vector in vectors.items()]
        rows = [(key, vector, vector_checksum(key, vector)) for key, vector in packed]

        def insert(connection: sqlite3.Connection) -> None:
            with connection:
                connection.executemany("INSERT OR REPLACE INTO embeddings VALUES (?, ?, ?)", rows)

        self._guarded(insert)

    def close(self) -> None:
        """Release the file."""
        with self._lock:
            self._close()
            self._off = True

    def _guarded(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """The result of ``work``, or ``None`` once the cache is off; a damaged file is replaced once."""
        with self._lock:
            for may_replace in (True, False):
                if self._off:
                    break
                try:
                    self._connection = self._connection or _connect(self._path)
                    return work(self._connection)
                except (sqlite3.Error, OSError) as error:
                    self._close()
                    if not (may_replace and _is_damage(error) and self._set_aside(error)):
                        self._off = True
                        self._notify(f"embeddings are not cached: {self._path}: {error}")
        return None

    def _set_aside(self, error: Exception) -> bool:
        """Rename the file, so that a new one can take its place; false when the disk refuses."""
        number = 1
        while (aside := self._path.with_name(f"{self._path.name}.set-aside-{number}")).exists():
            number += 1
        try:
            os.rename(self._path, aside)
            for suffix in ("-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    os.rename(f"{self._path}{suffix}", f"{aside}{suffix}")
        except OSError:
            return False
        self._notify(f"{self._path} is not an intact embedding cache ({error}); it is now {aside.name}")
        return True

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


class _ForeignFileError(sqlite3.DatabaseError):
    """The file is a database of something else, or of another version."""


def _connect(path: Path) -> sqlite3.Connection:
    """Open or create the cache. Raises ``sqlite3.Error`` or ``OSError``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o600))
    if not path.is_file():
        raise OSError("not a regular file")
    connection = sqlite3.connect(path, timeout=10, check_same_thread=False)
    # A damaged key is one that nobody asked for, not an error.
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                connection.execute(_SCHEMA)
                connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {_VERSION}")
            found = (
                connection.execute("PRAGMA application_id").fetchone()[0],
                connection.execute("PRAGMA user_version").fetchone()[0],
                connection.execute("SELECT sql FROM sqlite_master").fetchall(),
            )
            if found != (_APPLICATION_ID, _VERSION, [(_SCHEMA,)]):
                raise _ForeignFileError("a database of something else")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        connection.close()
        raise
    return connection


def _is_damage(error: Exception) -> bool:
    """Whether the file itself is at fault, not the disk or another process."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return isinstance(error, _ForeignFileError) or code in _DAMAGE
