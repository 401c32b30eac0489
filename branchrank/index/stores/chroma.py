"""Vector search with Chroma, in an embedded database in a directory or on a server.

1. A search for ``n`` results requests a few more than ``n`` candidates from Chroma. The scores of the
   candidates are computed from the vectors of the index, so scores and ties are the same as in exact search.
2. A collection belongs to one build of an index, and is not changed after the build. BranchRank computes all
   vectors itself. Embedding functions are never loaded: a collection that has one is refused.
3. A collection is checked when it is opened. The collection and the index must have the same number of
   vectors, and searches must find at least 95% of a sample of the index's vectors. (Chroma's ``count()``
   alone is not enough, because the count is correct even if files are missing.) The metadata of a collection
   on a server contains an identifier of its index.
4. Chroma's search graph (HNSW) assigns vectors to random levels, so two builds of the same index differ. The
   settings in this module create graphs with many edges, and make searches visit many candidates. In every
   tested graph of about 8,400 vectors, searches returned the same results as exact search. If searches can't
   reach some of the vectors in a graph, the graph is built again.
5. An embedded collection is always built from scratch, on one thread. Vectors are uploaded to a server in
   batches, with several uploads at the same time. After an interrupted build, the next build of the same
   index uploads only the missing vectors.
6. Requests to a server go only to the given URL, without the proxy settings of the environment, and have a
   time limit and a size limit. Chroma's ``.env`` file is ignored.

Only Chroma's Rust code reads Chroma's file ``index_metadata.pickle``, so Python never unpickles this file.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from branchrank.core.errors import ArtifactError, Remedy, StorageError, UsageError
from branchrank.core.io import preserved_random_state, temporary_environment
from branchrank.core.io.keys import bracketed
from branchrank.core.io.printable import split_url, url_to_show
from branchrank.core.ranked_lists import RankedList
from branchrank.index.embedders.protocol import Vectors
from branchrank.index.stores.arrays import REBUILD
from branchrank.index.stores.chroma_checks import DATABASE, Location, check_files, refuse_foreign
from branchrank.index.stores.vectors import ExactVectors, IntArray, check_query, cosines, upload_batches

#: The limits for heartbeat requests and for all other requests to a server, in seconds and bytes.
_HEARTBEAT_SECONDS = 10.0
_HEARTBEAT_BYTES = 64 * 1024
_ANSWER_SECONDS = 120.0
_ANSWER_BYTES = 256 * 2**20
#: How Chroma reports SQLite's errors READONLY, FULL, CANTOPEN, IOERR_WRITE and READONLY_DIRECTORY.
_UNWRITABLE = re.compile(r"\(code: (?:8|13|14|778|1544)\) (.*)")
#: The metadata of a collection contains the identifier of its index under this key.
MADE_FOR = "branchrank"
#: The number of candidates to request beyond ``n``, so that ties at the end of the list are sorted by id.
_SLACK = 16
#: Scores that differ by less than this value are treated as ties, because Chroma computes in float32.
_TIE = 1e-6
_PROBES = 64
#: The graph counts as intact if searches find at least this share of the sampled vectors.
_PROBES_FOUND = 0.95
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


class ChromaVectors(ExactVectors):
    """A vector store that requests candidates from Chroma, and scores them with the vectors of the index."""

    def __init__(self, location: Location, name: str, exact: ExactVectors, *, made_for: str = "") -> None:
        """Open the collection ``name``, and check that searches find the vectors in ``exact``.

        ``made_for`` is the identifier of the index. The metadata of a collection on a server must contain
        this identifier.

        Raises :class:`ArtifactError` if the collection does not exist, is damaged, or belongs to another
        index. Raises :class:`ArtifactError` if the server can't be reached.
        """
        if isinstance(location, Path) and not (location / DATABASE).is_file():
            raise ArtifactError(f"the folder {location} does not contain a Chroma database", remedy=REBUILD)
        self._location = location
        super().__init__(exact.ids, exact.matrix)
        with chroma_errors(location):
            self._client = connect(location)
        try:
            with chroma_errors(location):
                self._collection = self._client.get_collection(name, embedding_function=None)
                refuse_foreign(self._collection, location)
                # Collections uploaded by older versions of BranchRank have no identifier.
                found = (self._collection.metadata or {}).get(MADE_FOR, made_for)
                if isinstance(location, str) and found != made_for:
                    raise self._damaged("the collection was made for another index")
                self._probe()
        except BaseException:
            self.close()
            raise

    def _probe(self) -> None:
        count = self._collection.count()
        if count != len(self.ids):
            raise self._damaged(f"the collection has {count} vectors, but the index has {len(self.ids)}")
        if not count:
            return
        rows = np.unique(np.linspace(0, count - 1, num=min(count, _PROBES)).astype(np.intp))
        queries = self.matrix[rows]
        answers = self._collection.query(query_embeddings=queries, n_results=1, include=[])["ids"]
        found = sum(
            cosines(self.matrix, self._rows(answer), query).max(initial=-1.0) > 1 - 1e-4
            for query, answer in zip(queries, answers, strict=True)
        )
        if found < _PROBES_FOUND * len(rows):
            raise self._damaged(f"searches find only {found} of {len(rows)} sampled vectors")

    def check_ids(self) -> None:
        """Raise :class:`ArtifactError` if a vector of the index is missing from the collection."""
        with chroma_errors(self._location):
            held = set(self._collection.get(include=[])["ids"])
        missing = [key for key in self.ids if key not in held]
        if missing:
            raise self._damaged(f"{len(missing)} vectors are missing, such as that of {missing[0]!r}")

    def _rows(self, answer: list[str]) -> IntArray:
        try:
            return np.array([self.ids.row(key) for key in dict.fromkeys(answer)], dtype=np.intp)
        except KeyError as error:
            raise self._damaged(f"a search returned {error.args[0]!r}, which is not in the index") from None

    def _damaged(self, reason: str) -> ArtifactError:
        return ArtifactError(
            f"the Chroma collection at {self._location} is damaged or belongs to another index: {reason}",
            remedy=REBUILD,
        )

    def search(self, vector: Vectors, n: int) -> RankedList:
        """Return the ``n`` nearest vectors; see :class:`~branchrank.index.stores.vectors.ExactVectors`.

        Exact search is used if all vectors are requested, or if the ``n``-th result has the same score as the
        last candidate that Chroma returns.
        """
        check_query(vector, self.dimension)
        wanted = min(n + _SLACK, len(self.ids))
        if n <= 0 or n >= len(self.ids):
            return super().search(vector, n)
        with chroma_errors(self._location):
            answer = self._collection.query(
                query_embeddings=vector[np.newaxis], n_results=wanted, include=[]
            )["ids"][0]
        rows = self._rows(answer)
        if len(rows) < _PROBES_FOUND * n:
            raise self._damaged(f"a search for {wanted} vectors returned {len(rows)}")
        ranking = self.rank(rows, vector, len(rows))
        # If the ``n``-th result ties with the last candidate, vectors that are not candidates may have the
        # same score too.
        if len(ranking) < n or ranking.scores[n - 1] - ranking.scores[-1] < _TIE:
            return super().search(vector, n)
        return ranking[:n]

    def close(self) -> None:
        """Close the Chroma client."""
        disconnect(self._client)


def build_collection(location: Location, name: str, exact: ExactVectors, *, made_for: str = "") -> None:
    """Create the collection ``name`` with the unit vectors in ``exact``.

    For ``made_for``, see :class:`ChromaVectors`. On a server, an incomplete collection of the same index is
    completed, and a collection of another index is replaced.

    After the build, a sample of the collection is compared with ``exact``. The collection is
    built again if it is damaged, such as when searches can't reach some vectors.

    Raises :class:`ArtifactError` if Chroma fails, or if the collection is still damaged after three builds.
    Raises :class:`ArtifactError` if another program created a collection with this name on the server.
    """
    if isinstance(location, Path) and (location / DATABASE).is_file():
        drop_collection(location, name)
    for last in (*[False] * (_BUILDS - 1), True):
        _fill(location, name, exact, made_for)
        try:
            ChromaVectors(location, name, exact, made_for=made_for).close()
            return
        except ArtifactError as error:
            if last:
                raise ArtifactError(
                    error.message, remedy=Remedy("use {}", "--vector-store", "exact")
                ) from error
        drop_collection(location, name)


def drop_collection(location: Location, name: str) -> None:
    """Delete a collection if it exists. Raises :class:`ArtifactError` if the server can't be reached."""
    with connected(location) as client:
        from chromadb.errors import NotFoundError

        with contextlib.suppress(NotFoundError):
            client.delete_collection(name)


