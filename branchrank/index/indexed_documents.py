"""The documents that an index was built from, and the changes of the corpus since then.

1. ``documents.json`` lists the documents and depends only on the corpus. ``modified.json`` contains the
   documents' modification times, which can differ between two copies of a corpus. To keep the manifest small,
   ``documents.json`` and ``modified.json`` are separate files.
2. Checking an unchanged corpus takes one ``stat`` call per document. A document is read only if its
   modification time has changed since the build.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from stat import S_ISREG

import msgspec

from branchrank.core.io.files import read_beneath, write_bytes
from branchrank.core.records import Record
from branchrank.documents.loading import CorpusFile, examine, walk, without_documents
from branchrank.documents.navigation import navigation_digest
from branchrank.documents.reading import document_digest, reader_of, suffix_of, why_unread
from branchrank.index.manifest import read_record

DOCUMENTS = "documents.json"
MODIFIED = "modified.json"
#: Contains the digest of the navigation files that are not documents. Missing if there are none.
NAVIGATION = "navigation.json"


#: Maps suffixes to the versions of their readers. Missing if no reader of a document has a version.
READERS = "readers.json"


class CorpusEntry(Record, frozen=True, kw_only=True):
    """One file in the corpus, with its size in bytes and its SHA-256 digest."""

    source: str
    size: int
    digest: str


def write_documents(
    generation: Path, files: Sequence[CorpusFile], digests: Mapping[str, str], navigation: str
) -> None:
    """Write the lists of documents and modification times, and the versions of readers and navigation files.

    ``digests`` maps each document that could be read to its digest.
    """
    entries = [
        CorpusEntry(source=file.source, size=file.size, digest=digests.get(file.source, "")) for file in files
    ]
    write_bytes(generation / DOCUMENTS, msgspec.json.encode(entries))
    if navigation:
        write_bytes(generation / NAVIGATION, msgspec.json.encode(navigation))
    suffixes = sorted({suffix_of(source) for source in digests})
    if versions := {suffix: version for suffix in suffixes if (version := reader_of(suffix).version)}:
        write_bytes(generation / READERS, msgspec.json.encode(versions))
    write_bytes(generation / MODIFIED, msgspec.json.encode({file.source: file.mtime_ns for file in files}))


def read_documents(generation: Path) -> tuple[CorpusEntry, ...]:
    """Return the documents of an index generation. Raises :class:`ArtifactError` if the file is damaged."""
    return read_record(generation / DOCUMENTS, tuple[CorpusEntry, ...])


def corpus_change(root: Path, exclude: Sequence[str], generation: Path) -> str:
    """Describe how the corpus has changed since it was indexed, or return an empty string if it has not.

    Raises :class:`CorpusError` if the corpus is missing or contains no documents.
    """
    gone = {entry.source: entry for entry in read_documents(generation)}
    modified_ns = read_record(generation / MODIFIED, dict[str, int])
    documents = 0
    new: list[str] = []
    changed: list[str] = []
    for source, found in walk(root, exclude, skipped=[]):
        entry = gone.get(source)
        if entry is None:
            if isinstance(examine(root, source), CorpusFile):
                new.append(source)
        elif _has_state(found, entry.size, modified_ns.get(source)):
            documents += 1
            del gone[source]
        elif isinstance(file := examine(root, source), CorpusFile):
            documents += 1
            del gone[source]
            moved = file.mtime_ns != modified_ns.get(source)
            if file.size != entry.size or (moved and _digest(root, source) != entry.digest):
                changed.append(source)
    if not documents and not new:
        raise without_documents(root)
    changes = [f"{source} is new" for source in sorted(new)]
    changes += [f"{source} {_why_gone(root, source)}" for source in sorted(gone)]
    changes += [f"{source} has changed" for source in sorted(changed)]
    place = generation / NAVIGATION
    if navigation_digest(root) != (read_record(place, str) if place.exists() else ""):
        changes.append("its navigation file (mkdocs.yml or sidebars) has changed")
    changes += _reader_changes(generation)
    if not changes:
        return ""
    more = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
    return f"is older than the corpus {root}: {changes[0]}{more}"


def _reader_changes(generation: Path) -> list[str]:
    place = generation / READERS
    built = read_record(place, dict[str, str]) if place.exists() else {}
    return [
        f"{suffix} files are read with {reader_of(suffix).version}, not {version}"
        for suffix, version in built.items()
        if not why_unread(suffix) and reader_of(suffix).version != version
    ]


def _why_gone(root: Path, source: str) -> str:
    why = why_unread(source)
    return f"can't be read ({why})" if why and (root / source).exists() else "is gone"


def _digest(root: Path, source: str) -> str:
    return document_digest(source, read_beneath(root, source))


def _has_state(found: os.DirEntry[str], size: int, mtime_ns: int | None) -> bool:
    """Return whether the entry is a regular file with the given size and modification time."""
    try:
        status = found.stat(follow_symlinks=False)
    except OSError:
        return False
    return status.st_size == size and status.st_mtime_ns == mtime_ns and S_ISREG(status.st_mode)
