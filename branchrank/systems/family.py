"""The searches of the branch kinds beyond vectors and BM25: grep, FTS5 and Qdrant, over one index.

Each is opened when it is first asked, so that a kind no system names costs nothing.

- ``grep`` searches the corpus's files as they are.
- ``fts5`` searches a SQLite file beside the index; one that is missing or damaged is built.
- ``qdrant-dense`` and ``qdrant-sparse`` search a collection made from the index's checked vectors: in a
  temporary folder for the life of this object (about 0.1 ms a chunk), or on a server, where it is named
  after its content and made once.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType

import numpy as np

from branchrank.artifacts import digest_of
from branchrank.errors import ArtifactError, StorageError, UsageError
from branchrank.records import Scored
from branchrank.settings import EmbeddingSettings, GrepSettings, QdrantSettings, Resolved
from branchrank.stores.embedders import Embedder
from branchrank.stores.embedders.protocol import Vectors
from branchrank.stores.index import Index
from branchrank.stores.qdrant_hybrid import chunk_points
from branchrank.stores.qdrant_points import Bm25Encoder, Point, QdrantCollection
from branchrank.stores.sqlite_file import build_sqlite
from branchrank.stores.sqlite_search import SqliteSearch
from branchrank.systems.tools import SearchTools

BranchSearch = Callable[[str, int], Sequence[Scored]]
SEARCH_FILE = "search.sqlite"


class FamilySources:
    """Searches by branch kind. Close it, or use it as a context manager."""

    def __init__(
        self,
        index: Index,
        root: Path,
        settings: Resolved,
        *,
        embed: Callable[[str], Vectors] | None = None,
    ) -> None:
        """``root`` is the corpus's folder; ``embed`` embeds a query, by default with the index's model."""
        self._index = index
        self._root = root
        self._settings = settings
        self._embed = embed or (lambda query: index.embedder.embed_query(query))
        self._encoder = Bm25Encoder()
        self._cleanup = contextlib.ExitStack()
        self._lock = threading.RLock()

    def __enter__(self) -> FamilySources:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def searches(self) -> dict[str, BranchSearch]:
        """Each branch kind's search: a query and a depth give ranked chunk ids."""
        return {
            "grep": lambda query, n: self.tools.grep_chunks(query, n),
            "fts5": lambda query, n: self._keyword.keyword(query, n),
            "qdrant-dense": lambda query, n: self.qdrant.dense(self._embed(query), n),
            "qdrant-sparse": lambda query, n: self.qdrant.sparse(self._encoder.query(query), n),
        }

    @property
    def tools(self) -> SearchTools:
        """The search tools over the index."""
        with self._lock:
            return self._tools

    @property
    def qdrant(self) -> QdrantCollection:
        """The collection of the index's chunks."""
        with self._lock:
            return self._qdrant

    @property
    def search_file(self) -> Path:
        """The SQLite file of the index's chunks and vectors; built when it is missing or damaged."""
        with self._lock:
            return self._search_file

    def search_embedder(self) -> Embedder | None:
        """The embedder for searches of the SQLite file; ``None`` without an ``[embedding]`` section.

        Raises :class:`UsageError` when the section names another model than the index's.
        """
        model = self._settings.part(EmbeddingSettings).model
        if model and model != self._index.settings.embedder:
            raise UsageError(
                f"[embedding] names {model!r}, the index was embedded with {self._index.settings.embedder!r}",
                remedy=f'write model = "{self._index.settings.embedder}", or index with --embedder {model}',
            )
        return self._index.embedder if model else None

    def close(self) -> None:
        """Close what was opened and delete what was temporary."""
        self._cleanup.close()

    @cached_property
    def _tools(self) -> SearchTools:
        return SearchTools(self._index, self._root, settings=self._settings.part(GrepSettings))

    @property
    def _keyword(self) -> SqliteSearch:
        with self._lock:
            return self._sqlite

    @cached_property
    def _sqlite(self) -> SqliteSearch:
        search = SqliteSearch(self._search_file)
        self._cleanup.callback(search.close)
        return search

    @cached_property
    def _search_file(self) -> Path:
        path = self._index.directory / SEARCH_FILE
        with contextlib.suppress(ArtifactError):
            SqliteSearch(path).close()
            return path
        try:
            self._build_file(path)
        except StorageError:
            # Read-only or full: this process works from a file of its own.
            path = self._temporary() / SEARCH_FILE
            self._build_file(path)
        return path

    def _build_file(self, path: Path) -> None:
        build_sqlite(
            path,
            list(self._index.chunks.values()),
            corpus_digest=self._index.manifest.corpus_digest,
            vectors=self._matrix(),
            embedder=self._index.manifest.embedder,
        )

    @cached_property
    def _qdrant(self) -> QdrantCollection:
        part = self._settings.part(QdrantSettings)
        collection = self._served(part) if part.url else self._embedded(part)
        self._cleanup.callback(collection.close)
        return collection

    def _embedded(self, part: QdrantSettings) -> QdrantCollection:
        from branchrank.stores.qdrant_embedded import EmbeddedCollection

        dimension = self._index.manifest.embedder.dimension
        made = EmbeddedCollection.create(
            self._temporary() / "qdrant", dimension, enable_hybrid=part.enable_hybrid
        )
        made.upsert(self._points())
        return made

    def _served(self, part: QdrantSettings) -> QdrantCollection:
        from branchrank.stores.qdrant_server import ServerCollection

        manifest = self._index.manifest
        name = f"branchrank-{digest_of([manifest.digests, manifest.embedder, part.enable_hybrid])[:32]}"
        with contextlib.suppress(ArtifactError):
            held = ServerCollection(part.url, name)
            if held.count() == len(self._index.chunks):
                return held
            held.close()
        dimension = manifest.embedder.dimension
        made = ServerCollection.create(part.url, name, dimension, enable_hybrid=part.enable_hybrid)
        made.upsert(self._points())
        if made.count() != len(self._index.chunks):
            made.close()
            raise ArtifactError(
                f"the Qdrant server {part.url} kept only a part of the {len(self._index.chunks)} chunks",
                remedy="look at the server's log and run the command again",
            )
        return made

    def _points(self) -> list[Point]:
        return chunk_points(list(self._index.chunks.values()), self._matrix())

    def _matrix(self) -> Vectors:
        """The chunks' unit rows, in their order."""
        store = self._index.exact_vectors
        return np.stack([store.vector(key) for key in self._index.chunks])

    def _temporary(self) -> Path:
        return Path(self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="branchrank-")))
