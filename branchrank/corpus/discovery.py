"""The documents below a folder, in one fixed order, and what was left out with the reason.

1. The folder is walked in sorted order. Hidden names, excluded paths and the directories of benchmark runs,
   whose reports would change what they measure, are left out silently, links and what is neither file nor
   folder with a note; so the walk never leaves the root and never loops.
2. A file counts when a reader knows its suffix. Binary and huge files are left out with a note.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from fnmatch import fnmatchcase
from pathlib import Path

from branchrank.corpus.reading import SUFFIXES, is_document
from branchrank.errors import CorpusError, nearest_path
from branchrank.records import Record
from branchrank.safe_open import open_beneath

MAX_FILE_BYTES = 64 * 2**20
_PROBE_BYTES = 8192
_RUN_FILES = {"run.json", "rows.jsonl"}


class CorpusFile(Record, frozen=True, kw_only=True):
    """A document's file: ``source`` relative to the corpus with ``/``, ``size`` in bytes."""

    source: str
    path: str
    size: int
    mtime_ns: int


class Discovery(Record, frozen=True, kw_only=True):
    """The files of a corpus in order of their source, and notes on what was left out."""

    files: tuple[CorpusFile, ...]
    notes: tuple[str, ...]


def discover(root: Path, exclude: Collection[str] = ()) -> Discovery:
    """The documents below ``root``.

    ``exclude`` holds paths relative to it (``docs/results``) or shell patterns (``*/drafts/*``).

    Raises:
        CorpusError: the folder is missing, is no folder, or holds no document.
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
        if {entry.name for entry in entries} >= _RUN_FILES:
            continue
        for entry in entries:
            source = f"{folder}/{entry.name}" if folder else entry.name
            if entry.name.startswith(".") or _excluded(source, patterns):
                continue
            if entry.is_dir(follow_symlinks=False):
                pending.append(source)
            elif entry.is_symlink():
                notes.append(f"{source!a}: left out, a symbolic link")
            elif is_document(source):
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


def _excluded(source: str, patterns: list[str]) -> bool:
    return any(source == pattern or fnmatchcase(source, pattern) for pattern in patterns)


def _examine(root: Path, source: str, files: list[CorpusFile], notes: list[str]) -> None:
    """Add the file to the corpus, or a note that says why not."""
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
