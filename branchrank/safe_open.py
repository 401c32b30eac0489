"""Open a file that lies below a folder, whatever the path says and whoever swaps links meanwhile.

1. The path is split into names; an absolute path, an empty name, ``.`` and ``..`` are refused.
2. Each folder is opened relative to the descriptor of the one before it, never through a link, so that
   what was checked is what is used: a name swapped for a link between two steps is refused.
3. The file is opened without following a link and without blocking, and must be a regular file.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def open_beneath(root: Path, relative: str) -> BinaryIO:
    """Open the regular file ``relative`` (names joined by ``/``) below the folder ``root`` for reading.

    ``root`` itself may be or hold a link. Raises :class:`FileNotFoundError` when nothing is there,
    :class:`IsADirectoryError` for a folder, :class:`PermissionError` for a path that leaves the folder
    or passes a link, for what is no regular file, and for what the system refuses.
    """
    if relative == ".":
        raise IsADirectoryError(errno.EISDIR, "a folder, not a file", relative)
    names = relative.split("/")
    if any(name in ("", ".", "..") or "\0" in name for name in names):
        raise PermissionError(errno.EACCES, "the path does not stay below the folder", relative)
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in names[:-1]:
            below = _open(name, _FOLDER, folder, relative)
            os.close(folder)
            folder = below
        descriptor = _open(names[-1], _FILE, folder, relative)
    finally:
        os.close(folder)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "a folder, not a file", relative)
    raise PermissionError(errno.EACCES, "not a regular file", relative)


def read_beneath(root: Path, relative: str) -> bytes:
    """The content of the regular file ``relative`` below ``root``; raises what :func:`open_beneath` does."""
    with open_beneath(root, relative) as stream:
        return stream.read()


def _open(name: str, flags: int, folder: int, relative: str) -> int:
    """Open one name in a folder; a link is a :class:`PermissionError` on every platform."""
    try:
        return os.open(name, flags, dir_fd=folder)
    except UnicodeEncodeError:
        raise FileNotFoundError(errno.ENOENT, "no such file", relative) from None
    except OSError as error:
        if error.errno == errno.ELOOP or (error.errno == errno.ENOTDIR and _is_link(name, folder)):
            raise PermissionError(errno.EACCES, "symbolic links are not followed", relative) from None
        if error.errno in (errno.ENOTDIR, errno.ENAMETOOLONG):
            raise FileNotFoundError(errno.ENOENT, "no such file", relative) from None
        if error.errno == errno.ENXIO:
            raise PermissionError(errno.EACCES, "not a regular file", relative) from None
        raise


def _is_link(name: str, folder: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False
