"""The manifest of an index, its files and its documents, which show that the index is stale or damaged.

1. ``manifest.json`` depends only on the corpus and the settings, so two builds from the same input write the
   same manifest. Data that differ between two builds from the same input, such as times and the digests of
   Chroma's files, are stored in ``build.json``.
2. The manifest contains the digest of every file. To avoid reading the whole index for every query, a stamp
   is stored in ``stamps.json`` for each file whose digest is correct: the file's inode, its size, and the
   times at which its content and metadata last changed. The digest of a file is checked again only if the
   file differs from its stamp, such as after a write or after being restored from a backup.
3. Files that are derived from an index after its build, such as the FTS5 file, have their digests in
   ``derived.json``. A derived file that has changed is built again.
4. An incomplete ``stamps.json`` or ``derived.json`` is treated as missing.
5. ``documents.json`` lists the documents and depends only on the corpus. ``modified.json`` contains their
   modification times, which can differ between two copies of a corpus. Checking an unchanged corpus takes one
   ``stat`` call per document: a document is read only if its modification time has changed since the build.

Damage below the file system, such as a bad sector, does not change a file's size or timestamps, so the file
still matches its stamp. To find such damage, ``branchrank check`` reads all files.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from stat import S_ISREG
from typing import TypeVar

import msgspec

from branchrank.core.errors import ArtifactError
from branchrank.core.io.files import (
    NOT_JSON,
    digest_file,
    digest_of,
    digest_stream,
    open_file,
    read_beneath,
    read_file,
    reading_errors,
    write_bytes,
)
from branchrank.core.records import Record
from branchrank.core.settings import DISTANCE_THRESHOLD, Bm25Settings, IndexSettings
from branchrank.documents.loading import CorpusFile, examine, walk, without_documents
from branchrank.documents.navigation import navigation_digest
from branchrank.documents.reading import document_digest, reader_of, suffix_of, why_unread
from branchrank.index.embedders.protocol import EmbedderIdentity
from branchrank.index.stores.arrays import REBUILD

SCHEMA_VERSION = 6
T = TypeVar("T")
DOCUMENTS = "documents.json"
MODIFIED = "modified.json"
#: Contains the digest of the navigation files that are not documents. Missing if there are none.
NAVIGATION = "navigation.json"
#: Maps suffixes to the versions of their readers. Missing if no reader of a document has a version.
READERS = "readers.json"
STAMPS = "stamps.json"
DERIVED = "derived.json"

#: A file's inode, its size in bytes, and the times in ns at which its content and its metadata last changed.
Stamp = tuple[int, int, int, int]


class Spread(Record, frozen=True, kw_only=True):
    """The mean and the standard deviation of a model's similarities, measured on pairs of texts."""

    mean: float
    deviation: float

    def convert(self, similarity: float, to: Spread) -> float:
        """Return the similarity that is as many standard deviations from the mean of the spread ``to``.

        >>> Spread(mean=0.75, deviation=0.125).convert(1.0, to=Spread(mean=0.0, deviation=0.5))
        1.0
        """
        return to.mean + (similarity - self.mean) * to.deviation / self.deviation


#: The scales of cosines and of MaxSim, to which weights and thresholds refer. The values were measured for
#: all-MiniLM-L6-v2 on the bundled corpus, where a similarity is its own value on the scale.
COSINE_SCALE = Spread(mean=0.130598973, deviation=0.129906284)
MAXSIM_SCALE = Spread(mean=0.29066472, deviation=0.165762999)


