"""Read-only access to a Qdrant collection that another program created.

1. If the collection is on a server, the server searches it. BranchRank sends only read requests to the
   server, for the collection's layout, points and search results.
2. A collection in a folder was written either by Qdrant's embedded engine (as a shard) or by qdrant-client in
   local mode. The folder is first copied to a temporary folder, because opening a shard changes its files.
   Copying does not follow symbolic links, and fails if the folder is too large.
3. qdrant-client's local mode stores points as pickles. The pickles are read as plain data
   (:mod:`branchrank.stores.pickled_data`), and the points are added to a new shard in the temporary folder.
4. :mod:`branchrank.stores.qdrant_layout` determines which of the collection's vectors are searched.
5. The key of a point is its id as a string. Scores are Qdrant's scores, except that distances (Euclid,
   Manhattan) are negated, so that larger values are better.
"""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import msgspec

from branchrank.embedders.protocol import Vectors
from branchrank.errors import ArtifactError, UsageError, or_else
from branchrank.io.files import copy_folder
from branchrank.records import Scored
from branchrank.stores.pickled_data import read_pickled
from branchrank.stores.qdrant_layout import (
    REMEDY,
    DenseVector,
    Layout,
    LocalModeMeta,
    StoredLayout,
    StoredVectors,
    chosen_layout,
    stored_vectors,
)
from branchrank.stores.qdrant_points import BATCH, SparseWeights, edge
from branchrank.stores.qdrant_server import TIMEOUT_S, connect, failures, rest_models
from branchrank.stores.vectors import check_query

MOST_BYTES = 16 << 30
MOST_FILES = 10_000
_RECORDS = frozenset(f"qdrant_client.http.models.models.{name}" for name in ("PointStruct", "SparseVector"))


