"""``rows.jsonl``, the measurements of a run, with one row per question, predictor and repeat.

1. A row is appended and fsynced when its question is finished, so a killed run loses at most one row.
2. A resumed run reads the existing rows. An incomplete last row is removed, and the run reports the removal.
3. The file is locked while a run writes it, so that a second process can't resume a run in progress.
4. Every CSV file, table and plot in a report is computed from the rows.
5. The file's suffix shows whether it is plain (``rows.jsonl``) or compressed (``rows.jsonl.zst``).

The compressed format:

1. A compressed file is a sequence of Zstandard frames (RFC 8878) with checksums. The plain file is equal to
   the decompressed frames, joined in order.
2. While a run is in progress, each row is compressed as its own Zstandard frame. At the end of the run, all
   rows are compressed again as a single Zstandard frame.
3. A truncated file ends with an incomplete line or an incomplete Zstandard frame.
4. The decompressed size and the memory used for decompression are limited, because a file can come from an
   untrusted source.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from branchrank.core.errors import RunError
from branchrank.core.io import Closing
from branchrank.core.io.files import NOT_JSON, atomic_writer, storage_errors
from branchrank.core.records import AgentLog, Count, LLMCall, Rank, Record, StageTrace
from branchrank.scoring.matching import JudgedHit

#: The maximum number of repeats for an LLM predictor.
MAX_REPEATS = 1_000
RowKey = tuple[str, str, int]

#: The limit for the decompressed size of a small file, in bytes.
MOST_BYTES = 64 << 20
#: The limit for the decompressed size of a large file, as a multiple of the compressed size. A file may
#: decompress to :data:`MOST_BYTES` or to this multiple of its compressed size, whichever is larger.
MOST_TIMES = 200
_COMPRESSED = ".zst"
#: The base-2 logarithm of the size of the compression window (8 MiB, or several hundred rows).
_WINDOW = 23
_LARGEST_WINDOW = 1 << 27
_ROW_LEVEL = 3
_FILE_LEVEL = 9
#: The number of compressed bytes between two checks of the decompressed size. This many compressed bytes
#: decompress to at most 32 MiB.
_BLOCK = 1024
_REMEDY = "restore the file or run the benchmark again"

Repeat = Annotated[int, msgspec.Meta(ge=0, lt=MAX_REPEATS)]


class Row(Record, frozen=True, kw_only=True, gc=False):
    """One predictor's answer to one question.

    The row of a failed query has an ``error`` and no hits.

    ``trace`` contains the first entries of each stage's list, and ``stages`` contains the names of all stages
    in order. ``gold_ranks`` contains the gold's ranks in the complete lists
    (:mod:`branchrank.runs.attribution`), and ``lost`` is the stage at which the gold was lost.

    ``excluded`` is the number of hits that were removed because they overlap an excluded span. ``altered`` is
    the number of hits whose returned text is not the text of their lines. ``missing`` and ``ambiguous`` are
    the numbers of hits without lines whose text is at no place of the corpus, and at several. ``unknown`` has
    the sources of the texts that named a source outside the corpus. Empty counts and lists are omitted.
    ``agent`` has the steps of an agent, without the text of its answer, and ``unseen`` the groups of
    ``Question.needs`` (counted from 1) of which no tool showed it a line.
    """

    question_id: str
    predictor: str
    llm: str
    repeat: Repeat = 0
    status: Literal["ok", "failed"] = "ok"
    error: str = ""
    hits: tuple[JudgedHit, ...] = ()
    trace: tuple[StageTrace, ...] = ()
    stages: tuple[str, ...] = ()
    gold_ranks: dict[str, Rank] = msgspec.field(default_factory=dict)
    lost: str = ""
    calls: tuple[LLMCall, ...] = ()
    fallbacks: tuple[str, ...] = ()
    excluded: Count | msgspec.UnsetType = msgspec.UNSET
    altered: Count | msgspec.UnsetType = msgspec.UNSET
    missing: Count | msgspec.UnsetType = msgspec.UNSET
    ambiguous: Count | msgspec.UnsetType = msgspec.UNSET
    unknown: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    agent: AgentLog | msgspec.UnsetType = msgspec.UNSET
    unseen: tuple[Rank, ...] | msgspec.UnsetType = msgspec.UNSET

    @property
    def key(self) -> RowKey:
        """The fields that identify the row within a run."""
        return (self.question_id, self.predictor, self.repeat)

    @property
    def first_gold(self) -> int | None:
        """The rank of the first hit that contains gold, if there is one."""
        return next((rank for rank, hit in enumerate(self.hits, start=1) if hit.gold is not None), None)

    @property
    def first_page(self) -> int | None:
        """The rank of the first hit on a page with gold, if there is one."""
        return next((rank for rank, hit in enumerate(self.hits, start=1) if hit.page is not None), None)


class UntracedRow(Row, frozen=True, kw_only=True, gc=False):
    """A row that is read without its trace, which saves half of the time and memory."""

    trace: tuple[StageTrace, ...] = msgspec.field(default=(), name="(not read)")


def read_rows(path: Path, row: type[Row] = Row) -> list[Row]:
    """Read a finished rows file. Raises :class:`RunError` with the line number if a line is not a row."""
    if not path.exists():
        return []
    if not is_compressed(path):
        with contextlib.suppress(*NOT_JSON):  # the error below names the line
            return msgspec.json.Decoder(row).decode_lines(path.read_bytes())
    return list(_decoded(path, read_lines(path), row))


def _decoded(path: Path, lines: Sequence[bytes], row: type[Row] = Row) -> Iterator[Row]:
    decoder = msgspec.json.Decoder(row)
    for number, line in enumerate(lines, start=1):
        try:
            yield decoder.decode(line)
        except NOT_JSON as error:
            raise RunError(f"{path}:{number}: {error}", remedy=_REMEDY) from None


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


def is_compressed(path: Path) -> bool:
    """Return whether the file at ``path`` is compressed, according to its name."""
    return path.suffix == _COMPRESSED


def packed(path: Path, line: bytes) -> bytes:
    """Return ``line`` in the form in which it is appended to the file at ``path``: compressed or unchanged.

    ``line`` must end with a line break.
    """
    if not is_compressed(path):
        return line
    import zstandard

    return zstandard.ZstdCompressor(level=_ROW_LEVEL, write_checksum=True).compress(line)


def write_lines(path: Path, lines: Iterable[bytes]) -> None:
    """Write all lines of a finished run to ``path`` atomically.

    Raises :class:`~branchrank.core.errors.StorageError` if the file can't be written.
    """
    with atomic_writer(path) as stream:
        if not is_compressed(path):
            stream.writelines(lines)
            return
        import zstandard

        parameters = zstandard.ZstdCompressionParameters.from_level(
            _FILE_LEVEL, window_log=_WINDOW, write_checksum=True
        )
        compressor = zstandard.ZstdCompressor(compression_params=parameters)
        with compressor.stream_writer(stream, closefd=False) as writer:
            for line in lines:
                writer.write(line)


def read_lines(path: Path) -> list[bytes]:
    """Return the lines of a finished file. Raises :class:`RunError` if the file is damaged or truncated."""
    if not is_compressed(path):
        return path.read_bytes().splitlines()
    lines, whole = _unpacked(path)
    if whole < path.stat().st_size:
        raise RunError(f"{path} is truncated after {len(lines)} rows", remedy=_REMEDY)
    return lines


def whole_lines(path: Path) -> tuple[list[bytes], int]:
    """Return the complete lines of a possibly truncated file, and the number of bytes that they occupy.

    An incomplete last line or frame is ignored. Raises :class:`RunError` if a compressed file is damaged
    (except for an incomplete last frame) or too large when decompressed.
    """
    if is_compressed(path):
        return _unpacked(path)
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    return content[:whole].splitlines(), whole


def _unpacked(path: Path) -> tuple[list[bytes], int]:
    import zstandard

    lines: list[bytes] = []
    whole = 0
    try:
        for frame, whole in _frames(path):  # noqa: B007 - the last value is returned
            lines += frame.splitlines()
    except zstandard.ZstdError as error:
        raise RunError(f"{path} is damaged after {len(lines)} rows: {error}", remedy=_REMEDY) from None
    return lines, whole


def _frames(path: Path) -> Iterator[tuple[bytes, int]]:
    """Yield each complete frame's content, and the position in the file at which the frame ends."""
    import zstandard

    content = path.read_bytes()
    most = max(MOST_BYTES, MOST_TIMES * len(content))
    decompressor = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
    place = found = 0
    while place < len(content):
        frame, pieces = decompressor.decompressobj(), []
        while place < len(content) and not frame.eof:
            block = content[place : place + _BLOCK]
            pieces.append(frame.decompress(block))
            place += len(block) - len(frame.unused_data)
            found += len(pieces[-1])
            if found > most:
                raise RunError(f"{path} is larger than {most} bytes when decompressed", remedy=_REMEDY)
        if not frame.eof:
            return
        yield b"".join(pieces), place


class RowLog(Closing):
    """The rows of a run in progress, in a file that this process locks until :meth:`close` is called.

    ``torn`` is true if an incomplete last row was removed. Raises :class:`RunError` if a line is not a valid
    row, or if another process is writing to the file. Raises :class:`~branchrank.core.errors.StorageError` if
    writing fails.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with storage_errors(path), contextlib.ExitStack() as opened:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Unbuffered, so that closing the file does not retry a write that failed on a full disk.
            self._stream = opened.enter_context(path.open("ab", buffering=0))
            self._lock()
            lines, whole = whole_lines(path)
            self.torn = whole < path.stat().st_size
            if self.torn:
                os.ftruncate(self._stream.fileno(), whole)
            self.rows: dict[RowKey, Row] = {row.key: row for row in _decoded(path, lines)}
            opened.pop_all()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(
                f"another process is writing {self.path}", remedy="wait until it is done, or use --fresh"
            ) from None

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
