"""A cassette is an SQLite file that records LLM calls, so that a run can be replayed without a server.

1. A call's key is the SHA-256 of its model, messages, schema, parameters, seed and repeat index.
2. Each row stores a call's key, request and outcome, and a checksum of these fields. The outcome is the reply
   with its token counts and latency, or the reason why the call failed. A row with a wrong checksum is never
   used.
3. Each call is committed to disk in a separate transaction, so no finished call is lost if the process is
   killed.
4. A file with an unexpected database schema, such as a file with a view or a trigger, is rejected before its
   rows are read.
5. If several processes open a new file at the same time, only one of these processes creates the database
   schema. If another process has locked a file, opening the file is retried for up to 30 seconds.

A workspace's decision cache is a file in the format of a cassette, or is stored in Redis
(:mod:`branchrank.llm.decisions_redis`). The decision cache returns only successful calls. The keys in the
decision cache include the endpoint, because two servers can use the same name for different models. The keys
in a cassette do not include the endpoint, so a cassette can be replayed with any endpoint.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Protocol

import msgspec

from branchrank.errors import ArtifactError, StorageError
from branchrank.io.files import NOT_JSON, check_opened, create_beneath, digest_of
from branchrank.llm.request import LLMReply, LLMRequest
from branchrank.records import Record

_APPLICATION = 0x42526C6D  # "BRlm"
_VERSION = 1
_TABLE = (
    "CREATE TABLE calls (key TEXT PRIMARY KEY, stage TEXT NOT NULL, question TEXT NOT NULL, "
    "request TEXT NOT NULL, recorded TEXT NOT NULL, checksum TEXT NOT NULL) WITHOUT ROWID"
)
_Found = tuple[int, int, tuple[str, ...]]
#: The combinations of application id, version and schema that are possible in a new file, or in a file whose
#: creation was interrupted.
_UNFINISHED: tuple[_Found, ...] = ((0, 0, ()), (0, 0, (_TABLE,)), (_APPLICATION, 0, (_TABLE,)))
_GET = "SELECT key, stage, question, request, recorded, checksum FROM calls WHERE key = ?"
_ALL = "SELECT key, stage, question, request, recorded, checksum FROM calls"
_PUT = "INSERT OR REPLACE INTO calls VALUES (?, ?, ?, ?, ?, ?)"
_NEAREST = (
    "SELECT key, stage, question, request FROM calls "
    "ORDER BY key != ?, question != ?, stage != ?, key LIMIT ?"
)
_NEIGHBORS = 200
_PATIENCE = 30.0  # seconds to wait for a file that other processes have locked
_RETRY = 0.01
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_SHOWN = 100


class Recorded(Record, frozen=True, kw_only=True):
    """The reply to a call. ``outcome`` is ``"ok"`` or the reason why the call failed."""

    reply: LLMReply
    outcome: str = "ok"


class KeptCall(Record, frozen=True, kw_only=True):
    """A recorded call without its prompt, identified by its key."""

    key: str
    stage: str
    question: str
    model: str
    recorded: Recorded


class DecisionCache(Protocol):
    """A cache of LLM calls. A call's key depends on its content and endpoint (a URL without credentials)."""

    def get(self, request: LLMRequest, model: str, endpoint: str) -> Recorded | None:
        """Return a call's cached outcome, or ``None`` if the call is not cached."""

    def put(self, request: LLMRequest, model: str, recorded: Recorded, endpoint: str) -> None:
        """Cache a call and its outcome."""