class ExistingCollection(Protocol):
    """A read-only Qdrant collection. Every method raises :class:`ArtifactError` if Qdrant fails."""

    @property
    def place(self) -> str:
        """A description of the collection and its location, for messages."""

    @property
    def layout(self) -> Layout:
        """The names and dimensions of the vectors that are searched."""

    def payloads(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the key and the payload of every point."""

    def vectors(self, keys: Sequence[str]) -> list[StoredVectors]:
        """Return the vectors of the points whose keys are in ``keys``, in the order of ``keys``."""

    def dense(self, vector: Vectors, n: int, keys: Sequence[str] | None = None) -> list[Scored]:
        """Return the ``n`` points whose dense vectors are nearest to ``vector``, with ties sorted by key.

        If ``keys`` is given, only the points with these keys are searched.
        """

    def sparse(self, query: SparseWeights, n: int, keys: Sequence[str] | None = None) -> list[Scored]:
        """Return the ``n`` points with the best sparse scores for ``query``, with ties sorted by key.

        If ``keys`` is given, only the points with these keys are searched.
        """

    def maxsim(self, tokens: Vectors, keys: Sequence[str]) -> list[Scored]:
        """Return the points in ``keys`` that have token vectors, ranked by Qdrant's MaxSim.

        Qdrant's MaxSim is the sum of each query token's largest similarity to a token of the point.
        """

    def close(self) -> None:
        """Close the collection's files or connections."""


def open_existing(name: str, *, url: str, path: str, dimension: int) -> ExistingCollection:
    """Open the collection ``name`` on the server at ``url`` or in the folder ``path``.

    ``dimension`` is the dimension of the query vectors. Raises :class:`UsageError` unless exactly one of
    ``url`` and ``path`` is given. Raises :class:`ArtifactError` if the collection does not exist or has no
    vectors of this dimension.
    """
    if bool(url) == bool(path):
        raise UsageError(
            f"--qdrant-collection {name!r} needs either --qdrant-url or --qdrant-path",
            remedy="use --qdrant-url for a collection on a server, or --qdrant-path for a folder",
        )
    if url:
        return _Served(url, name, dimension)
    return _Shard(Path(path).expanduser(), name, dimension)


class _Served:
    def __init__(self, url: str, name: str, dimension: int) -> None:
        self.place = f"the Qdrant collection {name!r} at {url}"
        self._url = url
        self._name = name
        self._ids: dict[str, Any] = {}
        self._client = connect(url, TIMEOUT_S)
        try:
            with failures(url):
                names = [each.name for each in self._client.get_collections().collections]
            if name not in names:
                raise _missing(self.place, name, names)
            with failures(url):
                parameters = self._client.get_collection(name).config.params
            found = parameters.vectors
            named = found if isinstance(found, Mapping) else {"": found}
            dense = {
                key: DenseVector(each.size, str(each.distance), each.multivector_config is not None)
                for key, each in named.items()
                if each is not None
            }
            self.layout = chosen_layout(self.place, dense, parameters.sparse_vectors or {}, dimension)
        except BaseException:
            self._client.close()
            raise

    def payloads(self) -> Iterator[tuple[str, dict[str, Any]]]:
        offset = None
        while True:
            with failures(self._url):
                points, offset = self._client.scroll(
                    self._name, limit=BATCH, offset=offset, with_payload=True, with_vectors=False
                )
            for point in points:
                self._ids[str(point.id)] = point.id
                yield str(point.id), point.payload or {}
            if offset is None or not points:
                return

    def vectors(self, keys: Sequence[str]) -> list[StoredVectors]:
        with failures(self._url):
            points = self._client.retrieve(
                self._name, ids=[self._ids[key] for key in keys], with_payload=False, with_vectors=True
            )
        return _in_order(points, keys, self.layout)

    def dense(self, vector: Vectors, n: int, keys: Sequence[str] | None = None) -> list[Scored]:
        check_query(vector, self.layout.size)
        found = self._query(vector.tolist(), self.layout.dense, n, keys)
        return _ranked(found, self.layout.distance)

    def sparse(self, query: SparseWeights, n: int, keys: Sequence[str] | None = None) -> list[Scored]:
        if self.layout.sparse is None or not query.indices:
            return []
        vector = rest_models().SparseVector(indices=query.indices, values=query.values)
        return _ranked(self._query(vector, self.layout.sparse, n, keys))

    def maxsim(self, tokens: Vectors, keys: Sequence[str]) -> list[Scored]:
        if self.layout.tokens is None or not keys or not len(tokens):
            return []
        return _ranked(self._query(tokens.tolist(), self.layout.tokens, len(keys), keys))

    def close(self) -> None:
        self._client.close()

    def _query(self, vector: Any, using: str, n: int, keys: Sequence[str] | None) -> Any:
        models = rest_models()
        chosen = None
        if keys is not None:
            ids = [self._ids[key] for key in keys]
            chosen = models.Filter(must=[models.HasIdCondition(has_id=ids)])
        with failures(self._url):
            return self._client.query_points(
                self._name,
                query=vector,
                using=using or None,
                limit=n,
                query_filter=chosen,
                with_payload=False,
                search_params=models.SearchParams(exact=True),
            ).points


class _Shard:
    def __init__(self, path: Path, name: str, dimension: int) -> None:
        self.place = f"the Qdrant collection {name!r} in {path}"
        self._ids: dict[str, Any] = {}
        self._resources = ExitStack()
        try:
            folder = Path(self._resources.enter_context(tempfile.TemporaryDirectory(prefix="branchrank-")))
            with self._failures():
                self._shard = self._opened(path, name, folder / "shard", dimension)
            self._resources.callback(self._shard.close)
        except BaseException:
            self._resources.close()
            raise

    def _opened(self, path: Path, name: str, copy: Path, dimension: int) -> Any:
        """Open a copy of a shard, or create a new shard with the points of a local-mode collection."""
        shards = [each for each in (path / name, path) if (each / "edge_config.json").is_file()]
        if shards and (shards[0] != path or path.name == name):
            self._copy(shards[0], copy)
            config = msgspec.json.decode((copy / "edge_config.json").read_bytes(), type=StoredLayout)
            self.layout = chosen_layout(self.place, *config.described(), dimension)
            return edge().EdgeShard.load(str(copy))
        if not (path / "meta.json").is_file():
            inside = sorted(each.parent.name for each in path.glob("*/edge_config.json"))
            raise _missing(self.place, name, [*inside, *([path.name] if shards else [])])
        folder = copy.with_name("local")
        self._copy(path, folder)
        collections = msgspec.json.decode((folder / "meta.json").read_bytes(), type=LocalModeMeta).collections
        if name not in collections:
            raise _missing(self.place, name, list(collections))
        dense, sparse = collections[name].described()
        self.layout = chosen_layout(self.place, dense, sparse, dimension)
        return _loaded(folder / "collection" / name / "storage.sqlite", self.layout, dense, copy)

    def _copy(self, source: Path, target: Path) -> None:
        try:
            copy_folder(source, target, most_bytes=MOST_BYTES, most_files=MOST_FILES)
        except OSError as error:
            where = f": {error.filename}" if error.filename else ""
            raise ArtifactError(f"cannot copy {source}{where}: {error.strerror}", remedy=REMEDY) from error

    def payloads(self) -> Iterator[tuple[str, dict[str, Any]]]:
        request, offset = edge().ScrollRequest, None
        while True:
            with self._failures():
                points, offset = self._shard.scroll(request(offset=offset, limit=BATCH, with_payload=True))
            for point in points:
                self._ids[str(point.id)] = point.id
                yield str(point.id), point.payload or {}
            if offset is None or not points:
                return

    def vectors(self, keys: Sequence[str]) -> list[StoredVectors]:
        with self._failures():
            points = self._shard.retrieve([self._ids[key] for key in keys], False, True)
        return _in_order(points, keys, self.layout)

    def dense(self, vector: Vectors, n: int, keys: Sequence[str] | None = None) -> list[Scored]:
        check_query(vector, self.layout.size)
        return _ranked(self._query(vector.tolist(), self.layout.dense, n, keys), self.layout.distance)

    def sparse(self, query: SparseWeights, n: int, keys: Sequence[str] | None = None) -> list[Scored]:
        if self.layout.sparse is None or not query.indices:
            return []
        vector = edge().SparseVector(indices=query.indices, values=query.values)
        return _ranked(self._query(vector, self.layout.sparse, n, keys))

    def maxsim(self, tokens: Vectors, keys: Sequence[str]) -> list[Scored]:
        if self.layout.tokens is None or not keys or not len(tokens):
            return []
        return _ranked(self._query(tokens.tolist(), self.layout.tokens, len(keys), keys))

    def close(self) -> None:
        self._resources.close()

    def _query(self, vector: Any, using: str, n: int, keys: Sequence[str] | None) -> Any:
        qdrant = edge()
        chosen = None
        if keys is not None:
            chosen = qdrant.Filter(must=[qdrant.HasIdCondition({self._ids[key] for key in keys})])
        request = qdrant.QueryRequest(
            limit=n,
            query=qdrant.Query.Nearest(vector, using=using),
            filter=chosen,
            with_payload=False,
            params=qdrant.SearchParams(exact=True),
        )
        with self._failures():
            return self._shard.query(request)

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except (ArtifactError, UsageError):
            raise
        except Exception as error:  # The engine raises plain ``Exception``.
            raise ArtifactError(f"{self.place} can't be read: {error}", remedy=REMEDY) from error


def _loaded(storage: Path, layout: Layout, dense: Mapping[str, DenseVector], folder: Path) -> Any:
    """Create a shard in ``folder`` with the points of a local-mode database."""
    qdrant = edge()
    folder.mkdir()
    vectors = {
        name: qdrant.EdgeVectorParams(
            size=dense[name].size,
            distance=getattr(qdrant.Distance, dense[name].distance),
            multivector_config=qdrant.MultiVectorConfig(qdrant.MultiVectorComparator.MaxSim)
            if dense[name].several
            else None,
        )
        for name in (layout.dense, layout.tokens)
        if name is not None
    }
    sparse = {layout.sparse or "": qdrant.EdgeSparseVectorParams(modifier=qdrant.Modifier.Idf)}
    shard = qdrant.EdgeShard.create(
        str(folder),
        qdrant.EdgeConfig(
            vectors=vectors,
            sparse_vectors={} if layout.sparse is None else sparse,
            wal_enabled=False,
        ),
    )
    with contextlib.closing(sqlite3.connect(storage)) as database:
        database.execute("PRAGMA trusted_schema = OFF")
        for (content,) in database.execute("SELECT point FROM points ORDER BY rowid"):
            point = read_pickled(content, _RECORDS)
            stored = stored_vectors(point["vector"], layout)
            kept: dict[str, Any] = {}
            if stored.dense is not None:
                kept[layout.dense] = stored.dense.tolist()
            if stored.tokens is not None and layout.tokens is not None:
                kept[layout.tokens] = stored.tokens.tolist()
            if stored.sparse is not None and layout.sparse is not None:
                kept[layout.sparse] = qdrant.SparseVector(
                    indices=stored.sparse.indices, values=stored.sparse.values
                )
            made = qdrant.Point(id=point["id"], vector=kept, payload=point["payload"] or {})
            shard.update(qdrant.UpdateOperation.upsert_points([made]))
    shard.flush()
    return shard


def _missing(place: str, name: str, names: Sequence[str]) -> ArtifactError:
    return ArtifactError(f"there is no {place.removeprefix('the ')}{or_else(name, names)}", remedy=REMEDY)


def _in_order(points: Sequence[Any], keys: Sequence[str], layout: Layout) -> list[StoredVectors]:
    found = {str(point.id): stored_vectors(point.vector, layout) for point in points}
    return [found.get(key, StoredVectors(None, None)) for key in keys]


def _ranked(points: Sequence[Any], distance: bool = False) -> list[Scored]:
    sign = -1 if distance else 1
    found = [Scored(str(point.id), sign * float(point.score)) for point in points]
    return sorted(found, key=lambda entry: (-entry.score, entry.key))
