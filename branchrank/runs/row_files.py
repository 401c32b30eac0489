"""The two formats of a run's rows, plain (``rows.jsonl``) and compressed (``rows.jsonl.zst``).

1. A compressed file is a sequence of Zstandard frames (RFC 8878) with checksums. The plain file is equal to
   the decompressed frames, joined in order.
2. While a run is in progress, each row is compressed as its own Zstandard frame. At the end of the run, all
   rows are compressed again as a single Zstandard frame.
3. A truncated file ends with an incomplete line or an incomplete Zstandard frame.
4. The decompressed size and the memory used for decompression are limited, because a file can come from an
   untrusted source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from branchrank.errors import RunError
from branchrank.io.files import atomic_writer

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

    Raises :class:`~branchrank.errors.StorageError` if the file can't be written.
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
