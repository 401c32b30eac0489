"""The vector store on Chroma: embedded in a directory, or on a server.

1. A collection belongs to one generation of an index and is never changed after it is built. Vectors are
   always passed in; no embedding function is ever attached, stored or loaded.
2. A query requests a few more than ``n`` candidates from Chroma. Their scores are computed from the index's
   own vectors, so scores and ties are the same as in the exact store.
3. Chroma's HNSW graph is built on one thread, but with random levels, so two builds differ. The graph is
   dense enough, and the search wide enough, that every build finds the results of exact search in collections
   of ten thousand vectors; ``recall_against_exact`` measures this. If vectors are unreachable in a graph, it
   is built again.
4. A collection is checked when it is opened: its count, and the ids, vectors and nearest neighbours of a
   sample, are compared with the index's own vectors. (Chroma's ``count()`` alone is still correct if files
   are missing.)

Chroma writes a file named ``index_metadata.pickle``. Only its Rust code reads this file, never Python.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from branchrank.embedders.protocol import Vectors
from branchrank.environment import preserved_random_state
from branchrank.errors import ArtifactError, UsageError
from branchrank.http_client import Transport, get
from branchrank.records import Scored
from branchrank.safe_open import check_opened
from branchrank.stores.ordering import IntArray
from branchrank.stores.vectors import check_query
from branchrank.stores.vectors_exact import ExactVectors

#: The directory of an embedded database, or the URL of a server.
Location = Path | str

EF_SEARCH = 1000
#: With 200 (and 32 neighbours), one in eight builds misses a neighbour for 100 questions on 8,426 chunks.
_EF_CONSTRUCTION = 400
#: With Chroma's default of 16, points among near-duplicates can be unreachable, even in small graphs.
_MAX_NEIGHBORS = 64
#: The most attempts to build a graph: graphs differ from build to build, and some have unreachable points.
_BUILDS = 3
#: A small threshold writes vectors to files, whose digests are in the manifest, instead of Chroma's log.
_SYNC_THRESHOLD = 2
#: Extra candidates beyond ``n``, so that ties at the end of the list can be broken by id.
_SLACK = 16
#: Chroma computes in float32, so it may not distinguish scores closer than this.
_TIE = 1e-6
_PROBES = 64
#: The time limits for a server's heartbeat and for any other request.
_HEARTBEAT_SECONDS = 10.0
_HEARTBEAT_BYTES = 64 * 1024
_ANSWER_SECONDS = 120.0
_ANSWER_BYTES = 256 * 2**20
#: The share of sampled vectors that must be found. A graph may miss a few; a damaged one misses far more.
_PROBES_FOUND = 0.95
#: Chroma's configuration values for a collection without an embedding function.
_NO_FUNCTION = ({"type": "legacy"}, {"type": "unknown"})
_REBUILD = "rebuild the index: branchrank index"


class UnreachableError(ArtifactError):
    """Vectors are stored in the collection, but a search does not find them."""


@contextlib.contextmanager
def _chroma_errors(location: Location) -> Iterator[None]:
    """Turn any exception of Chroma into an :class:`ArtifactError` that names the location."""
    try:
        yield
    except (ArtifactError, UsageError):
        raise
    except Exception as error:
        remedy = _REBUILD
        if isinstance(location, str):
            remedy = f"start the server (chroma run) at {location}, or use --vector-store exact"
        reason = str(error).splitlines()[0][:300] if str(error) else type(error).__name__
        raise ArtifactError(f"Chroma at {location}: {reason}", remedy=remedy) from error


def _connect(location: Location, root: Path | None = None) -> Any:
    """Open a client. An embedded database's file must not be reached through a link below ``root``."""
    with preserved_random_state():
        import chromadb
    from chromadb.config import Settings

    # A .env file in the current folder could make Chroma load other classes.
    settings = Settings(_env_file=None, anonymized_telemetry=False)
    if isinstance(location, Path):
        # Chroma keeps one database per path in a process, whatever the working directory is by then.
        client = chromadb.PersistentClient(path=str(location.absolute()), settings=settings)
        try:
            place = location / "chroma.sqlite3"
            check_opened(root or location, place.relative_to(root or location).as_posix())
        except BaseException:
            _disconnect(client)
            raise
        return client
    parts = urlsplit(location)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 8000)
    except ValueError:
        port = 0
    host = parts.hostname or ""
    named = host and not parts.username and parts.path in ("", "/") and not parts.query
    if parts.scheme not in ("http", "https") or not named or not port:
        raise UsageError(
            f"--chroma-url {location!r} is not the URL of a server",
            remedy="use --chroma-url http://HOST:PORT",
        )
    base = f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}"
    get(f"{base}/api/v2/heartbeat", headers={}, deadline_s=_HEARTBEAT_SECONDS, limit_bytes=_HEARTBEAT_BYTES)
    settings.chroma_api_impl = "chromadb.api.fastapi.FastAPI"
    settings.chroma_server_host, settings.chroma_server_http_port = host, port
    settings.chroma_server_ssl_enabled = parts.scheme == "https"
    return _bounded_client()(base, settings)


