"""Branches beyond vectors and BM25: grep, FTS5 in SQLite, Qdrant.

Each is opened when a system names it, over the same chunks, vectors and query encoder as the others. What
it needs beside the index is derived from the index once, in the generation's folder ``derived/``, written
under a temporary name and renamed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from branchrank.artifacts import storage_errors
from branchrank.errors import ArtifactError
from branchrank.settings import GrepSettings, QdrantSettings, Resolved
from branchrank.stores.index import Index
from branchrank.systems.sources import BranchSearch
from branchrank.systems.spec import System

if TYPE_CHECKING:
    from branchrank.stores.qdrant_points import QdrantCollection

    Fill = Callable[[QdrantCollection], None]

DERIVED = "derived"


def further_branches(
    index: Index, root: Path, systems: Iterable[System], settings: Resolved
) -> dict[str, BranchSearch]:
    """The searches of every further branch kind that the systems name. ``root`` is the corpus's folder.

    Raises :class:`~branchrank.errors.MissingDependencyError` when a package of one is not installed.
    """
    kinds = {branch.kind for system in systems for branch in system.branches}
    searches: dict[str, BranchSearch] = {}
    if "grep" in kinds:
        searches["grep"] = _grep(index, root, settings.part(GrepSettings))
    if "fts5" in kinds:
        searches["fts5"] = _fts5(index)
    if kinds & {"qdrant-dense", "qdrant-sparse"}:
        searches |= _qdrant(index, settings.part(QdrantSettings))
    return searches


def _grep(index: Index, root: Path, settings: GrepSettings) -> BranchSearch:
    from branchrank.systems.tools import SearchTools

    tools = SearchTools(index, root, settings=settings)
    return lambda _sources, query, n: tools.grep_chunks(query, n)


def _fts5(index: Index) -> BranchSearch:
    from branchrank.stores.sqlite_file import build_sqlite
    from branchrank.stores.sqlite_search import SqliteSearch

    path = index.directory / DERIVED / "search.sqlite"
    try:
        search = SqliteSearch(path)
    except ArtifactError:
        build_sqlite(path, list(index.chunks.values()), corpus_digest=index.manifest.corpus_digest)
        search = SqliteSearch(path)
    return lambda _sources, query, n: search.keyword(query, n)


def _qdrant(index: Index, settings: QdrantSettings) -> dict[str, BranchSearch]:
    from branchrank.stores.qdrant_hybrid import chunk_points
    from branchrank.stores.qdrant_points import Bm25Encoder

    chunks = list(index.chunks.values())

    def fill(collection: QdrantCollection) -> None:
        vectors = np.array([index.vectors.vector(chunk.id) for chunk in chunks], dtype=np.float32)
        if chunks:
            collection.upsert(chunk_points(chunks, vectors))

    collection = _server(index, settings, fill) if settings.url else _embedded(index, settings, fill)
    if collection.count() != len(chunks):
        raise ArtifactError(
            f"the Qdrant collection holds {collection.count()} of {len(chunks)} chunks",
            remedy="delete it and run the command again",
        )
    encoder = Bm25Encoder()
    return {
        "qdrant-dense": lambda sources, query, n: collection.dense(sources.embedding(query), n),
        "qdrant-sparse": lambda _sources, query, n: (
            collection.sparse(encoder.query(query), n) if collection.has_sparse else []
        ),
    }


def _embedded(index: Index, settings: QdrantSettings, fill: Fill) -> QdrantCollection:
    from branchrank.stores.qdrant_embedded import EmbeddedCollection

    place = index.directory / DERIVED / f"qdrant-{'hybrid' if settings.enable_hybrid else 'dense'}"
    if not place.is_dir():
        temporary = place.with_name(f".{place.name}.{os.getpid()}.tmp")
        with storage_errors(place):
            shutil.rmtree(temporary, ignore_errors=True)
            made = EmbeddedCollection.create(
                temporary, index.manifest.embedder.dimension, enable_hybrid=settings.enable_hybrid
            )
            fill(made)
            made.close()
            temporary.replace(place)
    return EmbeddedCollection(place)


def _server(index: Index, settings: QdrantSettings, fill: Fill) -> QdrantCollection:
    from branchrank.artifacts import digest_of
    from branchrank.stores.qdrant_server import ServerCollection

    name = f"branchrank-{digest_of((index.manifest, settings.enable_hybrid))[:16]}"
    try:
        collection = ServerCollection(settings.url, name)
        if collection.count() == len(index.chunks):
            return collection
        collection.close()
    except ArtifactError:
        pass
    collection = ServerCollection.create(
        settings.url, name, index.manifest.embedder.dimension, enable_hybrid=settings.enable_hybrid
    )
    fill(collection)
    return collection