class Cassette:
    """An open cassette. Thread-safe. :meth:`close` merges SQLite's write-ahead log into the file.

    Raises :class:`ArtifactError` if the file is damaged or is not a cassette. Raises :class:`ArtifactError`
    if the file does not exist and ``readonly`` is true. Raises :class:`StorageError` if the file can't be
    opened or written.
    """

    def __init__(
        self,
        path: Path,
        *,
        readonly: bool = False,
        redact: Callable[[str], str] = lambda text: text,
        root: Path | None = None,
    ) -> None:
        """Open or create the cassette ``path``.

        If ``root`` is given, symbolic links below ``root`` are not followed.
        """
        self.path = path
        self.readonly = readonly
        self._redact = redact
        self._lock = threading.RLock()
        if readonly and not path.is_file():
            raise ArtifactError(
                f"the cassette {path} does not exist", remedy=f"record one with --llm-record {path}"
            )
        with self._guarded():
            if root is not None:
                root.mkdir(parents=True, exist_ok=True)
                create_beneath(root, path.relative_to(root).as_posix())
            elif not readonly:
                _create_private(path)
            mode = "ro" if readonly else "rw"
            self._db = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={mode}",
                uri=True,
                check_same_thread=False,
                isolation_level=None,
                timeout=_PATIENCE,
            )
            try:
                if root is not None:
                    check_opened(root, path.relative_to(root).as_posix())
                self._prepare_patiently()
            except BaseException:
                self._db.close()
                raise

    def __enter__(self) -> Cassette:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __len__(self) -> int:
        with self._lock, self._guarded():
            return int(self._db.execute("SELECT count(*) FROM calls").fetchone()[0])

    def get(self, request: LLMRequest, model: str, endpoint: str = "") -> Recorded | None:
        """Return the recorded outcome of a call, or ``None`` if the call's row is missing or damaged."""
        key = call_key(request, model, endpoint)
        with self._lock, self._guarded():
            row = self._db.execute(_GET, (key,)).fetchone()
        return None if row is None else intact(row)

    def put(self, request: LLMRequest, model: str, recorded: Recorded, endpoint: str = "") -> None:
        """Store one call on disk."""
        row = row_of(request, model, recorded, self._redact, endpoint)
        with self._lock, self._guarded():
            self._db.execute(_PUT, row)

    def failures(self, labels: Collection[tuple[str, str]]) -> set[str]:
        """Return the keys of the failed calls whose ``(question id, stage)`` is in ``labels``."""
        wanted = {(self._redact(question), self._redact(stage)) for question, stage in labels}
        with self._lock, self._guarded():
            rows = self._db.execute(_ALL).fetchall()
        return {
            row[0]
            for row in rows
            if (row[2], row[1]) in wanted and (found := intact(row)) is not None and found.outcome != "ok"
        }

    def calls(self) -> list[KeptCall]:
        """Return every undamaged call, sorted by key."""
        with self._lock, self._guarded():
            rows = self._db.execute(f"{_ALL} ORDER BY key").fetchall()
        return [
            KeptCall(key=row[0], stage=row[1], question=row[2], model=content["model"], recorded=found)
            for row in rows
            if (found := intact(row)) is not None and (content := _content(row[3])) is not None
        ]

    def restore(self, calls: Iterable[KeptCall]) -> None:
        """Store calls without their prompts. A replay finds calls by key, so it does not need the prompts."""
        rows = []
        for call in calls:
            request = _json({"model": call.model})
            fields = (call.key, call.stage, call.question, request, _json(call.recorded))
            rows.append((*fields, _checksum(fields)))
        with self._lock, self._guarded():
            self._db.execute("BEGIN")
            self._db.executemany(_PUT, rows)
            self._db.execute("COMMIT")

    def models(self) -> list[str]:
        """Return the names of all models in the recorded calls, sorted."""
        with self._lock, self._guarded():
            rows = self._db.execute("SELECT DISTINCT json_extract(request, '$.model') FROM calls ORDER BY 1")
            return [str(model) for (model,) in rows]

    def difference(self, request: LLMRequest, model: str) -> str:
        """Describe the differences between a missing call and the most similar recorded call."""
        key = call_key(request, model)
        with self._lock, self._guarded():
            rows = self._db.execute(
                _NEAREST,
                (key, request.context.question_id, request.stage, _NEIGHBORS),
            ).fetchall()
        if not rows:
            return "the cassette is empty"
        if rows[0][0] == key:
            return "its row is damaged"
        wanted = request.content(model)
        near = [row for row in rows if row[1:3] == rows[0][1:3]]
        contents = [content for row in near if (content := _content(row[3])) is not None]
        if not contents:
            return "the most similar recorded calls are damaged and can't be compared"
        nearest = max(contents, key=lambda content: _likeness(wanted, content))
        return "; ".join(_differences(wanted, nearest))

    def close(self) -> None:
        """Merge SQLite's write-ahead log into the file, and close the file."""
        with self._lock:
            if not self.readonly:
                # If another process has the file open, that process merges the log when it closes the file.
                with contextlib.suppress(sqlite3.Error):
                    self._db.execute("PRAGMA journal_mode = DELETE")
            self._db.close()

    def _prepare_patiently(self) -> None:
        """Prepare the file, and retry while another process has it locked."""
        # If the file is locked, changing SQLite's journal mode fails at once, without SQLite's usual wait.
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return self._prepare()
            except sqlite3.OperationalError as error:
                code = getattr(error, "sqlite_errorcode", 0)  # errors raised by Python have no code
                if code & 0xFF not in _LOCKED or time.monotonic() > deadline:
                    raise
                self._db.rollback()
                time.sleep(_RETRY)

    def _prepare(self) -> None:
        """Create the table in a new file. Raise an error if the file is not a cassette."""
        self._db.execute("PRAGMA trusted_schema = OFF")
        self._db.execute("PRAGMA cell_size_check = ON")
        self._db.execute("BEGIN")
        found = self._found()
        self._db.execute("COMMIT")
        if not self.readonly and found in _UNFINISHED:
            found = self._create()
        application, version, shape = found
        if application != _APPLICATION or shape != (_TABLE,):
            raise self._foreign("is not a cassette")
        if version != _VERSION:
            raise self._foreign(f"has the cassette version {version}, not {_VERSION}")
        if self._db.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise self._foreign("is damaged")
        if not self.readonly:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")

    def _create(self) -> _Found:
        """Create the schema if it is missing. Return the file's application id, version and schema."""
        self._db.execute("PRAGMA journal_mode = WAL")  # must be outside the transaction
        self._db.execute("BEGIN IMMEDIATE")
        found = self._found()
        if found in _UNFINISHED:
            if not found[2]:
                self._db.execute(_TABLE)
            self._db.execute(f"PRAGMA application_id = {_APPLICATION}")
            self._db.execute(f"PRAGMA user_version = {_VERSION}")
            found = self._found()
        self._db.execute("COMMIT")
        return found

    def _found(self) -> _Found:
        """Return the file's application id, version and schema. The caller must have begun a transaction."""
        application = self._db.execute("PRAGMA application_id").fetchone()[0]
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        rows = self._db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
        return application, version, tuple(row[0] for row in rows)

    def _foreign(self, fault: str) -> ArtifactError:
        return ArtifactError(f"{self.path} {fault}", remedy=f"remove {self.path}, or choose another file")

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """Convert SQLite's errors to BranchRank's errors, which tell the user how to fix the problem."""
        try:
            yield
        except (sqlite3.OperationalError, OSError) as error:
            raise StorageError(
                f"cannot use {self.path}: {error}", remedy="check the disk and the file's permissions"
            ) from None
        except (sqlite3.DatabaseError, UnicodeDecodeError):
            # ``UnicodeDecodeError`` means that SQLite's message is not UTF-8.
            raise self._foreign("is not a cassette or is damaged") from None


