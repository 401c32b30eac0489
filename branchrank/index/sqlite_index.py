"""The FTS5 file of an index, made from its chunks on first use.

1. The file is in the index's generation, so it has the same chunks. It is rebuilt when it is damaged or was
   written by an earlier version.
2. If the index's folder is not writable, a temporary file is used until the search is closed.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from branchrank.errors import ArtifactError, StorageError
from branchrank.index.reader import Index
from branchrank.stores.sqlite_file import build_sqlite
from branchrank.stores.sqlite_fts5 import Fts5Table

PLACE = Path("derived", "search.sqlite")


def open_fts5(index: Index) -> Fts5Table:
    """The keyword search over an index's chunks. Close it."""
    path = index.directory / PLACE
    with contextlib.suppress(ArtifactError):
        return Fts5Table(path, index.root)
    with contextlib.ExitStack() as temporary:
        root = index.root
        try:
            _build(index, path, root)
        except StorageError:
            root = Path(temporary.enter_context(tempfile.TemporaryDirectory(prefix="branchrank-")))
            path = root / PLACE.name
            _build(index, path, root)
        # An open file stays readable after its folder is gone.
        return Fts5Table(path, root)


def _build(index: Index, path: Path, root: Path) -> None:
    chunks = list(index.chunks.values())
    build_sqlite(path, chunks, corpus_digest=index.manifest.corpus_digest, root=root)
