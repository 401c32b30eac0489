"""Stamps record the state of an index's files, so that the digests of unchanged files are not checked again.

1. Checking the digests of all files reads the whole index. To avoid repeating this check, a stamp is stored
   for each file whose digest is correct. A stamp contains the file's inode, the file's size, and the times at
   which the file's content and metadata last changed.
2. A reader compares each file with its stamp. The digest of a file is checked again only if the file has no
   stamp or differs from its stamp. A file differs from its stamp after a write, after being replaced by a
   copy and after being restored from a backup.
3. Stamps are stored in the generation's file ``stamps.json``, if the file can be written. An incomplete
   ``stamps.json`` is treated as missing.

Damage below the file system, such as a bad sector, does not change a file's size or timestamps, so the file
still matches its stamp. To find such damage, ``branchrank check`` reads all files.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from branchrank.errors import ArtifactError
from branchrank.io.files import NOT_JSON, digest_stream, open_beneath, overwrite_beneath, read_beneath

STAMPS = "stamps.json"
_REMEDY = "rebuild the index: branchrank index"

#: A file's inode, its size in bytes, and the times in ns at which its content and its metadata last changed.
Stamp = tuple[int, int, int, int]


def write_stamps(generation: Path, names: Iterable[str]) -> None:
    """Write the stamps of newly written files.

    Raises ``OSError`` or :class:`~branchrank.errors.StorageError` if a file is missing or the stamps can't be
    written.
    """
    _write(generation, {name: _stamp((generation / name).stat()) for name in names})


def check_digests(generation: Path, digests: Mapping[str, str], *, all_files: bool = False) -> None:
    """Raise :class:`ArtifactError` if a file is missing or has changed since the build.

    ``digests`` maps the path of each file, relative to the generation's folder, to its SHA-256 digest. A file
    that matches its stamp is not read, unless ``all_files`` is true.
    """
    known = {} if all_files else _read(generation)
    fresh: dict[str, Stamp] = {}
    for name, digest in digests.items():
        path = generation / name
        try:
            with open_beneath(generation, name) as stream:
                stamp = _stamp(os.fstat(stream.fileno()))
                if known.get(name) == stamp:
                    continue
                found = digest_stream(stream)
                changed = _stamp(os.fstat(stream.fileno())) != stamp
        except OSError as error:
            raise ArtifactError(f"cannot read {path}: {error.strerror}", remedy=_REMEDY) from error
        if found != digest:
            raise ArtifactError(f"{path} is damaged: its content has changed since the build", remedy=_REMEDY)
        if not changed:
            fresh[name] = stamp
    if fresh:
        with contextlib.suppress(OSError):
            _write(generation, _read(generation) | fresh)


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _read(generation: Path) -> dict[str, Stamp]:
    try:
        return msgspec.json.decode(read_beneath(generation, STAMPS), type=dict[str, Stamp])
    except (OSError, *NOT_JSON):
        return {}


def _write(generation: Path, stamps: Mapping[str, Stamp]) -> None:
    overwrite_beneath(generation, STAMPS, msgspec.json.encode(stamps, order="sorted"))
