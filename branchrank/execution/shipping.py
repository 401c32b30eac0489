"""Copies of files and folders for workers that don't share a disk with the command.

1. Each file is stored under its absolute path below the root of the copy, so that relative paths from one
   file to another still work.
2. Workspace caches and symbolic links with absolute targets are left out. Symbolic links with relative
   targets are copied as links.
3. Each worker unpacks the copy into its own temporary folder, and runs the task there.
"""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterable
from pathlib import Path

#: Workspace folders that are not shipped, so each worker starts with empty caches.
_LEFT_OUT = ("hybrid/cache",)


def pack(paths: Iterable[Path]) -> bytes:
    """Return an uncompressed tar archive of files and folders, stored under their absolute paths."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for path in dict.fromkeys(Path(os.path.abspath(path)) for path in paths):
            archive.add(path, arcname=str(path).lstrip("/"), filter=_kept)
    return stream.getvalue()


def _kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Return ``None`` for caches, special files and links with absolute targets, which are left out."""
    if member.name.endswith(_LEFT_OUT) or member.linkname.startswith("/"):
        return None
    return member if member.isfile() or member.isdir() or member.issym() or member.islnk() else None


def unpack(content: bytes, root: Path) -> None:
    """Unpack an archive into ``root``. Raises ``tarfile.FilterError`` for a path outside ``root``."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(root, filter="data")
