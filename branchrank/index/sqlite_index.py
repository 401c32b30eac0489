"""The SQLite FTS5 file for keyword search, which is built from an index's chunks on first use.

1. The file is stored in the index's generation, so it always matches the index's chunks. If the file is
   damaged or was written by an earlier version, it is rebuilt.
2. Only one process at a time writes the file. Temporary files that a killed process left behind are removed.
3. If the index's folder is not writable, the search uses a temporary file.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from branchrank.errors import ArtifactError, StorageError
from branchrank.index.reader import Index
from branchrank.io.files import only_writer_beneath, storage_errors
from branchrank.stores.sqlite_file import build_sqlite
from branchrank.stores.sqlite_fts5 import Fts5Table

PLACE = Path("derived", "search.sqlite")


def open_fts5(index: Index) -> Fts5Table:
    """Open the full-text table of an index's chunks. The caller must close the table."""
    path = index.directory / PLACE
    with contextlib.suppress(ArtifactError):
        return Fts5Table(path, index.root)
    try:
        with storage_errors(path), only_writer_beneath(index.root, _folder(index)):
            with contextlib.suppress(ArtifactError):  # another process may have written the file
                return Fts5Table(path, index.root)
            _build(index, path, index.root)
            return Fts5Table(path, index.root)
    except StorageError:
        with tempfile.TemporaryDirectory(prefix="branchrank-") as temporary:
            path = Path(temporary, PLACE.name)
            _build(index, path, path.parent)
            # The temporary file is deleted with its folder, but remains readable while it is open.
            return Fts5Table(path, path.parent)


def _folder(index: Index) -> str:
    return (index.directory / PLACE.parent).relative_to(index.root).as_posix()


def _build(index: Index, path: Path, root: Path) -> None:
    chunks = list(index.chunks.values())
    build_sqlite(path, chunks, corpus_digest=index.manifest.corpus_digest, root=root)
