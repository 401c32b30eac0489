"""The SQLite search file of an index: its chunks with FTS5, and the index's own vectors.

1. The file lies in the index's generation, so it is of the same chunks and model. It is made when it is
   first asked for, and made again when it is damaged.
2. Where the index can't be written, a temporary file serves until the search is closed.
3. Queries are embedded only when ``branchrank.toml`` has an ``[embedding]`` section.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import numpy as np

from branchrank.embedders import Embedder
from branchrank.errors import ArtifactError, StorageError, UsageError
from branchrank.index import Index
from branchrank.settings import EmbeddingSettings
from branchrank.stores.sqlite_file import build_sqlite
from branchrank.stores.sqlite_search import SqliteSearch

PLACE = Path("derived", "search.sqlite")


def open_search(index: Index, settings: EmbeddingSettings) -> SqliteSearch:
    """The search over an index's chunks. Close it.

    Raises :class:`UsageError` when ``[embedding]`` names another model than the index's.
    """
    embedder = section_embedder(index, settings)
    path = index.directory / PLACE
    with contextlib.suppress(ArtifactError):
        search = SqliteSearch(path, embedder=embedder)
        if search.file.header.embedder is not None:
            return search
        search.close()
    with contextlib.ExitStack() as temporary:
        try:
            _build(index, path)
        except StorageError:
            folder = temporary.enter_context(tempfile.TemporaryDirectory(prefix="branchrank-"))
            path = Path(folder) / PLACE.name
            _build(index, path)
        # An open file stays readable after its folder is gone.
        return SqliteSearch(path, embedder=embedder)


def section_embedder(index: Index, settings: EmbeddingSettings) -> Embedder | None:
    """The embedder of queries: the index's own when ``[embedding]`` names it, ``None`` without a section."""
    if not settings.model:
        return None
    if settings.model != index.settings.embedder:
        raise UsageError(
            f"[embedding] names {settings.model!r}, the index was embedded with {index.settings.embedder!r}",
            remedy=f'write model = "{index.settings.embedder}", or index with --embedder {settings.model}',
        )
    return index.embedder


def _build(index: Index, path: Path) -> None:
    store = index.exact_vectors
    build_sqlite(
        path,
        list(index.chunks.values()),
        corpus_digest=index.manifest.corpus_digest,
        vectors=np.stack([store.vector(key) for key in index.chunks]),
        embedder=index.manifest.embedder,
    )