def call_key(request: LLMRequest, model: str, endpoint: str = "") -> str:
    """Return the digest of a call's content and endpoint, as 64 hexadecimal digits."""
    return digest_of(_addressed(request, model, endpoint))


def _addressed(request: LLMRequest, model: str, endpoint: str) -> dict[str, Any]:
    """Return the fields that a call's key is computed from."""
    content = request.content(model)
    return content | {"endpoint": endpoint} if endpoint else content


def _create_private(path: Path) -> None:
    """Create an empty file that only its owner can read, unless the file exists."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0), 0o600))


def _json(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def _checksum(fields: tuple[str, ...]) -> str:
    return hashlib.sha256("\0".join(fields).encode()).hexdigest()


def row_of(
    request: LLMRequest, model: str, recorded: Recorded, redact: Callable[[str], str], endpoint: str = ""
) -> tuple[str, ...]:
    """Return a call's table row: the key, stage, question, request, outcome and a checksum."""
    content = _json(_addressed(request, model, endpoint))
    labels = (request.stage, request.context.question_id, content, _json(recorded))
    fields = (call_key(request, model, endpoint), *(redact(label) for label in labels))
    return (*fields, _checksum(fields))


def intact(row: tuple[Any, ...]) -> Recorded | None:
    """Return the outcome stored in a row, or ``None`` if the row is damaged."""
    if not all(isinstance(field, str) for field in row) or _checksum(row[:-1]) != row[-1]:
        return None
    try:
        return msgspec.json.decode(row[4], type=Recorded)
    except NOT_JSON:
        return None


def _content(text: str) -> dict[str, Any] | None:
    try:
        content = msgspec.json.decode(text)
    except NOT_JSON:
        return None
    return content if isinstance(content, dict) else None


def _prompt_lines(content: dict[str, Any]) -> list[str]:
    messages = content.get("messages") or []
    return [line for message in messages for line in str(message.get("content", "")).splitlines()]


def _likeness(wanted: dict[str, Any], other: dict[str, Any]) -> float:
    """Return the similarity of two calls, from 0 to 2.

    The similarity is the sum of the similarity of the prompts (0 to 1) and the share of equal fields.
    """
    shared = SequenceMatcher(None, _prompt_lines(wanted), _prompt_lines(other), autojunk=False)
    lines: float = shared.quick_ratio()
    same = [name for name, value in wanted.items() if other.get(name) == value]
    return lines + len(same) / len(wanted)


def _differences(wanted: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Describe each parameter that differs between two calls, and the first prompt line that differs."""
    found = [
        f"{name} is {_short(value)}, recorded {_short(other.get(name))}"
        for name, value in wanted.items()
        if name != "messages" and other.get(name) != value
    ]
    ours, theirs = _prompt_lines(wanted), _prompt_lines(other)
    if ours != theirs:
        at = next(
            (i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b),
            min(len(ours), len(theirs)),
        )
        mine, recorded = (lines[at] if at < len(lines) else "nothing" for lines in (ours, theirs))
        found.append(f"prompt line {at + 1} is {_short(mine)}, recorded {_short(recorded)}")
    return found or ["its row is damaged"]


def _short(value: object) -> str:
    text = ascii(value) if isinstance(value, str) else _json(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
