"""A cassette is an SQLite file that records LLM calls, so that a run can be replayed without a server.

1. A call's key is the SHA-256 of its model, messages, schema, parameters, seed and repeat index.
2. Each row stores a call's key, request and outcome, and a checksum of these fields. The outcome is the reply
   with its token counts and latency, or the reason why the call failed. A row with a wrong checksum is never
   used.
3. Each call is committed to disk in a separate transaction, so no finished call is lost if the process is
   killed.
4. The file is a :class:`branchrank.core.io.key_values.Database`, so several processes can use it at the same
   time.

A workspace's decision cache is a file in the format of a cassette, or is stored in Redis, which several
machines can share. If Redis is unavailable, the run continues without the cache. The decision cache returns
only successful calls. The keys in the decision cache include the endpoint, because two servers can use the
same name for different models. The keys in a cassette do not include the endpoint, so a cassette can be
replayed with any endpoint.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from branchrank.core.errors import ArtifactError, Remedy, StorageError
from branchrank.core.io import Closing
from branchrank.core.io.files import NOT_JSON, digest_of
from branchrank.core.io.key_values import Database, FileLayout, RedisValues
from branchrank.core.io.progress import Notify
from branchrank.search.llm.request import CallResult, LLMRequest

T = TypeVar("T")
_Content = dict[str, Any]

_LAYOUT = FileLayout(
    what="recorded LLM calls",
    schema="CREATE TABLE calls (key TEXT PRIMARY KEY, stage TEXT NOT NULL, question TEXT NOT NULL, "
    "request TEXT NOT NULL, recorded TEXT NOT NULL, checksum TEXT NOT NULL) WITHOUT ROWID",
    insert="INSERT OR REPLACE INTO calls VALUES (?, ?, ?, ?, ?, ?)",
    application_id=0x42526C6D,  # "BRlm"
    durable=True,
)
_ALL = "SELECT key, stage, question, request, recorded, checksum FROM calls"
_NEAREST = (
    "SELECT key, stage, question, request FROM calls "
    "ORDER BY key != ?, question != ?, stage != ?, key LIMIT ?"
)
_NEIGHBORS = 200
_SHOWN = 100


class Cassette(Closing):
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
        #: The keys of failed calls that must not be retried, so that a replay contains the same failures.
        self.failed: set[str] = set()
        self._redact = redact
        if readonly and not path.is_file():
            raise ArtifactError(
                f"the cassette {path} does not exist",
                remedy=Remedy("record one with {}", "--llm-record", str(path)),
            )
        with self._guarded():
            self._database = Database(path, _LAYOUT, root=root, readonly=readonly)

    def __len__(self) -> int:
        return int(self._rows("SELECT count(*) FROM calls")[0][0])

    def get(self, request: LLMRequest, model: str, endpoint: str = "") -> CallResult | None:
        """Return the recorded outcome of a call, or ``None`` if the call's row is missing or damaged."""
        rows = self._rows(f"{_ALL} WHERE key = ?", call_key(request, model, endpoint))
        return _intact(rows[0]) if rows else None

    def put(self, request: LLMRequest, model: str, recorded: CallResult, endpoint: str = "") -> None:
        """Store one call on disk."""
        content = _json(_addressed(request, model, endpoint))
        labels = (request.stage, request.context.question_id, content, _json(recorded))
        row = (call_key(request, model, endpoint), *map(self._redact, labels))
        with self._guarded():
            self._database.put([(*row, _checksum(row))])

    def failures(self, labels: Collection[tuple[str, str]]) -> set[str]:
        """Return the keys of the failed calls whose ``(question id, stage)`` is in ``labels``."""
        wanted = {(self._redact(question), self._redact(stage)) for question, stage in labels}
        return {
            row[0]
            for row in self._rows(_ALL)
            if (row[2], row[1]) in wanted and (found := _intact(row)) is not None and found.outcome != "ok"
        }

    def models(self) -> list[str]:
        """Return the names of all models in the recorded calls, sorted."""
        rows = self._rows("SELECT DISTINCT json_extract(request, '$.model') FROM calls ORDER BY 1")
        return [str(model) for (model,) in rows]

    def difference(self, request: LLMRequest, model: str) -> str:
        """Describe the differences between a missing call and the most similar recorded call."""
        key = call_key(request, model)
        rows = self._rows(_NEAREST, key, request.context.question_id, request.stage, _NEIGHBORS)
        if not rows:
            return "the cassette is empty"
        near = [row for row in rows if row[1:3] == rows[0][1:3]]
        contents = [content for row in near if (content := _decoded(row[3], _Content)) is not None]
        if rows[0][0] == key or not contents:
            return "its row is damaged"
        wanted = request.content(model)
        compared = SequenceMatcher(b=_json(wanted), autojunk=False)

        def likeness(content: dict[str, Any]) -> float:
            compared.set_seq1(_json(content))
            return compared.quick_ratio()

        return "; ".join(_differences(wanted, max(contents, key=likeness)))

    def close(self) -> None:
        """Merge SQLite's write-ahead log into the file, and close the file."""
        self._database.close()

    def _rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with self._guarded():
            return self._database.rows(statement, values)

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """Convert SQLite's errors to BranchRank's errors, which tell the user how to fix the problem."""
        try:
            yield
        except (sqlite3.OperationalError, OSError) as error:
            raise StorageError(
                f"cannot use {self.path}: {error}", remedy="check the disk and the file's permissions"
            ) from None
        except sqlite3.DatabaseError as error:
            raise ArtifactError(
                f"{self.path} is not a cassette or is damaged: {error}",
                remedy=f"remove {self.path}, or choose another file",
            ) from None