def _fill(location: Location, name: str, exact: ExactVectors, made_for: str) -> None:
    """Add the vectors to the collection, except vectors that an interrupted upload added."""
    on_server, ids = isinstance(location, str), exact.ids
    with connected(location) as client:
        collection = _interrupted(client, location, name, made_for) if on_server else None
        resumed = collection is not None
        if collection is None:
            collection = _create(client, location, name, made_for)

        def add(rows: Sequence[int]) -> None:
            if resumed:
                held = set(collection.get(ids=[ids[row] for row in rows], include=[])["ids"])
                rows = [row for row in rows if ids[row] not in held]
            if rows:
                collection.add(ids=[ids[row] for row in rows], embeddings=exact.matrix[list(rows)])

        batch = min(client.get_max_batch_size(), BATCH if on_server else _LARGEST_BATCH)
        upload_batches(add, len(ids), batch, UPLOADS if on_server else 1)


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
            remedy=(
                "delete the collection on the server",
                Remedy("use another server with {}", "--chroma-url"),
            ),
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


@contextlib.contextmanager
def chroma_errors(location: Location) -> Iterator[None]:
    """Convert any exception from Chroma to an :class:`ArtifactError` whose message contains ``location``.

    If Chroma can't write to a database, the exception is converted to a :class:`StorageError`.
    """
    try:
        yield
    except (ArtifactError, UsageError):
        raise
    except BaseException as error:
        # A panic in Chroma's compiled Rust code has a class that can't be imported, in this module.
        if not isinstance(error, Exception) and type(error).__module__ != "pyo3_runtime":
            raise
        remedy = REBUILD
        if unwritable := _UNWRITABLE.search(str(error)):
            remedy = "free some space, or choose a writable folder with --data-dir"
            raise StorageError(f"Chroma can't write to {location}: {unwritable[1]}", remedy=remedy) from error
        if isinstance(location, str):
            remedy = f"start the server (chroma run) at {location}, or use --vector-store exact"
        reason = str(error).splitlines()[0][:300] if str(error) else type(error).__name__
        raise ArtifactError(f"Chroma at {location}: {reason}", remedy=remedy) from error


