"""Branches beyond vectors and BM25: grep, FTS5 in SQLite, Qdrant.

Each is opened when a system names it, over the same chunks, vectors and query encoder as the others: grep
over the corpus's files, FTS5 in the SQLite file of the index, Qdrant in a temporary folder (about 0.1 ms a
chunk) or on a server, where the collection is named after its content and made once.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from branchrank.artifacts import digest_of
from branchrank.errors import ArtifactError
from branchrank.index import Index
from branchrank.records import Scored
from branchrank.settings import EmbeddingSettings, GrepSettings, QdrantSettings, Resolved
from branchrank.systems.sources import BranchSearch, Sources
from branchrank.systems.spec import System

if TYPE_CHECKING:
    from branchrank.stores.qdrant_points import Point, QdrantCollection


def further_branches(
    index: Index, root: Path, systems: Iterable[System], settings: Resolved, opened: ExitStack
) -> dict[str, BranchSearch]:
    """The searches of every further branch kind that the systems name.

    ``root`` is the corpus's folder; what is opened closes with ``opened``. Raises
    :class:`~branchrank.errors.MissingDependencyError` when a package of one is not installed.
    """
    kinds = {branch.kind for system in systems for branch in system.searched}
    searches: dict[str, BranchSearch] = {}
    if "grep" in kinds:
        searches["grep"] = _grep(index, root, settings.part(GrepSettings))
    if "fts5" in kinds:
        searches["fts5"] = _fts5(index, opened)
    if kinds & {"qdrant-dense", "qdrant-sparse"}:
        searches |= _qdrant(index, settings.part(QdrantSettings), opened)
    return searches


def _grep(index: Index, root: Path, settings: GrepSettings) -> BranchSearch:
    from branchrank.systems.search_tools import SearchTools

    tools = SearchTools(index, root, settings=settings)
    return lambda _sources, query, n: tools.grep_chunks(query, n)


def _fts5(index: Index, opened: ExitStack) -> BranchSearch:
    from branchrank.index.sqlite_index import open_search

    search = open_search(index, EmbeddingSettings())
    opened.callback(search.close)
    return lambda _sources, query, n: search.keyword(query, n)


def _qdrant(index: Index, settings: QdrantSettings, opened: ExitStack) -> dict[str, BranchSearch]:
    from branchrank.stores.qdrant_points import Bm25Encoder

    collection = _served(index, settings) if settings.url else _embedded(index, settings, opened)
    opened.callback(collection.close)
    if collection.count() != len(index.chunks):
        raise ArtifactError(
            f"the Qdrant collection holds {collection.count()} of {len(index.chunks)} chunks",
            remedy="look at the server's log and run the command again",
        )
    encoder = Bm25Encoder()

    def dense(sources: Sources, query: str, n: int) -> Sequence[Scored]:
        return collection.dense(sources.embedding(query), n)

    def sparse(_sources: Sources, query: str, n: int) -> Sequence[Scored]:
        return collection.sparse(encoder.query(query), n) if collection.has_sparse else []

    return {"qdrant-dense": dense, "qdrant-sparse": sparse}


def _embedded(index: Index, settings: QdrantSettings, opened: ExitStack) -> QdrantCollection:
    from branchrank.stores.qdrant_embedded import EmbeddedCollection

    folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="branchrank-"))
    collection = EmbeddedCollection.create(
        Path(folder) / "qdrant", index.manifest.embedder.dimension, enable_hybrid=settings.enable_hybrid
    )
    collection.upsert(_points(index))
    return collection


def _served(index: Index, settings: QdrantSettings) -> QdrantCollection:
    from branchrank.stores.qdrant_server import ServerCollection

    name = f"branchrank-{digest_of([index.manifest, settings.enable_hybrid])[:32]}"
    with contextlib.suppress(ArtifactError):
        held = ServerCollection(settings.url, name)
        if held.count() == len(index.chunks):
            return held
        held.close()
    made = ServerCollection.create(
        settings.url, name, index.manifest.embedder.dimension, enable_hybrid=settings.enable_hybrid
    )
    made.upsert(_points(index))
    return made


def _points(index: Index) -> list[Point]:
    from branchrank.stores.qdrant_hybrid import chunk_points

    store = index.exact_vectors
    chunks = list(index.chunks.values())
    return chunk_points(chunks, np.array([store.vector(chunk.id) for chunk in chunks], dtype=np.float32))