class RedisDecisions:
    """A decision cache that stores each LLM call in Redis under ``branchrank:decision:<key>``.

    ``url`` is the URL of the Redis server. A damaged or expired value counts as a cache miss. ``notify`` is
    called after the first failed request. Raises the same errors as :class:`RedisValues`.
    """

    def __init__(
        self, url: str, *, redact: Callable[[str], str] = lambda text: text, notify: Notify | None = None
    ) -> None:
        self._values = RedisValues(url, "branchrank:decision:", what="decision cache", notify=notify)
        self._redact = redact

    def close(self) -> None:
        """Close the connections."""
        self._values.close()

    def get(self, request: LLMRequest, model: str, endpoint: str) -> CallResult | None:
        """Return a call's cached outcome, or ``None`` if the value in Redis is missing or damaged."""
        key = call_key(request, model, endpoint)
        content = self._values.get_many([key]).get(key)
        return None if content is None else _decoded(content, CallResult)

    def put(self, request: LLMRequest, model: str, recorded: CallResult, endpoint: str) -> None:
        """Cache one call until it expires."""
        self._values.put_many({call_key(request, model, endpoint): self._redact(_json(recorded)).encode()})


#: A cache of LLM calls. A call's key depends on its content and endpoint (a URL without credentials).
DecisionCache = Cassette | RedisDecisions


def call_key(request: LLMRequest, model: str, endpoint: str = "") -> str:
    """Return the digest of a call's content and endpoint, as 64 hexadecimal digits."""
    return digest_of(_addressed(request, model, endpoint))


def _addressed(request: LLMRequest, model: str, endpoint: str) -> dict[str, Any]:
    """Return the fields that a call's key is computed from."""
    content = request.content(model)
    return content | {"endpoint": endpoint} if endpoint else content


def _json(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def _checksum(fields: tuple[str, ...]) -> str:
    return hashlib.sha256("\0".join(fields).encode()).hexdigest()


def _intact(row: tuple[Any, ...]) -> CallResult | None:
    """Return the outcome stored in a row, or ``None`` if the row is damaged."""
    if not all(isinstance(field, str) for field in row) or _checksum(row[:-1]) != row[-1]:
        return None
    return _decoded(row[4], CallResult)


def _decoded(content: str | bytes, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(content, type=kind)
    except NOT_JSON:
        return None


def _prompt_lines(content: dict[str, Any]) -> list[str]:
    """Return the tools, one per line, and the lines and tool calls of the messages."""
    lines = [f"{tool.get('name')}: {_json(tool)}" for tool in content.get("tools") or []]
    for message in content.get("messages") or []:
        lines += str(message.get("content", "")).splitlines()
        calls = message.get("tool_calls") or []
        lines += [f"{call.get('id')} {call.get('name')} {call.get('arguments')}" for call in calls]
    return lines


def _differences(wanted: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Describe each parameter that differs between two calls, and the first prompt line that differs."""
    found = [
        f"{name} is {_short(value)}, recorded {_short(other.get(name))}"
        for name, value in wanted.items()
        if name not in ("messages", "tools") and other.get(name) != value
    ]
    ours, theirs = _prompt_lines(wanted), _prompt_lines(other)
    if ours != theirs:
        at = _first_difference(ours, theirs)
        mine, recorded = (lines[at] if at < len(lines) else "nothing" for lines in (ours, theirs))
        start = max(0, _first_difference(mine, recorded) - _SHOWN // 2)
        place = f"prompt line {at + 1}" + (f" from character {start + 1}" if start else "")
        found.append(f"{place} is {_short(mine[start:])}, recorded {_short(recorded[start:])}")
    return found or ["its row is damaged"]


def _first_difference(ours: Sequence[str], theirs: Sequence[str]) -> int:
    different = (i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b)
    return next(different, min(len(ours), len(theirs)))


def _short(value: object) -> str:
    text = ascii(value) if isinstance(value, str) else _json(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