class DistanceCalibration(Record, frozen=True, kw_only=True):
    """The distance threshold that was determined for the embedding model when the index was built.

    ``probes`` is the number of probe queries, and ``losing`` is the number of probe queries that return no
    chunks at the default threshold, which is a distance on the scale of cosines. ``threshold`` is used by
    systems whose distance threshold is set to ``calibrated``. It is a distance in the index: that of the
    default threshold, or a larger one with which at least 95% of the probe queries keep their nearest chunk.
    """

    probes: int = 0
    losing: int = 0
    threshold: float = DISTANCE_THRESHOLD

    @property
    def words(self) -> str:
        """A description of the calibrated threshold, or an empty string for the default threshold."""
        if self.threshold == DISTANCE_THRESHOLD:
            return ""
        return (
            f"distance threshold {self.threshold:g}, calibrated for this index: {DISTANCE_THRESHOLD:g} on "
            f"its scale finds no chunk for {self.losing} of {self.probes} probe queries"
        )


class MeasuredCosines(Record, frozen=True, kw_only=True):
    """What a build measures with probe queries and chunks.

    ``cosines`` and ``maxsims`` are the spreads of their similarities, by vectors and by token vectors.
    """

    distance: DistanceCalibration = DistanceCalibration()
    cosines: Spread = COSINE_SCALE
    maxsims: Spread = MAXSIM_SCALE


class Manifest(MeasuredCosines, frozen=True, kw_only=True):
    """The manifest of an index, which records its corpus, its settings and the digests of its files.

    ``settings`` are the settings with which the index was built. ``given`` contains the SHA-256 digests of
    the user's chunks file, the user's nodes file and the adoption record, and an empty string for a file that
    was not used. ``chroma`` is ``embedded`` for
    a Chroma collection in the index, the server's URL for a collection on a Chroma server, and empty if there
    is no collection. ``digests`` maps the index's files to their SHA-256 digests. ``chunker`` identifies the
    code of a chunker of another package or of the user
    (:func:`~branchrank.documents.chunkers.chunker_version`). ``scripts`` is the share of each script in the
    letters of the chunks, and ``languages`` are those of the model's card.
    """

    schema_version: int
    package_version: str
    corpus: str
    corpus_digest: str
    exclude: tuple[str, ...]
    settings: IndexSettings
    embedder: EmbedderIdentity
    bm25: Bm25Settings
    chroma: str
    given: dict[str, str]
    documents: int
    nodes: int
    chunks: int
    digests: dict[str, str]
    chunker: str = ""
    scripts: dict[str, float] = msgspec.field(default_factory=dict)
    languages: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """The digest of the manifest, which is the same as in versions that had only the default chunker."""
        fields = msgspec.to_builtins(self) | {"settings": self.settings.table}
        if not self.chunker:
            del fields["chunker"]
        return digest_of(fields)


class BuildReport(Record, frozen=True, kw_only=True):
    """What one build did, and how long it took.

    ``seconds`` maps each stage to its wall time in seconds, and ``bytes`` is the total size of the
    generation's files in bytes. ``embedded`` is the number of texts whose vectors were computed, and
    ``reused`` is the number of texts whose vectors came from the cache or an adoption. ``token_texts`` is the
    number of texts whose token vectors were computed. ``collection`` is the name of the Chroma collection.
    ``chroma_digests`` maps Chroma's files, except the database file, to their digests. ``manifest_digest``
    is the SHA-256 digest of the manifest.
    """

    created_at: str
    seconds: dict[str, float]
    bytes: int
    embedded: int
    reused: int
    collection: str
    chroma_digests: dict[str, str]
    notes: tuple[str, ...]
    token_texts: int
    manifest_digest: str


def write_record(path: Path, record: Record) -> None:
    """Write a record as indented JSON, atomically."""
    write_bytes(path, msgspec.json.format(msgspec.json.encode(record, order="sorted"), indent=2) + b"\n")


def read_record(path: Path, record_type: type[T]) -> T:
    """Read a record. Raises :class:`ArtifactError` for a missing, damaged or incompatible file."""
    try:
        return msgspec.json.decode(read_file(path), type=record_type)
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror}", remedy=REBUILD) from error
    except NOT_JSON as error:
        raise ArtifactError(
            f"{path} is damaged or was written by another version: {error}", remedy=REBUILD
        ) from None


