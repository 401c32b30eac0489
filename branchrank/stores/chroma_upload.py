"""Build the Chroma collections of an index, in an embedded database or on a server.

1. A collection belongs to one build of an index, and is not changed after the build. BranchRank computes all
   vectors itself, so a collection never has an embedding function.
2. Chroma's search graph (HNSW) assigns vectors to random levels, so two builds of the same index differ. The
   settings in this module create graphs with many edges, and make searches visit many candidates. In every
   tested graph of about 8,400 vectors, searches returned the same results as exact search. The function
   ``recall_against_exact`` measures the share of the exact results that a store returns. If searches can't
   reach some of the vectors in a graph, the graph is built again.
3. An embedded collection is always built from scratch, on one thread.
4. Vectors are uploaded to a server in batches, with several uploads at the same time. The metadata of a
   collection on a server contains an identifier of its index. After an interrupted build, the next build of
   the same index uploads only the missing vectors.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from branchrank.embedders.protocol import Vectors
from branchrank.errors import ArtifactError
from branchrank.stores.chroma_client import Location, connected, refuse_foreign
from branchrank.stores.vectors_chroma import MADE_FOR, ChromaVectors, UnreachableError

#: With an ``ef_search`` of 1000, 2 of 20 builds missed a result (100 questions, 8,426 chunks). With an
#: ``ef_search`` of 2000, none of 50 builds missed a result, but searches took about 1.5 times as long as with
#: 1000.
EF_SEARCH = 2000
#: With an ``ef_construction`` of 200 and 32 neighbors per vector, one build in eight missed a result.
_EF_CONSTRUCTION = 400
#: With 16 neighbors (Chroma's default), vectors with many near-duplicates can be unreachable.
_MAX_NEIGHBORS = 64
#: The maximum number of attempts to build a graph in which all vectors are reachable.
_BUILDS = 3
#: A low sync threshold makes Chroma write vectors to index files, whose digests the build records. A high
#: sync threshold would leave vectors in the log in ``chroma.sqlite3``, whose digest is not recorded.
_SYNC_THRESHOLD = 2
#: On a server, a low sync threshold would make Chroma write the whole graph after every batch.
_SERVER_SYNC_THRESHOLD = 10_000
_LARGEST_BATCH = 5461
#: ``BATCH`` is the number of vectors in one request to a server. ``UPLOADS`` is the number of simultaneous
#: requests.
BATCH = 1000
UPLOADS = 4


def build_collection(
    location: Location,
    name: str,
    ids: Sequence[str],
    matrix: Vectors,
    *,
    root: Path | None = None,
    made_for: str = "",
) -> None:
    """Create the collection ``name`` with the unit vectors in ``matrix``, of shape ``(len(ids), d)``.

    For ``root`` and ``made_for``, see :class:`~branchrank.stores.vectors_chroma.ChromaVectors`. On a server,
    an incomplete collection of the same index is completed, and a collection of another index is replaced.

    After the build, a sample of the collection is compared with ``ids`` and ``matrix``. The collection is
    built again if searches can't reach some vectors, or if a resumed upload left a wrong vector.

    Raises :class:`ArtifactError` if Chroma fails, or if searches can't reach all vectors after three builds.
    Raises :class:`ArtifactError` if another program created a collection with this name on the server.
    """
    if isinstance(location, Path) and (location / "chroma.sqlite3").is_file():
        drop_collection(location, name, root)
    for last in (*[False] * (_BUILDS - 1), True):
        resumed = _fill(location, name, ids, matrix, root, made_for)
        try:
            ChromaVectors(location, name, ids, matrix, root=root, made_for=made_for).close()
        except UnreachableError as error:
            if last:
                raise UnreachableError(error.message, remedy="use --vector-store exact") from error
        except ArtifactError:
            if last or not resumed:
                raise
        else:
            return
        drop_collection(location, name, root)


def drop_collection(location: Location, name: str, root: Path | None = None) -> None:
    """Delete a collection if it exists. Raises :class:`ArtifactError` if the server can't be reached."""
    with connected(location, root) as client:
        from chromadb.errors import NotFoundError

        with contextlib.suppress(NotFoundError):
            client.delete_collection(name)


def _fill(
    location: Location, name: str, ids: Sequence[str], matrix: Vectors, root: Path | None, made_for: str
) -> bool:
    """Add the vectors to the collection, and return whether an interrupted upload was resumed."""
    with connected(location, root) as client:
        collection = _interrupted(client, location, name, made_for) if isinstance(location, str) else None
        resumed = collection is not None
        if collection is None:
            collection = _create(client, location, name, made_for)
        if isinstance(location, Path):
            batch = min(client.get_max_batch_size(), _LARGEST_BATCH)
            for start in range(0, len(ids), batch):
                _add(collection, ids[start : start + batch], matrix[start : start + batch])
        else:
            _upload(collection, ids, matrix, min(client.get_max_batch_size(), BATCH), resumed)
        return resumed


def _interrupted(client: Any, location: Location, name: str, made_for: str) -> Any:
    """Return the incomplete collection left behind by an interrupted build of this index, or ``None``."""
    from chromadb.errors import NotFoundError

    try:
        collection = client.get_collection(name, embedding_function=None)
    except NotFoundError:
        return None
    found = (collection.metadata or {}).get(MADE_FOR)
    if found is None:
        raise ArtifactError(
            f"the Chroma server at {location} has a collection {name!r} that BranchRank did not create",
            remedy="delete the collection on the server, or use another server with --chroma-url",
        )
    if found == made_for:
        with contextlib.suppress(ArtifactError):
            refuse_foreign(collection, location)
            return collection
    client.delete_collection(name)
    return None


def _create(client: Any, location: Location, name: str, made_for: str) -> Any:
    on_server = isinstance(location, str)
    collection = client.create_collection(
        name,
        embedding_function=None,
        metadata={MADE_FOR: made_for} if on_server else None,
        configuration={
            "hnsw": {
                "space": "l2",
                "ef_construction": _EF_CONSTRUCTION,
                "ef_search": EF_SEARCH,
                "max_neighbors": _MAX_NEIGHBORS,
                "num_threads": 1,
                "sync_threshold": _SERVER_SYNC_THRESHOLD if on_server else _SYNC_THRESHOLD,
            }
        },
    )
    refuse_foreign(collection, location)
    return collection


def _upload(collection: Any, ids: Sequence[str], matrix: Vectors, batch: int, resumed: bool) -> None:
    def upload(start: int) -> None:
        rows = range(start, min(start + batch, len(ids)))
        if resumed:
            held = set(collection.get(ids=[ids[row] for row in rows], include=[])["ids"])
            rows = [row for row in rows if ids[row] not in held]  # type: ignore[assignment]
        if rows:
            _add(collection, [ids[row] for row in rows], matrix[list(rows)])

    with ThreadPoolExecutor(UPLOADS) as pool:
        uploads = [pool.submit(upload, start) for start in range(0, len(ids), batch)]
        try:
            for each in uploads:
                each.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _add(collection: Any, ids: Sequence[str], rows: Vectors) -> None:
    collection.add(ids=list(ids), embeddings=np.asarray(rows))