def connect(location: Location) -> Any:
    """Open a Chroma client for the database or server at ``location``, and check an existing database."""
    if isinstance(location, Path) and (location / DATABASE).exists():
        check_files(location)
    with preserved_random_state():
        import chromadb
    from chromadb.config import Settings

    # A .env file in the current folder could make Chroma load classes from other packages.
    settings = Settings(_env_file=None, anonymized_telemetry=False)
    if isinstance(location, Path):
        # Chroma caches open databases by path, so the path must not depend on the working directory.
        return chromadb.PersistentClient(path=str(location.absolute()), settings=settings)
    from branchrank.core.io.http_client import HttpxTransport, send

    parts = split_url(location)
    port = parts.port or (443 if parts.scheme == "https" else 8000)
    host = parts.hostname or ""
    named = host and not parts.username and parts.path in ("", "/") and not parts.query
    if parts.scheme not in ("http", "https") or not named:
        raise UsageError(
            f"--chroma-url {url_to_show(location)!r} is not the URL of a server",
            remedy=Remedy("use {}", "--chroma-url", "http://HOST:PORT"),
        )
    base = f"{parts.scheme}://{bracketed(host)}:{port}"
    # Chroma's own client has no time limit, so a server that does not answer is found here.
    send(f"{base}/api/v2/heartbeat", headers={}, deadline_s=_HEARTBEAT_SECONDS, limit_bytes=_HEARTBEAT_BYTES)
    with temporary_environment(NO_PROXY="*", no_proxy="*"):
        client = chromadb.HttpClient(host=host, port=port, ssl=parts.scheme == "https", settings=settings)
    for server in _servers(client):
        unbounded = server._session
        transport = HttpxTransport(base, deadline_s=_ANSWER_SECONDS, limit_bytes=_ANSWER_BYTES)
        server._session = type(unbounded)(transport=transport, trust_env=False, headers=unbounded.headers)
        unbounded.close()
    return client


def disconnect(client: Any) -> None:
    """Close a client and its connections."""
    # Chroma's close() leaves HTTP connections open.
    sessions = [server._session for server in _servers(client)]
    client.close()
    for session in sessions:
        session.close()


def _servers(client: Any) -> list[Any]:
    """Return the parts of a client that have an HTTP session, or an empty list for an embedded database."""
    parts = [getattr(part, "_server", None) for part in (client, getattr(client, "_admin_client", None))]
    return [part for part in dict.fromkeys(parts) if getattr(part, "_session", None) is not None]


@contextlib.contextmanager
def connected(location: Location) -> Iterator[Any]:
    """Open a client for the database or server at ``location``, and close it after the ``with`` block.

    Raises :class:`ArtifactError` if Chroma raises any exception.
    """
    with chroma_errors(location):
        client = connect(location)
        try:
            yield client
        finally:
            disconnect(client)
