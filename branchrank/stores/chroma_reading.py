"""Read the records of a Chroma database that another program created.

1. Chroma changes a database's files when it opens the database. The folder of the database is therefore
   copied to a temporary folder that only the current user can read. Folders that contain symbolic links, more
   than ``MOST_BYTES`` bytes or more than ``MOST_FILES`` files are rejected.
2. Records are read in batches. Embedding functions are never loaded.
3. Vectors are returned as they are stored, regardless of the collection's metric. The temporary copy is
   deleted after the records are read.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from branchrank.embedders.protocol import Vectors
from branchrank.errors import ArtifactError, UsageError, or_else
from branchrank.io.files import copy_folder
from branchrank.stores.chroma import connected

MOST_BYTES = 32 << 30
MOST_FILES = 10_000
_BATCH = 2000


class ChromaRecords(NamedTuple):
    """All records of one collection. ``vectors`` has the shape ``(number of records, dimension)``."""

    collection: str
    ids: list[str]
    vectors: Vectors
    documents: list[str]
    metadatas: list[dict[str, Any]]


def read_chroma(folder: Path, collection: str = "", *, remedy: str) -> ChromaRecords:
    """Return all records from one collection in the Chroma database in ``folder``.

    If ``collection`` is an empty string, the records of the database's only collection are returned. Raises
    :class:`UsageError` if the collection does not exist. Raises :class:`UsageError` if ``collection`` is
    empty and the database does not have exactly one collection. Raises :class:`ArtifactError` with ``remedy``
    if the database can't be read.
    """
    with tempfile.TemporaryDirectory(prefix="branchrank-") as temporary:
        copy = Path(temporary) / "chroma"
        try:
            copy_folder(folder, copy, most_bytes=MOST_BYTES, most_files=MOST_FILES)
        except OSError as error:
            where = f": {error.filename}" if error.filename else ""
            raise ArtifactError(f"cannot copy {folder}{where}: {error.strerror}", remedy=remedy) from error
        if not (copy / "chroma.sqlite3").is_file():
            raise ArtifactError(f"{folder} is not a Chroma database: it has no chroma.sqlite3", remedy=remedy)
        try:
            with connected(copy) as client:
                name = _named(client, collection, folder)
                return _records(client.get_collection(name, embedding_function=None), folder, remedy)
        except ArtifactError as error:
            message = error.message.replace(str(copy), str(folder))
            raise ArtifactError(message, remedy=remedy) from error


def _named(client: Any, collection: str, folder: Path) -> str:
    names = sorted(each.name for each in client.list_collections())
    if collection in names:
        return collection
    if collection:
        raise UsageError(
            f"{folder} has no collection {collection!r}{or_else(collection, names)}",
            remedy="correct --collection",
        )
    if len(names) != 1:
        raise UsageError(
            f"{folder} has {len(names)} collections: {', '.join(names) or 'none'}",
            remedy="choose one with --collection" if names else f"move the folder {folder} away",
        )
    return str(names[0])


def _records(collection: Any, folder: Path, remedy: str) -> ChromaRecords:
    ids: list[str] = []
    documents: list[str] = []
    metadatas: list[dict[str, Any]] = []
    blocks: list[Vectors] = []
    include = ["embeddings", "documents", "metadatas"]
    for start in range(0, collection.count(), _BATCH):
        batch = collection.get(limit=_BATCH, offset=start, include=include)
        ids += batch["ids"]
        documents += [text or "" for text in batch["documents"]]
        metadatas += [dict(each or {}) for each in batch["metadatas"]]
        blocks.append(np.asarray(batch["embeddings"], dtype=np.float32))
    if not ids or len(set(ids)) != collection.count():
        raise ArtifactError(
            f"the collection {collection.name!r} in {folder} should contain {collection.count()} records, "
            f"but {len(set(ids))} records can be read",
            remedy=remedy,
        )
    return ChromaRecords(collection.name, ids, np.concatenate(blocks), documents, metadatas)
