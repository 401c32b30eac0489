"""Read and write files atomically and below a folder, with protection against malicious paths and links.

1. A file is written under a temporary name in its folder, flushed to the disk (fsync) and renamed, and the
   folder is flushed too. After a crash, the file has either its old content or its complete new content.
2. A path below a folder is split into components at ``/``. Absolute paths and paths with an empty, ``.`` or
   ``..`` component are refused. Each folder is opened relative to the file descriptor of its parent folder,
   and never through a symbolic link. A file is opened without following a link and without blocking, and must
   be a regular file.
3. A folder is removed through the descriptor of the parent folder, and not by path. The total size and the
   number of files of a copied folder are limited.

Digests detect damage, but not an attack that changes both a file and the file's digest in a manifest.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from io import BufferedIOBase, BufferedReader
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

from branchrank.core.errors import ArtifactError, BranchRankError, InputError, Remedies, Remedy, StorageError

T = TypeVar("T")
#: The limits of a folder that is copied, in bytes and files.
MOST_BYTES = 32 << 30
MOST_FILES = 10_000

#: Exceptions that msgspec raises for invalid JSON, JSON of the wrong type, or JSON that is nested too deeply.
NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


@contextlib.contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Raise a :class:`StorageError` for each ``OSError`` in a ``with`` block that writes ``path``."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        remedy: Remedies = "check the disk and run the command again"
        if error.errno == errno.ENOSPC:
            remedy = "free some space and run the command again"
        elif error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            remedy = ("make the folder writable", Remedy("choose another one with {}", "--data-dir"))
        elif error.errno in (errno.EISDIR, errno.ENOTDIR):
            remedy = "rename what is there, and run the command again"
        raise StorageError(f"cannot write {path}: {reason}", remedy=remedy) from error


@contextlib.contextmanager
def reading_errors(
    path: Path, error: Callable[..., BranchRankError] = InputError, remedy: str = ""
) -> Iterator[None]:
    """Raise ``error`` for each ``OSError`` in a ``with`` block that reads ``path``."""
    try:
        yield
    except OSError as reason:
        raise error(f"cannot read {path}: {reason.strerror}", remedy=remedy) from reason


def fsync_path(path: Path) -> None:
    """Flush a file, or the entries of a directory, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def atomic_writer(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file, which is renamed to ``path`` if the block ends without an error.

    A file that exists keeps its permissions. If the file can't be written, :class:`StorageError` is raised
    and the old content of ``path`` is kept.
    """
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
        try:
            with temporary.open("xb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            if path.is_file():
                shutil.copymode(path, temporary)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        fsync_path(path.parent)


def write_bytes(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path`` atomically and durably."""
    with atomic_writer(path) as stream:
        stream.write(content)


def write_text(path: Path, content: str) -> None:
    """Write ``content`` as UTF-8 to ``path`` atomically and durably."""
    write_bytes(path, content.encode("utf-8"))


def write_jsonl(path: Path, records: Iterable[object]) -> str:
    """Write each record as one line of JSON, atomically and durably, and return the file's digest."""
    encoder, digest = msgspec.json.Encoder(), hashlib.sha256()
    with atomic_writer(path) as stream:
        for record in records:
            line = encoder.encode(record) + b"\n"
            digest.update(line)
            stream.write(line)
    return digest.hexdigest()


def digest_bytes(content: bytes) -> str:
    """Return the SHA-256 of ``content`` as 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def digest_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes as 64 hexadecimal digits."""
    with open_file(path) as stream:
        return digest_stream(stream)


def digest_stream(stream: BufferedIOBase) -> str:
    """Return the SHA-256 of an open file's remaining bytes, as 64 hexadecimal digits."""
    return hashlib.file_digest(stream, "sha256").hexdigest()


def digest_of(value: object) -> str:
    """Encode a value as JSON with sorted keys, and return its SHA-256 as 64 hexadecimal digits."""
    return digest_bytes(msgspec.json.encode(value, order="sorted"))


#: Matches the names of temporary files that :func:`atomic_writer` creates.
_TEMPORARY = re.compile(r"\.(?:(.+)\.)?[0-9a-f]{16}\.tmp")


def open_file(path: Path) -> BufferedReader:
    """Open a regular file for reading. Symbolic links are followed, because the user gave the path.

    Raises ``OSError`` if the path can't be opened or is not a regular file, because reading a pipe could
    block forever. Paths in ``/dev`` and ``/dev/fd`` may be pipes, because a shell passes ``<(...)`` as such a
    path.
    """
    if path.parent in (Path("/dev"), Path("/dev/fd")):
        return path.open("rb")
    return _open_regular(path)


def _open_regular(path: Path) -> BufferedReader:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise PermissionError(errno.EACCES, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def read_file(path: Path) -> bytes:
    """Return the content of a regular file. Raises the same errors as :func:`open_file`."""
    with open_file(path) as stream:
        return stream.read()


def safe_path(root: Path, relative: str, *, follow_last: bool = False) -> Path:
    """Return the path ``relative`` (names joined by ``/``) below the folder ``root``.

    The path ``root`` may contain symbolic links. Raises :class:`PermissionError` if ``relative`` is absolute,
    contains ``..`` or contains a link. The last name may be a link if ``follow_last`` is true.
    """
    names = relative.split("/")
    if any(name in ("", ".", "..") or "\0" in name for name in names):
        raise PermissionError(
            errno.EACCES, "the path must be relative, without empty, . or .. parts", relative
        )
    path = root
    for number, name in enumerate(names, start=1):
        path /= name
        if not (follow_last and number == len(names)) and path.is_symlink():
            raise PermissionError(errno.EACCES, "symbolic links are not followed", relative)
    return path


def open_beneath(root: Path, relative: str) -> BufferedReader:
    """Open the regular file ``relative`` below the folder ``root`` for reading.

    Raises :class:`FileNotFoundError` if the file does not exist, and :class:`IsADirectoryError` if
    ``relative`` is a folder. Raises :class:`PermissionError` for the paths that :func:`safe_path` refuses and
    for a file that is not regular or can't be accessed.
    """
    if relative == ".":
        raise IsADirectoryError(errno.EISDIR, "a folder, not a file", relative)
    try:
        return _open_regular(safe_path(root, relative))
    except (UnicodeEncodeError, NotADirectoryError):
        raise FileNotFoundError(errno.ENOENT, "no such file", relative) from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise FileNotFoundError(errno.ENOENT, "no such file", relative) from None
        if error.errno == errno.ENXIO:
            raise PermissionError(errno.EACCES, "not a regular file", relative) from None
        raise


def read_beneath(root: Path, relative: str, most_bytes: int = sys.maxsize) -> bytes:
    """Return the content of the file ``relative`` below ``root``.

    Raises the same errors as :func:`open_beneath`, and ``OSError`` for a file with more than ``most_bytes``.
    """
    with open_beneath(root, relative) as stream:
        if os.fstat(stream.fileno()).st_size > most_bytes:
            raise OSError(errno.EFBIG, f"the file has more than {most_bytes >> 20} MiB", relative)
        return stream.read()


def write_beneath(root: Path, relative: str, content: bytes) -> None:
    """Write the file ``relative`` below ``root`` atomically and durably.

    Missing folders are created. If the path is a symbolic link, the link is replaced and not followed. Raises
    :class:`PermissionError` for the paths that :func:`safe_path` refuses.
    """
    write_bytes(safe_path(root, relative, follow_last=True), content)


def remove_beneath(root: Path, relative: str) -> None:
    """Remove the file or folder ``relative`` below ``root``. A missing path is ignored.

    Raises :class:`PermissionError` for a path that contains ``..`` or a linked folder, and ``OSError`` if the
    operating system does not allow the removal. If the path is a symbolic link, the link is removed and the
    link's target is kept.
    """
    path = safe_path(root, relative, follow_last=True)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def remove_temporary(folder: Path, name: str = "") -> None:
    """Remove the temporary files of killed processes from a folder, or only those of the file ``name``.

    Call this function only while no process is writing to the folder or file. Files that can't be removed are
    ignored.
    """
    with contextlib.suppress(OSError):
        for each in os.listdir(folder):
            match = _TEMPORARY.fullmatch(each)
            if match and name in ("", match[1]):
                os.unlink(folder / each)


@contextlib.contextmanager
def only_writer(folder: Path, name: str = "") -> Iterator[None]:
    """Allow one process and thread at a time to write to a folder, or to the file ``name`` in the folder.

    On entering the block, wait until nobody else is writing, and remove the temporary files of killed
    processes (:func:`remove_temporary`). The folder itself is locked, so that no lock file is needed. A
    missing folder is created. On a file system without locks, do not wait and do not remove any files. Raises
    :class:`StorageError` if the folder can't be created or opened.
    """
    with storage_errors(folder / name):
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            remove_temporary(folder, name)
        yield
    finally:
        os.close(descriptor)


def links_beneath(root: Path) -> Iterator[Path]:
    """Yield the symbolic links below ``root``. If ``root`` itself is a link, yield only ``root``."""
    found = [root] if root.is_symlink() else root.rglob("*")
    yield from (path for path in found if path.is_symlink())


def copy_folder(source: Path, target: Path, *, remedy: str) -> None:
    """Copy the files below the folder ``source`` into the new folder ``target``.

    Raises :class:`ArtifactError` for a symbolic link, a special file, an exceeded limit, or a file that can't
    be read.
    """
    try:
        _copy(source, target)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        raise ArtifactError(f"cannot copy {source}{where}: {error.strerror}", remedy=remedy) from error


def _copy(source: Path, target: Path) -> None:
    for link in links_beneath(source):
        raise PermissionError(errno.EACCES, "symbolic links are not followed", str(link))
    paths = list(islice(source.rglob("*"), MOST_FILES + 1))
    if len(paths) > MOST_FILES or sum(path.stat().st_size for path in paths if path.is_file()) > MOST_BYTES:
        reason = f"more than {MOST_BYTES >> 20} MiB or {MOST_FILES} files"
        raise PermissionError(errno.EFBIG, reason, str(source))
    target.mkdir(mode=0o700)
    for path in paths:  # a folder comes before its files
        copy = target / path.relative_to(source)
        if path.is_dir():
            copy.mkdir()
        else:
            with open_file(path) as stream, copy.open("xb") as written:
                shutil.copyfileobj(stream, written, 1 << 20)
