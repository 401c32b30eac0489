"""Write files atomically, read and write JSON Lines, and compute SHA-256 digests.

1. A file is written under a temporary name in its directory, flushed to the disk (fsync), and then renamed.
   After a crash, the file has either its old content or its complete new content.
2. After the rename, the directory is flushed too, so that the new name survives a power loss.
3. A manifest beside each artifact, such as an index, records what the artifact was made from. An artifact is
   compared with its manifest before use.

Digests detect damage, but not an attack that changes both a file and the file's digest in the manifest.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

from branchrank.errors import BranchRankError, InputError, StorageError

T = TypeVar("T")

#: Exceptions that msgspec raises for invalid JSON, JSON of the wrong type, or JSON that is nested too deeply.
NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


@contextlib.contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Raise a :class:`StorageError` for each ``OSError`` in a ``with`` block that writes ``path``."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        remedies = {
            errno.ENOSPC: "free some space and run the command again",
            errno.EROFS: "choose a writable folder with --data-dir",
            errno.EACCES: "choose a writable folder with --data-dir",
            errno.EPERM: "choose a writable folder with --data-dir",
        }
        remedy = remedies.get(error.errno or 0, "check the disk and run the command again")
        raise StorageError(f"cannot write {path}: {reason}", remedy=remedy) from error


def fsync_directory(directory: Path) -> None:
    """Flush a directory's entries to the disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def create_beside(path: Path) -> tuple[int, Path]:
    """Create a temporary file in the same folder as ``path``, and return its file descriptor and path.

    The permissions of the file follow the user's umask. Raises ``OSError`` if the file can't be created.
    """
    name = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), name


@contextlib.contextmanager
def atomic_writer(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file, which is renamed to ``path`` if the block ends without an error.

    If the file can't be written, :class:`StorageError` is raised and the old content of ``path`` is kept.
    """
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = create_beside(path)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)
            raise
        fsync_directory(path.parent)


def write_bytes(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path`` atomically and durably."""
    with atomic_writer(path) as stream:
        stream.write(content)


def write_text(path: Path, content: str) -> None:
    """Write ``content`` as UTF-8 to ``path`` atomically and durably."""
    write_bytes(path, content.encode("utf-8"))


def write_jsonl(path: Path, records: Iterable[object]) -> None:
    """Write each record as one line of JSON, atomically and durably."""
    encoder = msgspec.json.Encoder()
    with atomic_writer(path) as stream:
        for record in records:
            stream.write(encoder.encode(record))
            stream.write(b"\n")


def read_jsonl(
    path: Path, record_type: type[T], *, error: Callable[..., BranchRankError] = InputError, remedy: str = ""
) -> list[T]:
    """Read the records of a JSON Lines file, skipping blank lines.

    Raises ``error`` if the file can't be read or a line is not a ``record_type``. The error's message gives
    the file's path and the line number.
    """
    decoder = msgspec.json.Decoder(record_type)
    records: list[T] = []
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if not line.strip():
                    continue
                try:
                    records.append(decoder.decode(line))
                except NOT_JSON as reason:
                    raise error(f"{path}:{number}: {reason}", remedy=remedy) from None
    except OSError as reason:
        raise error(f"cannot read {path}: {reason.strerror}", remedy=remedy) from reason
    return records


def digest_bytes(content: bytes) -> str:
    """Return the SHA-256 of ``content`` as 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def digest_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes as 64 hexadecimal digits."""
    with path.open("rb") as stream:
        return digest_stream(stream)


def digest_stream(stream: BufferedIOBase) -> str:
    """Return the SHA-256 of an open file's remaining bytes, as 64 hexadecimal digits."""
    return hashlib.file_digest(stream, "sha256").hexdigest()


def digest_of(value: object) -> str:
    """Encode a value as JSON with sorted keys, and return its SHA-256 as 64 hexadecimal digits."""
    return digest_bytes(msgspec.json.encode(value, order="sorted"))
