"""``rows.jsonl``, the measurements of a run, with one row per question, predictor and repeat.

1. A row is appended and fsynced when its question is finished, so a killed run loses at most one row.
2. A resumed run reads the existing rows. An incomplete last row is removed, and the run reports the removal.
3. The file is locked while a run writes it, so that a second process can't resume a run in progress.
4. Every CSV file, table and plot in a report is computed from the rows.
5. The file's suffix shows whether it is plain or compressed (:mod:`branchrank.runs.row_files`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from branchrank.errors import RunError
from branchrank.io.files import NOT_JSON, storage_errors
from branchrank.records import Count, Grade, LineNumber, LLMCall, Placement, Rank, Record, StageTrace
from branchrank.runs.row_files import packed, read_lines, whole_lines, write_lines

#: The maximum number of repeats for an LLM predictor.
MAX_REPEATS = 1_000
RowKey = tuple[str, str, int]
Repeat = Annotated[int, msgspec.Meta(ge=0, lt=MAX_REPEATS)]


class RowHit(Record, frozen=True, kw_only=True):
    """A hit as stored in a row, without its text.

    ``characters`` and ``tokens`` are the length of the hit's text. All token counts use the same tokenizer,
    whichever model embeds the text. In rows from older versions, ``tokens`` is ``None``. ``gain``, ``gold``
    and ``page`` are copied from the judgment of the hit (:class:`branchrank.measures.matching.JudgedHit`).
    """

    id: str
    source: str
    line_start: LineNumber
    line_end: LineNumber
    characters: Count
    score: float
    gain: Grade
    tokens: Count | None = None
    gold: Count | None = None
    page: Count | None = None
    node_id: str | None = None
    distance: float | None = None
    branches: dict[str, Placement] = msgspec.field(default_factory=dict)
    fallback: str | None = None


class Row(Record, frozen=True, kw_only=True):
    """One predictor's answer to one question.

    The row of a failed query has an ``error`` and no hits.

    ``trace`` contains the first entries of each stage's list, and ``stages`` contains the names of all stages
    in order. ``gold_ranks`` contains the gold's ranks in the complete lists
    (:mod:`branchrank.runs.attribution`), and ``lost`` is the stage at which the gold was lost.
    """

    question_id: str
    predictor: str
    llm: str
    repeat: Repeat = 0
    status: Literal["ok", "failed"] = "ok"
    error: str = ""
    hits: tuple[RowHit, ...] = ()
    trace: tuple[StageTrace, ...] = ()
    stages: tuple[str, ...] = ()
    gold_ranks: dict[str, Rank] = msgspec.field(default_factory=dict)
    lost: str = ""
    calls: tuple[LLMCall, ...] = ()
    fallbacks: tuple[str, ...] = ()

    @property
    def key(self) -> RowKey:
        """The fields that identify the row within a run."""
        return (self.question_id, self.predictor, self.repeat)


def read_rows(path: Path) -> list[Row]:
    """Read a finished rows file. Raises :class:`RunError` with the line number if a line is not a row."""
    return list(_decoded(path, read_lines(path) if path.exists() else ()))


def _decoded(path: Path, lines: Sequence[bytes]) -> Iterator[Row]:
    decoder = msgspec.json.Decoder(Row)
    for number, line in enumerate(lines, start=1):
        try:
            yield decoder.decode(line)
        except NOT_JSON as error:
            raise RunError(
                f"{path}:{number}: {error}", remedy="restore the file or run the benchmark again"
            ) from None


def _line(row: Row) -> bytes:
    return msgspec.json.encode(row) + b"\n"


def is_under_way(path: Path) -> bool:
    """Return whether a process is currently writing the rows file ``path``."""
    try:
        with path.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


class RowLog:
    """The rows of a run in progress, in a file that this process locks until :meth:`close` is called.

    ``torn`` is true if an incomplete last row was removed. Raises :class:`RunError` if a line is not a valid
    row, or if another process is writing to the file. Raises :class:`~branchrank.errors.StorageError` if
    writing fails.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.torn = False
        self.rows: dict[RowKey, Row] = {}
        with storage_errors(path), contextlib.ExitStack() as opened:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Unbuffered, so that closing the file does not retry a write that failed on a full disk.
            self._stream = opened.enter_context(path.open("ab", buffering=0))
            self._lock()
            self._recover()
            opened.pop_all()

    def __enter__(self) -> RowLog:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(
                f"another process is writing {self.path}", remedy="wait until it is done, or use --fresh"
            ) from None

    def _recover(self) -> None:
        lines, whole = whole_lines(self.path)
        if whole < self.path.stat().st_size:
            self.torn = True
            os.ftruncate(self._stream.fileno(), whole)
        for row in _decoded(self.path, lines):
            self.rows[row.key] = row

    def append(self, row: Row) -> None:
        """Append a row and fsync the file."""
        content = packed(self.path, _line(row))
        with storage_errors(self.path):
            while content:
                content = content[self._stream.write(content) :]
            os.fsync(self._stream.fileno())
        self.rows[row.key] = row

    def rewrite(self, rows: Iterable[Row]) -> None:
        """Replace the rows in the file, and lock the new file."""
        write_lines(self.path, map(_line, rows))
        with storage_errors(self.path):
            written = self.path.open("ab", buffering=0)
        before, self._stream = self._stream, written
        self._lock()
        before.close()

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