@functools.cache
def _bounded_client() -> Any:
    """Chroma's client class with limits on every request, including those sent by its constructor."""
    from chromadb.api.client import Client

    class BoundedClient(Client):  # type: ignore[misc]
        def __init__(self, base: str, settings: Any) -> None:
            self._base = base
            try:
                super().__init__(settings=settings)
            except BaseException:
                for server in _servers(self):
                    server._session.close()
                raise

        def get_user_identity(self) -> Any:
            # This is the first request; nothing was sent before it.
            _bound(self._server, self._base)
            return super().get_user_identity()

        def _validate_tenant_database(self, tenant: str, database: str) -> None:
            # The inner admin client has its own session.
            _bound(self._admin_client._server, self._base)
            super()._validate_tenant_database(tenant=tenant, database=database)

    return BoundedClient


def _bound(server: Any, base: str) -> None:
    """Replace an HTTP session by one with limits; Chroma's has no timeout and no limit on decompression."""
    import httpx

    transport: Any = Transport(base, deadline_s=_ANSWER_SECONDS, limit_bytes=_ANSWER_BYTES)
    unbounded = server._session
    server._session = httpx.Client(transport=transport, trust_env=False, headers=unbounded.headers)
    unbounded.close()


def _disconnect(client: Any) -> None:
    # Chroma's own close() leaves the HTTP connections open.
    sessions = [server._session for server in _servers(client)]
    client.close()
    for session in sessions:
        session.close()


def _servers(client: Any) -> list[Any]:
    """The parts of a client and its inner client that have an HTTP session; empty for an embedded client."""
    parts = [getattr(part, "_server", None) for part in (client, getattr(client, "_admin_client", None))]
    return [part for part in dict.fromkeys(parts) if getattr(part, "_session", None) is not None]


@contextlib.contextmanager
def connected(location: Location, root: Path | None = None) -> Iterator[Any]:
    """Open a client of the database or server at ``location``; see :class:`ChromaVectors` for ``root``.

    Raises :class:`ArtifactError`.
    """
    with _chroma_errors(location):
        client = _connect(location, root)
        try:
            yield client
        finally:
            _disconnect(client)


def _refuse_foreign(collection: Any, location: Location) -> None:
    """Raise :class:`ArtifactError` if the collection stores an embedding function or another metric."""
    model = collection.get_model()
    configuration = model.configuration_json or {}
    for name in _embedding_functions([configuration, model.get_serialized_schema()]):
        raise ArtifactError(
            f"the Chroma collection {collection.name!r} at {location} names an embedding function "
            f"({name!r}), which is never loaded",
            remedy=_REBUILD,
        )
    space = (configuration.get("hnsw") or {}).get("space")
    if space not in ("l2", "cosine"):
        raise ArtifactError(
            f"the Chroma collection {collection.name!r} at {location} has the metric {space!r}, not l2",
            remedy=_REBUILD,
        )


def _embedding_functions(tree: Any) -> Iterator[str]:
    """Names of the embedding functions anywhere in a configuration."""
    pending = [tree]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            function = value.get("embedding_function")
            if function and function not in _NO_FUNCTION:
                yield str(function.get("name", function) if isinstance(function, dict) else function)[:100]
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)


def build_collection(
    location: Location,
    name: str,
    ids: Sequence[str],
    matrix: Vectors,
    *,
    root: Path | None = None,
) -> None:
    """Create the collection ``name`` with unit vectors ``(len(ids), d)``, replacing an existing one.

    For ``root`` see :class:`ChromaVectors`.

    The collection is checked after the build; if vectors are unreachable in the graph, it is built again.
    Raises :class:`ArtifactError`.
    """
    for last in (*[False] * (_BUILDS - 1), True):
        if isinstance(location, str) or (location / "chroma.sqlite3").is_file():
            drop_collection(location, name, root)
        _fill(location, name, ids, matrix, root)
        try:
            ChromaVectors(location, name, ids, matrix, root=root).close()
        except UnreachableError as error:
            if last:
                raise UnreachableError(error.message, remedy="use --vector-store exact") from error
        else:
            return


def _fill(
    location: Location,
    name: str,
    ids: Sequence[str],
    matrix: Vectors,
    root: Path | None,
) -> None:
    with connected(location, root) as client:
        collection = client.create_collection(
            name,
            embedding_function=None,
            configuration={
                "hnsw": {
                    "space": "l2",
                    "ef_construction": _EF_CONSTRUCTION,
                    "ef_search": EF_SEARCH,
                    "max_neighbors": _MAX_NEIGHBORS,
                    "num_threads": 1,
                    "sync_threshold": _SYNC_THRESHOLD,
                }
            },
        )
        _refuse_foreign(collection, location)
        batch = min(client.get_max_batch_size(), 5461)
        for start in range(0, len(ids), batch):
            end = min(start + batch, len(ids))
            collection.add(ids=list(ids[start:end]), embeddings=np.asarray(matrix[start:end]))