def file_digests(directory: Path) -> dict[str, str]:
    """Return the SHA-256 digest of every file below ``directory``, keyed by the file's relative path."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): digest_file(path) for path in sorted(files)}


def write_stamps(generation: Path, names: Iterable[str]) -> None:
    """Write the stamps of newly written files.

    Raises ``OSError`` if a file is missing or the stamps can't be written.
    """
    _write(generation, STAMPS, {name: _stamp((generation / name).stat()) for name in names})


def check_digests(generation: Path, digests: Mapping[str, str], *, all_files: bool = False) -> None:
    """Raise :class:`ArtifactError` if a file is missing or has changed since the build.

    ``digests`` maps the path of each file, relative to the generation's folder, to its SHA-256 digest. A file
    that matches its stamp is not read, unless ``all_files`` is true.
    """
    known = _read(generation, STAMPS, dict[str, Stamp])
    fresh: dict[str, Stamp] = {}
    for name, digest in digests.items():
        path = generation / name
        with reading_errors(path, ArtifactError, REBUILD), open_file(path) as stream:
            stamp = _stamp(os.fstat(stream.fileno()))
            if known.get(name) == stamp and not all_files:
                continue
            found = digest_stream(stream)
            changed = _stamp(os.fstat(stream.fileno())) != stamp
        if found != digest:
            raise ArtifactError(f"{path} is damaged: its content has changed since the build", remedy=REBUILD)
        if not changed:
            fresh[name] = stamp
    if fresh:
        with contextlib.suppress(OSError):
            _write(generation, STAMPS, known | fresh)


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def is_derived(generation: Path, name: str) -> bool:
    """Return whether a generation has the derived file ``name``, unchanged since :func:`note_derived`."""
    digest = _read(generation, DERIVED, dict[str, str]).get(name)
    if digest is None:
        return False
    try:
        check_digests(generation, {name: digest})
    except ArtifactError:
        return False
    return True


def note_derived(generation: Path, name: str) -> None:
    """Store the digest of a newly written derived file. Raises ``OSError`` if it can't be written."""
    digests = _read(generation, DERIVED, dict[str, str])
    _write(generation, DERIVED, digests | {name: digest_file(generation / name)})


def _read(generation: Path, name: str, values_type: type[dict[str, T]]) -> dict[str, T]:
    try:
        return msgspec.json.decode(read_file(generation / name), type=values_type)
    except (OSError, *NOT_JSON):
        return {}


def _write(generation: Path, name: str, values: Mapping[str, object]) -> None:
    path = generation / name
    path.unlink(missing_ok=True)  # what is not a regular file, such as a pipe, is not written to
    path.write_bytes(msgspec.json.encode(values, order="sorted"))


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
    for source in sorted(gone):
        why = why_unread(source) if (root / source).exists() else ""
        changes.append(f"{source} can't be read ({why})" if why else f"{source} is gone")
    changes += [f"{source} has changed" for source in sorted(changed)]
    place = generation / NAVIGATION
    if navigation_digest(root) != (read_record(place, str) if place.exists() else ""):
        changes.append("its navigation file (mkdocs.yml or sidebars) has changed")
    changes += [
        f"{suffix} files are read with {reader_of(suffix).version}, not {version}"
        for suffix, version in _read(generation, READERS, dict[str, str]).items()
        if not why_unread(suffix) and reader_of(suffix).version != version
    ]
    if not changes:
        return ""
    more = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
    return f"is older than the corpus {root}: {changes[0]}{more}"


def _digest(root: Path, source: str) -> str:
    return document_digest(source, read_beneath(root, source))


def _has_state(found: os.DirEntry[str], size: int, mtime_ns: int | None) -> bool:
    """Return whether the entry is a regular file with the given size and modification time."""
    try:
        status = found.stat(follow_symlinks=False)
    except OSError:
        return False
    return status.st_size == size and status.st_mtime_ns == mtime_ns and S_ISREG(status.st_mode)
