"""The two formats of a run's rows: plain, ``rows.jsonl``, and compressed, ``rows.jsonl.zst``.

1. A compressed file is a sequence of Zstandard frames (RFC 8878) with checksums. Unpacked and joined, they
   are the plain file, byte for byte.
2. A run in progress adds one frame per row. A finished run is one frame.
3. A file that was cut short ends in a line without its line end, or in a frame without its end.
4. A file may come from somebody else, so its unpacked size is limited, and so is the memory of unpacking.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from branchrank.artifacts import atomic_writer
from branchrank.errors import RunError

#: A file may unpack to this many bytes, or to this many times its size if that is more.
MOST_BYTES = 64 << 20
MOST_TIMES = 200
_COMPRESSED = ".zst"
#: The distance, as a power of two, within which repeated text is found: 8 MiB, several hundred rows.
_WINDOW = 23
_LARGEST_WINDOW = 1 << 27
_ROW_LEVEL = 3
_FILE_LEVEL = 9
#: Bytes unpacked at once. They can become 32 MiB at most, so that a limit is noticed in time.
_BLOCK = 1024
_REMEDY = "restore the file or run the benchmark again"


def is_compressed(path: Path) -> bool:
    """Whether the file at ``path`` has the compressed format, by its name."""
    return path.suffix == _COMPRESSED


def packed(path: Path, line: bytes) -> bytes:
    """The bytes that add a line, which ends in a line end, to the file at ``path``."""
    if not is_compressed(path):
        return line
    import zstandard

    return zstandard.ZstdCompressor(level=_ROW_LEVEL, write_checksum=True).compress(line)


def write_lines(path: Path, lines: Iterable[bytes]) -> None:
    """Write a finished file atomically. Raises :class:`~branchrank.errors.StorageError`."""
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
    """The lines of a finished file. Raises :class:`RunError` if it is damaged or was cut short."""
    if not is_compressed(path):
        return path.read_bytes().splitlines()
    lines, whole = _unpacked(path)
    if whole < path.stat().st_size:
        raise RunError(f"{path} is cut short after {len(lines)} rows", remedy=_REMEDY)
    return lines


def whole_lines(path: Path) -> tuple[list[bytes], int]:
    """The complete lines of a file that may have been cut short, and the bytes of the file they take.

    Raises :class:`RunError` if it is damaged before its end.
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
    """Yield the content of each complete frame, and the place in the file where the frame ends."""
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
                raise RunError(f"{path} unpacks to more than {most} bytes", remedy=_REMEDY)
        if not frame.eof:
            return
        yield b"".join(pieces), place
