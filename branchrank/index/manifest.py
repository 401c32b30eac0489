"""The manifest of an index, which is used to detect that the index is stale or damaged.

``manifest.json`` depends only on the corpus and the settings, so two builds from the same input write the
same manifest. Data that differ between two builds from the same input, such as times and the digests of
Chroma's files, are stored in ``build.json``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from branchrank.embedders.protocol import EmbedderIdentity
from branchrank.errors import ArtifactError
from branchrank.io.files import NOT_JSON, digest_file, read_file, write_bytes
from branchrank.records import Record
from branchrank.settings import DISTANCE_THRESHOLD, Bm25Settings, IndexSettings

SCHEMA_VERSION = 3
R = TypeVar("R", bound=Record)


class DistanceCalibration(Record, frozen=True, kw_only=True):
    """The distance threshold that was determined for the embedding model when the index was built.

    ``probes`` is the number of probe queries, and ``losing`` is the number of probe queries that return no
    chunks at the default threshold. ``threshold`` is used by systems whose distance threshold is set to
    ``calibrated``. ``threshold`` differs from the default threshold only if ``losing`` is more than half of
    ``probes``.
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
            f"distance threshold {self.threshold:g}, calibrated for this index: the default "
            f"{DISTANCE_THRESHOLD:g} finds no chunk for {self.losing} of {self.probes} probe queries"
        )


class Manifest(Record, frozen=True, kw_only=True):
    """The manifest of an index, which records its corpus, its settings and the digests of its files.

    ``settings`` are the settings with which the index was built. ``chunks_digest``, ``nodes_digest`` and
    ``adoption_digest`` are the SHA-256 digests of the user's chunks file, the user's nodes file and the
    adoption record. The digest of a file that was not used is an empty string. ``chroma`` is ``embedded`` for
    a Chroma collection in the index, the server's URL for a collection on a Chroma server, and empty if there
    is no collection. ``digests`` maps the index's files to their SHA-256 digests.
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
    chunks_digest: str
    nodes_digest: str
    adoption_digest: str
    documents: int
    nodes: int
    chunks: int
    digests: dict[str, str]
    distance: DistanceCalibration


class BuildReport(Record, frozen=True, kw_only=True):
    """What one build did, and how long it took.

    ``seconds`` maps each stage to its wall time in seconds, and ``bytes`` is the total size of the
    generation's files in bytes. ``embedded`` is the number of texts whose vectors were computed, and
    ``reused`` is the number of texts whose vectors came from the cache or an adoption. ``token_texts`` is the
    number of texts whose token vectors were computed. ``collection`` is the name of the Chroma collection.
    ``chroma_digests`` contains the digests of Chroma's files, except the database file. ``manifest_digest``
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


def read_record(path: Path, record_type: type[R]) -> R:
    """Read a record. Raises :class:`ArtifactError` for a missing, damaged or incompatible file."""
    remedy = "rebuild the index: branchrank index"
    try:
        content = read_file(path)
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror}", remedy=remedy) from error
    try:
        return msgspec.json.decode(content, type=record_type)
    except NOT_JSON as error:
        raise ArtifactError(
            f"{path} is damaged or was written by another version: {error}", remedy=remedy
        ) from None


def file_digests(directory: Path) -> dict[str, str]:
    """Return the SHA-256 digest of every file below ``directory``, keyed by the file's relative path."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): digest_file(path) for path in sorted(files)}
