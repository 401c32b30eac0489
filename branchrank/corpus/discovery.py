"""Find the documents below a folder, in a fixed order, and note which files were skipped and why.

1. Files and folders with hidden names, excluded paths and folders of benchmark runs are skipped without a
   note. (The reports of a run would change the corpus that the run measures.) Symbolic links and special
   files, such as pipes, are skipped with a note. The search therefore never leaves the root folder or loops.
2. A file is a document if BranchRank has a reader for its suffix. Binary files and files larger than 64 MiB
   are skipped with a note.
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
    """The file of a document.

    ``source`` is the file's path relative to the corpus, with ``/``. ``size`` is in bytes, and ``mtime_ns``
    is the modification time in nanoseconds.
    """

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
    """Return the documents below the folder ``root``.

    ``exclude`` contains paths relative to ``root`` (``docs/results``) or shell patterns (``*/drafts/*``).
    ``known`` maps the documents of an earlier build to their size (bytes) and modification time (ns). A file
    with the same size and modification time is not opened.

    Raises :class:`CorpusError` if ``root`` does not exist, is not a folder, or contains no documents.
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
            notes.append(f"{folder!a}: skipped because it can't be read ({error.strerror})")
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
                notes.append(f"{source!a}: skipped because it is a symbolic link")
            elif is_document(source) and not _is_known(root, source, entry, known, files):
                _examine(root, source, files, notes)
    if not files:
        raise CorpusError(
            f"the corpus {root} contains no documents ({', '.join(SUFFIXES)})",
            remedy="give a folder that contains documents, and check `exclude` in branchrank.toml",
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
    """Add a known document to ``files`` if its size and modification time have not changed.

    Return whether the file was added.
    """
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
    """Add the file to ``files``, or a note with the reason for skipping the file."""
    reason = ""
    try:
        source.encode("utf-8")
        with open_beneath(root, source) as stream:
            status = os.fstat(stream.fileno())
            head = stream.read(_PROBE_BYTES)
    except UnicodeEncodeError:
        reason = "its name is not UTF-8"
    except OSError as error:
        reason = f"it can't be read ({(error.strerror or str(error)).lower()})"
    else:
        if b"\0" in head:
            reason = "it is a binary file"
        elif status.st_size > MAX_FILE_BYTES:
            reason = f"it has {status.st_size} bytes, more than the limit of {MAX_FILE_BYTES}"
    if reason:
        notes.append(f"{source!a}: skipped because {reason}")
        return
    files.append(
        CorpusFile(
            source=source,
            path=str(root / source),
            size=status.st_size,
            mtime_ns=status.st_mtime_ns,
        )
    )
