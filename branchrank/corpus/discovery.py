"""Find the documents below a folder, in a fixed order, and note which files were skipped and why.

1. Hidden names, excluded paths and the directories of benchmark runs (whose reports would change the corpus
   that they measure) are skipped without a note. Links, and entries that are neither files nor folders, are
   skipped with a note, so the walk never leaves the root and never loops.
2. A file is a document if a reader exists for its suffix. Binary and very large files are skipped with a
   note.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType

from branchrank.corpus.reading import SUFFIXES, is_document
from branchrank.errors import CorpusError, nearest_path
from branchrank.records import Record
from branchrank.safe_open import open_beneath

MAX_FILE_BYTES = 64 * 2**20
_PROBE_BYTES = 8192
_NOTHING: Mapping[str, tuple[int, int]] = MappingProxyType({})
_RUN_FILES = ({"run.json", "rows.jsonl"}, {"run.json", "rows.jsonl.zst"})


class CorpusFile(Record, frozen=True, kw_only=True):
    """A document's file: ``source`` relative to the corpus with ``/``, ``size`` in bytes."""

    source: str
    path: str
    size: int
    mtime_ns: int


class Discovery(Record, frozen=True, kw_only=True):
    """The files of a corpus, sorted by source, and notes on the files that were skipped."""

    files: tuple[CorpusFile, ...]
    notes: tuple[str, ...]


def discover(
    root: Path, exclude: Collection[str] = (), known: Mapping[str, tuple[int, int]] = _NOTHING
) -> Discovery:
    """Return the documents below ``root``.

    ``exclude`` contains paths relative to ``root`` (``docs/results``) or shell patterns (``*/drafts/*``).
    ``known`` are the sizes and modification times (in ns) of files that were documents before; a file that
    still has them is not opened.

    Raises:
        CorpusError: ``root`` does not exist, is not a folder, or contains no documents.
    """
    if not root.is_dir():
        state = "is not a folder" if root.exists() else "does not exist"
        raise CorpusError(
            f"the corpus {root} {state}{nearest_path(root)}", remedy="give the path of a folder of documents"
        )
    patterns = [pattern.strip("/") for pattern in exclude]
    files: list[CorpusFile] = []
    notes: list[str] = []
    pending = [""]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(root / folder) as scan:
                entries = list(scan)
        except OSError as error:
            notes.append(f"{folder!a}: left out, {error.strerror}")
            continue
        if any({entry.name for entry in entries} >= files for files in _RUN_FILES):
            continue
        for entry in entries:
            source = f"{folder}/{entry.name}" if folder else entry.name
            if entry.name.startswith(".") or _excluded(source, patterns):
                continue
            if entry.is_dir(follow_symlinks=False):
                pending.append(source)
            elif entry.is_symlink():
                notes.append(f"{source!a}: left out, a symbolic link")
            elif is_document(source) and not _is_known(root, source, entry, known, files):
                _examine(root, source, files, notes)
    if not files:
        raise CorpusError(
            f"the corpus {root} holds no document ({', '.join(SUFFIXES)})",
            remedy="give a folder that holds documents, and see what its excludes leave out",
        )
    return Discovery(
        files=tuple(sorted(files, key=lambda file: file.source)),
        notes=tuple(sorted(notes)),
    )


def _is_known(
    root: Path,
    source: str,
    entry: os.DirEntry[str],
    known: Mapping[str, tuple[int, int]],
    files: list[CorpusFile],
) -> bool:
    """Add the file to ``files`` if it is as it was when it was a document."""
    before = known.get(source)
    if before is None:
        return False
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return False
    if (status.st_size, status.st_mtime_ns) != before or not stat.S_ISREG(status.st_mode):
        return False
    size, mtime_ns = before
    files.append(CorpusFile(source=source, path=f"{root}/{source}", size=size, mtime_ns=mtime_ns))
    return True


def _excluded(source: str, patterns: list[str]) -> bool:
    return any(source == pattern or fnmatchcase(source, pattern) for pattern in patterns)


def _examine(root: Path, source: str, files: list[CorpusFile], notes: list[str]) -> None:
    """Add the file to ``files``, or add a note that says why it was skipped."""
    reason = ""
    try:
        source.encode("utf-8")
        with open_beneath(root, source) as stream:
            status = os.fstat(stream.fileno())
            head = stream.read(_PROBE_BYTES)
    except UnicodeEncodeError:
        reason = "its name is not UTF-8"
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
    else:
        if b"\0" in head:
            reason = "a binary file"
        elif status.st_size > MAX_FILE_BYTES:
            reason = f"{status.st_size} bytes are more than {MAX_FILE_BYTES}"
    if reason:
        notes.append(f"{source!a}: left out, {reason}")
        return
    files.append(
        CorpusFile(
            source=source,
            path=str(root / source),
            size=status.st_size,
            mtime_ns=status.st_mtime_ns,
        )
    )
