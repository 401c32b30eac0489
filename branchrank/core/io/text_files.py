"""Read text files: every file of text that a user gives is decoded here.

1. Text is UTF-8, with or without a byte order mark, or UTF-16 with a byte order mark. Any other text is an
   error that names the line.
2. A file that is compressed with gzip is recognized by its first bytes, whatever its name.
3. A line ends at ``\\n``, so that all readers count lines as editors do.
"""

from __future__ import annotations

import codecs
import gzip
import sys
import zlib
from collections.abc import Callable, Iterator
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import TypeVar

import msgspec

from branchrank.core.errors import BranchRankError, InputError
from branchrank.core.io.files import NOT_JSON, open_beneath, open_file, reading_errors

T = TypeVar("T")

UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def decoded(content: bytes) -> str:
    """Return bytes as text without its byte order mark. Raises ``UnicodeDecodeError`` for other encodings."""
    return content.decode("utf-16" if content.startswith(UTF_16_MARKS) else "utf-8-sig")


def decoded_always(content: bytes) -> tuple[str, tuple[str, ...]]:
    """Decode the bytes of a document. Return the text, and notes about bytes that are not valid text.

    A file that is neither UTF-8 nor UTF-16 with a byte order mark is read as Latin-1, in which all bytes are
    valid. NUL bytes are read as spaces.
    """
    notes: tuple[str, ...] = ()
    try:
        text = decoded(content)
    except UnicodeDecodeError as error:
        notes = (f"read as Latin-1, because byte {error.start + 1} is not valid UTF-8",)
        text = content.decode("latin-1")
    if "\0" in text:
        notes += ("NUL bytes were read as spaces",)
    return text.replace("\0", " "), notes


def text_lines(
    path: Path,
    *,
    error: Callable[..., BranchRankError] = InputError,
    remedy: str = "",
    root: Path | None = None,
    most_bytes: int = sys.maxsize,
) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line of a text file. Only the last line can lack its line break.

    If ``root`` is not ``None``, symbolic links in ``path`` below the folder ``root`` are not followed. Raises
    ``error``, with the path and the number of the line, for a line that is not text or has ``most_bytes``
    bytes. Raises ``OSError`` if the file can't be read.
    """
    number = 0
    with open_beneath(root, path.relative_to(root).as_posix()) if root else open_file(path) as stream:
        try:
            # The size of a foreign file is limited, but not the size of its decompressed content.
            is_compressed = root is None and stream.peek(2).startswith(b"\x1f\x8b")
            content = _utf_8(gzip.GzipFile(fileobj=stream) if is_compressed else stream)
            while line := content.readline(most_bytes):
                number += 1
                if len(line) == most_bytes:
                    raise error(f"{path}:{number}: the line is too long", remedy=remedy)
                if b"\0" in line:
                    raise UnicodeDecodeError("utf-8", line, 0, 1, "it contains NUL bytes")
                yield number, line.decode("utf-8")
        except UnicodeDecodeError as reason:
            if reason.encoding != "utf-8":
                number = reason.object[: reason.start].decode("utf-16").count("\n") + 1
            raise error(
                f"{path}:{number}: the line is not UTF-8 text: {reason.reason}",
                remedy=remedy or f"save {path} as UTF-8",
            ) from None
        except (EOFError, zlib.error, gzip.BadGzipFile) as reason:
            raise error(f"{path}:{number + 1}: damaged gzip data: {reason}", remedy=remedy) from None


def _utf_8(stream: BufferedReader | gzip.GzipFile) -> BufferedReader | gzip.GzipFile | BytesIO:
    """Return a stream of the same text in UTF-8, without its byte order mark."""
    head = stream.peek(3)
    if head.startswith(UTF_16_MARKS):
        return BytesIO(decoded(stream.read()).encode())
    if head.startswith(codecs.BOM_UTF8):
        stream.read(len(codecs.BOM_UTF8))
    return stream


def read_text(path: Path, *, error: Callable[..., BranchRankError] = InputError, remedy: str = "") -> str:
    """Return the content of a text file. Raises the same errors as :func:`text_lines`."""
    return "".join(line for _, line in text_lines(path, error=error, remedy=remedy))


def read_jsonl(
    path: Path,
    record_type: type[T],
    *,
    error: Callable[..., BranchRankError] = InputError,
    remedy: str = "",
    root: Path | None = None,
    most_line_bytes: int = sys.maxsize,
) -> Iterator[T]:
    """Yield the records of a JSON Lines file, skipping blank lines.

    Raises the same errors as :func:`text_lines`, and ``error`` with the line number if the file can't be read
    or if a line is not a ``record_type``.
    """
    decoder = msgspec.json.Decoder(record_type)
    lines = text_lines(path, error=error, remedy=remedy, root=root, most_bytes=most_line_bytes)
    with reading_errors(path, error, remedy):
        for number, line in lines:
            if not line.strip():
                continue
            try:
                record = decoder.decode(line)
            except NOT_JSON as reason:
                raise error(f"{path}:{number}: {reason}", remedy=remedy) from None
            yield record
