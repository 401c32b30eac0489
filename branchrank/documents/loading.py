"""Find the documents below a folder, and load them into a :class:`Corpus`.

The result depends only on the files' paths and bytes.

1. Hidden files, hidden folders and excluded paths are skipped without a note. Folders that contain a
   benchmark run are also skipped without a note, so that a run does not change the corpus that it measures.
   Symbolic links and special files, such as pipes, are skipped with a note. Because symbolic links are
   skipped, the search can't leave the root folder or visit a folder twice.
2. A file is a document if BranchRank has a reader for its suffix. Binary files and files larger than 64 MiB
   are skipped with a note. Source code is a document only if a pattern in ``exclude`` that starts with ``!``
   matches its path, because folders of documents often contain scripts.
3. One more note counts all skipped files by suffix, with the command that installs a missing reader.

All files are read in one process, because reading 5 MB takes about a second, and starting more processes
would take longer.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from branchrank.core.errors import BranchRankError, CorpusError
from branchrank.core.io.files import digest_of, open_beneath, read_beneath
from branchrank.core.io.printable import safe
from branchrank.core.io.progress import Progress, no_progress
from branchrank.core.io.text_files import UTF_16_MARKS
from branchrank.core.records import Record
from branchrank.documents.code_outline import GRAMMARS
from branchrank.documents.document import LEAVES_OUT_FILES, READ_AS_MDX, Document
from branchrank.documents.navigation import with_navigation
from branchrank.documents.reading import (
    READERS,
    document_digest,
    document_lines,
    read_document,
    reader_of,
    suffix_of,
    why_unread,
)

MAX_FILE_BYTES = 64 * 2**20
_PROBE_BYTES = 8192
#: The number of suffixes that the note about skipped files lists.
_SHOWN_KINDS = 25
#: The pattern in ``exclude`` that makes all source code part of a corpus.
ALL_CODE = "!*"
_CODE_LEFT_OUT = "source code; to index it: --code"
_RUN_FILES = ({"run.json", "rows.jsonl"}, {"run.json", "rows.jsonl.zst"})


class CorpusFile(Record, frozen=True, kw_only=True):
    """The path, size and modification time of a document's file.

    ``source`` is the file's path relative to the corpus folder, with ``/`` as the separator. ``size`` is the
    file's size in bytes. ``mtime_ns`` is the time of the last modification in nanoseconds.
    """

    source: str
    size: int
    mtime_ns: int


class Discovery(Record, frozen=True, kw_only=True):
    """The files of a corpus, sorted by relative path, and notes about the files that were skipped."""

    files: tuple[CorpusFile, ...]
    notes: tuple[str, ...]


class Skip(NamedTuple):
    """A skipped file or folder.

    ``reason`` completes the sentence "skipped because" in the note about this file. A file that has no such
    note is only counted, and ``why`` explains the count of such files.
    """

    source: str
    reason: str = ""
    why: str = ""
    is_file: bool = True


def discover(root: Path, exclude: Collection[str] = ()) -> Discovery:
    """Return the files of the documents below the folder ``root``, and notes about skipped files.

    ``exclude`` contains paths to skip, relative to ``root``. A path, such as ``docs/results``, can also be a
    shell pattern, such as ``*/drafts/*``. A pattern that starts with ``!`` adds the source code that matches.

    Raises :class:`CorpusError` if ``root`` does not exist, is not a folder, or contains no documents.
    """
    skipped: list[Skip] = []
    files: list[CorpusFile] = []
    for source, _ in walk(root, exclude, skipped):
        found = examine(root, source)
        if isinstance(found, CorpusFile):
            files.append(found)
        else:
            skipped.append(found)
    if not files:
        raise without_documents(root, skipped)
    notes = sorted(f"{skip.source!a}: skipped because {skip.reason}" for skip in skipped if skip.reason)
    return Discovery(
        files=tuple(sorted(files, key=lambda file: file.source)),
        notes=(*_summary(len(files), skipped), *notes),
    )


def _summary(indexed: int, skipped: Iterable[Skip]) -> list[str]:
    """Return the note that counts the skipped files by suffix and reason, or no note if there are none."""
    counts: Counter[str] = Counter()
    for skip in skipped:
        if skip.is_file:
            kind = os.path.splitext(skip.source)[1].lower() or "without a suffix"
            why = skip.reason or skip.why
            counts[f"{kind} ({why})" if why else kind] += 1
    if not counts:
        return []
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{count} {safe(kind)}" for kind, count in ordered[:_SHOWN_KINDS]]
    if others := ordered[_SHOWN_KINDS:]:
        shown.append(f"{sum(count for _, count in others)} of {len(others)} other kinds")
    return [f"indexed {indexed}; skipped {counts.total()}: {', '.join(shown)}"]


def walk(root: Path, exclude: Collection[str], skipped: list[Skip]) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield the relative path and the directory entry of every file with a suffix that BranchRank can read.

    Files are yielded in no particular order and are not opened. All other files that are neither hidden nor
    excluded, and folders that can't be listed, are added to ``skipped``. Raises :class:`CorpusError` if
    ``root`` does not exist or is not a folder.
    """
    if not root.is_dir():
        state = "is not a folder" if root.exists() else "does not exist"
        raise CorpusError(f"the corpus {root} {state}", remedy="give the path of a folder of documents")
    patterns = [pattern.strip("/") for pattern in exclude if not pattern.startswith("!")]
    code = [pattern[1:].strip("/") for pattern in exclude if pattern.startswith("!")]
    pending = [""]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(root / folder) as scan:
                entries = list(scan)
        except OSError as error:
            skipped.append(Skip(folder, f"it can't be read ({error.strerror})", is_file=False))
            continue
        names = {entry.name for entry in entries}
        if any(names >= files for files in _RUN_FILES):
            continue
        prefix = f"{folder}/" if folder else ""
        for entry in entries:
            if entry.name.startswith("."):
                continue
            source = prefix + entry.name
            if patterns and _matches(source, patterns):
                continue
            if entry.is_dir(follow_symlinks=False):
                pending.append(source)
            elif entry.is_symlink():
                skipped.append(Skip(source, "it is a symbolic link"))
            elif (suffix := suffix_of(source)) in GRAMMARS and not _matches(source, code):
                skipped.append(Skip(source, why=_CODE_LEFT_OUT))
            elif (why := why_unread(source)) or not suffix:
                skipped.append(Skip(source, why=why))
            else:
                yield source, entry


def _matches(source: str, patterns: list[str]) -> bool:
    return any(source == pattern or fnmatchcase(source, pattern) for pattern in patterns)


def examine(root: Path, source: str) -> CorpusFile | Skip:
    """Return the file at the path ``source`` below ``root``, or the reason why the file is skipped."""
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
        is_text = b"\0" not in head or head.startswith(UTF_16_MARKS)
        if not (is_text or reader_of(suffix_of(source)).binary):
            reason = "it is a binary file"
        elif status.st_size > MAX_FILE_BYTES:
            reason = f"it has {status.st_size} bytes, more than the limit of {MAX_FILE_BYTES}"
        else:
            return CorpusFile(source=source, size=status.st_size, mtime_ns=status.st_mtime_ns)
    return Skip(source, reason)


def without_documents(root: Path, skipped: Collection[Skip] = ()) -> CorpusError:
    """Return the error for a corpus that contains no documents, but perhaps other files."""
    known = ", ".join(suffix for suffix in READERS.names if suffix not in GRAMMARS)
    return CorpusError(
        "; ".join((f"the corpus {root} contains no documents ({known})", *_summary(0, skipped))),
        remedy=f"to index its source code: branchrank index {shlex.quote(str(root))} --code"
        if any(skip.why == _CODE_LEFT_OUT for skip in skipped)
        else "give a folder that contains documents, and check `exclude` in branchrank.toml",
    )


class Corpus(Record, frozen=True, kw_only=True):
    """The documents below the folder ``root``, sorted by path.

    ``digest`` is a hash of the paths and the bytes of all documents. ``notes`` describes the skipped files
    and the problems that parsers worked around. A note about one file starts with the file's path.
    """

    root: str
    documents: tuple[Document, ...]
    digest: str
    notes: tuple[str, ...]


def corpus_lines(root: Path, exclude: Collection[str] = ()) -> dict[str, list[str]]:
    """Return the raw lines of every document below ``root``, keyed by source.

    Raises :class:`CorpusError` if the folder is missing, has no documents or can't be read.
    """
    return {file.source: document_lines(root, file.source) for file in discover(root, exclude).files}


def corpus_digest(digests: Iterable[tuple[str, str]]) -> str:
    """Return the digest of a corpus, given the pairs (file path, SHA-256 of the file) in any order."""
    return digest_of(sorted(digests))


def digest_now(root: Path, exclude: Collection[str]) -> str:
    """Return the digest of the current files of a corpus, or an empty string if the corpus can't be read."""
    try:
        files = discover(root, exclude).files
        return corpus_digest(
            (file.source, document_digest(file.source, read_beneath(root, file.source))) for file in files
        )
    except (BranchRankError, OSError):
        return ""


def load_corpus(root: Path, exclude: Collection[str] = (), progress: Progress = no_progress) -> Corpus:
    """Read every document below ``root``, and call ``progress("read", done, total)`` after each file.

    Raises :class:`CorpusError` if the folder ``root`` does not exist, or if no document in the folder can be
    read.
    """
    found = discover(root, exclude)
    documents: list[Document] = []
    notes = list(found.notes)
    for number, file in enumerate(found.files, start=1):
        documents += read_documents(root, [file.source], notes)
        progress("read", number, len(found.files))
    return corpus_of(root, documents, notes)


def read_documents(root: Path, sources: Iterable[str], notes: list[str]) -> Iterator[Document]:
    """Yield the documents at the paths ``sources``. Add notes on unreadable files and parsing problems."""
    for source in sources:
        try:
            document = read_document(source, read_beneath(root, source))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            notes.append(f"{source!a}: skipped because it can't be read ({reason})")
        else:
            notes.extend(f"{source!a}: {note}" for note in document.notes)
            yield document


def corpus_of(root: Path, documents: Sequence[Document], notes: Sequence[str]) -> Corpus:
    """Return the corpus of the documents below ``root``. Raises :class:`CorpusError` without documents."""
    if not documents:
        raise CorpusError(
            f"no document of the corpus {root} can be read", remedy=f"check the permissions: ls -l {root}"
        )
    documents, navigation_notes = with_navigation(root, documents)
    return Corpus(
        root=str(root),
        documents=tuple(documents),
        digest=corpus_digest((document.source, document.digest) for document in documents),
        notes=(*_shared(notes), *navigation_notes),
    )


def _shared(notes: Sequence[str]) -> Sequence[str]:
    """Join equal notes on several Markdown files."""
    for shared in (READ_AS_MDX, LEAVES_OUT_FILES):
        sources = [note.removesuffix(f": {shared}") for note in notes if note.endswith(f": {shared}")]
        if len(sources) > 1:
            notes = [note for note in notes if not note.endswith(f": {shared}")]
            notes += [f"{len(sources)} files, such as {sources[0]}, are {shared}"]
    return notes