def drop_collection(location: Location, name: str, root: Path | None = None) -> None:
    """Delete a collection if it exists. Raises :class:`ArtifactError` if the server can't be reached."""
    with connected(location, root) as client:
        from chromadb.errors import NotFoundError

        with contextlib.suppress(NotFoundError):
            client.delete_collection(name)


class ChromaVectors:
    """A vector store that gets candidates from Chroma and scores them with the index's own vectors."""

    def __init__(
        self, location: Location, name: str, ids: Sequence[str], matrix: Vectors, *, root: Path | None = None
    ) -> None:
        """Open the collection ``name`` and check it against ``ids`` and ``matrix``.

        No link is followed to an embedded database below the folder ``root`` (default: ``location``). Raises
        :class:`ArtifactError` if the collection does not exist, is damaged, or is not the index's, or if the
        server can't be reached.
        """
        if isinstance(location, Path) and not (location / "chroma.sqlite3").is_file():
            raise ArtifactError(f"there is no Chroma database in {location}", remedy=_REBUILD)
        self._location = location
        self._exact = ExactVectors(ids, matrix)
        with _chroma_errors(location):
            self._client = _connect(location, root)
        try:
            with _chroma_errors(location):
                self._collection = self._client.get_collection(name, embedding_function=None)
                _refuse_foreign(self._collection, location)
                self._probe()
        except BaseException:
            self.close()
            raise

    def _probe(self) -> None:
        count = self._collection.count()
        if count != len(self.ids):
            raise self._damaged(f"it holds {count} vectors, the index {len(self.ids)}")
        if not count:
            return
        rows = np.unique(np.linspace(0, count - 1, num=min(count, _PROBES)).astype(np.intp))
        sample = [self.ids[row] for row in rows]
        stored = self._collection.get(ids=sample, include=["embeddings"])
        if sorted(stored["ids"]) != sorted(sample):
            raise self._damaged("ids of the index are missing")
        for key, vector in zip(stored["ids"], stored["embeddings"], strict=True):
            if not np.allclose(vector, self.vector(key), atol=1e-5):
                raise self._damaged(f"the vector of {key!r} differs")
        queries = np.stack([self.vector(key) for key in sample])
        answers = self._collection.query(query_embeddings=queries, n_results=1, include=[])["ids"]
        found = sum(
            self._exact.score(self._rows(answer), query).max(initial=-1.0) > 1 - 1e-4
            for query, answer in zip(queries, answers, strict=True)
        )
        if found < _PROBES_FOUND * len(rows):
            damage = self._damaged(f"only {found} of {len(rows)} vectors find themselves")
            raise UnreachableError(damage.message, remedy=damage.remedy)

    def _rows(self, answer: list[str]) -> IntArray:
        try:
            return np.array([self._exact.row(key) for key in dict.fromkeys(answer)], dtype=np.intp)
        except KeyError as error:
            raise self._damaged(f"it answers with {error.args[0]!r}, which is not in the index") from None

    def _damaged(self, reason: str) -> ArtifactError:
        return ArtifactError(
            f"the Chroma collection at {self._location} is damaged or foreign: {reason}", remedy=_REBUILD
        )

    @property
    def ids(self) -> Sequence[str]:
        """The ids, in the order of the rows."""
        return self._exact.ids

    def search(self, vector: Vectors, n: int) -> list[Scored]:
        """The ``n`` nearest; see :class:`~branchrank.stores.vectors.VectorStore`.

        Exact search is used instead if Chroma would have to return everything or can't break a tie.
        """
        check_query(vector, self._exact.dimension)
        wanted = min(n + _SLACK, len(self.ids))
        if n <= 0 or n >= len(self.ids):
            return self._exact.search(vector, n)
        with _chroma_errors(self._location):
            answer = self._collection.query(
                query_embeddings=vector[np.newaxis], n_results=wanted, include=[]
            )["ids"][0]
        rows = self._rows(answer)
        if len(rows) < _PROBES_FOUND * n:
            raise self._damaged(f"asked for {wanted} vectors, it answers with {len(rows)}")
        ranking = self._exact.rank(rows, vector, len(rows))
        # If the tie continues past the last candidate, vectors that are not candidates may come first by id.
        if len(ranking) < n or ranking[n - 1].score - ranking[-1].score < _TIE:
            return self._exact.search(vector, n)
        return ranking[:n]

    def scores(self, vector: Vectors, keys: Sequence[str]) -> NDArray[np.float64]:
        """The exact scores of some ids; see :class:`~branchrank.stores.vectors.VectorStore`."""
        return self._exact.scores(vector, keys)

    def vector(self, key: str) -> Vectors:
        """The vector of an id, shape ``(d,)``."""
        return self._exact.vector(key)

    def close(self) -> None:
        """Close the client."""
        _disconnect(self._client)
