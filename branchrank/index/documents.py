"""The documents that an index was built from.

``documents.jsonl`` lists the documents and depends only on the corpus. ``modified.json`` contains the
documents' modification times, which can differ between two copies of a corpus. To keep the manifest small,
``documents.jsonl`` and ``modified.json`` are separate files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from branchrank.errors import ArtifactError
from branchrank.io.files import NOT_JSON, read_beneath, write_bytes
from branchrank.records import Record

DOCUMENTS = "documents.jsonl"
MODIFIED = "modified.json"


class CorpusEntry(Record, frozen=True, kw_only=True):
    """One file in the corpus, with its size in bytes and its SHA-256 digest."""

    source: str
    size: int
    digest: str


def write_documents(generation: Path, entries: Iterable[CorpusEntry]) -> None:
    """Write the list of documents, sorted by source."""
    encode = msgspec.json.encode
    write_bytes(generation / DOCUMENTS, b"".join(encode(entry) + b"\n" for entry in entries))


def read_documents(generation: Path) -> tuple[CorpusEntry, ...]:
    """Return the documents of an index generation. Raises :class:`ArtifactError` if the file is damaged."""
    content = _read(generation, DOCUMENTS)
    decode = msgspec.json.Decoder(CorpusEntry).decode
    try:
        return tuple(map(decode, content.splitlines()))
    except NOT_JSON as error:
        raise _damaged(generation / DOCUMENTS, error) from None


def write_modified(generation: Path, times: Mapping[str, int]) -> None:
    """Write each document's modification time in nanoseconds."""
    write_bytes(generation / MODIFIED, msgspec.json.encode(times) + b"\n")


def read_modified(generation: Path) -> dict[str, int]:
    """Return each document's modification time in nanoseconds.

    Raises :class:`ArtifactError` if the file is damaged.
    """
    try:
        return msgspec.json.decode(_read(generation, MODIFIED), type=dict[str, int])
    except NOT_JSON as error:
        raise _damaged(generation / MODIFIED, error) from None


def _read(generation: Path, name: str) -> bytes:
    try:
        return read_beneath(generation, name)
    except OSError as error:
        raise ArtifactError(
            f"cannot read {generation / name}: {error.strerror}", remedy="rebuild the index: branchrank index"
        ) from error


def _damaged(path: Path, error: BaseException) -> ArtifactError:
    return ArtifactError(f"{path} is damaged: {error}", remedy="rebuild the index: branchrank index")
