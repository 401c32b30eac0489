"""Check what another program's Chroma database contains, before Chroma's compiled code uses it.

1. The database file may contain only stored values, so that reading it ends.
2. Chroma's compiled code trusts the dimension in the database and the sizes in the header of a search graph,
   and reads past a buffer if they are wrong. Both are compared with the files and with each other.
3. Embedding functions are never loaded: a collection that has one is refused.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from branchrank.core.errors import ArtifactError
from branchrank.core.io.files import read_beneath, safe_path
from branchrank.core.io.key_values import stored_values
from branchrank.index.stores.arrays import REBUILD

#: The directory of an embedded database, or the URL of a server.
Location = Path | str

#: The name of the file of an embedded database.
DATABASE = "chroma.sqlite3"
#: Chroma's configuration contains one of these values for a collection without an embedding function.
_NO_FUNCTION = ({"type": "legacy"}, {"type": "unknown"})
#: The virtual tables of the versions of Chroma.
_SEARCH_TABLES = (
    "CREATE VIRTUAL TABLE embedding_fulltext USING fts5(id, string_value)",
    "CREATE VIRTUAL TABLE embedding_fulltext_search USING fts5(string_value, tokenize='trigram')",
)
_COLLECTIONS = """SELECT name, dimension, segments.id, EXISTS (SELECT * FROM embeddings_queue
    WHERE topic LIKE '%' || collections.id AND length(vector) != 4 * dimension)
    FROM collections LEFT JOIN segments ON collection = collections.id AND scope = 'VECTOR'"""
#: The first fields of hnswlib's header: the numbers of vectors for which there is space and of stored
#: vectors, the bytes of a vector with its links, and where its number and its values begin in these bytes.
_HEADER = struct.Struct("<12x5Q")
#: The memory for new vectors that a graph may request, in bytes, beside four times its size.
_SPACE = 1 << 26


def check_files(folder: Path) -> None:
    """Check the database in ``folder`` and the search graphs of its collections.

    Raises :class:`ArtifactError`, or the errors of
    :func:`~branchrank.core.io.key_values.stored_values`, if Chroma can't use the files safely.
    """
    with stored_values(folder / DATABASE, _SEARCH_TABLES) as database:
        found = database.execute(_COLLECTIONS).fetchall()
    for name, dimension, segment, others in found:
        graph = Path(str(segment))
        with contextlib.suppress(FileNotFoundError):  # there is no graph if all vectors are in the database
            others = others or not _fits(folder, graph, dimension)
        if others:
            raise ArtifactError(
                f"the collection {name!r} in {folder} has vectors that do not have its dimension {dimension}",
                remedy=REBUILD,
            )


def _fits(folder: Path, graph: Path, dimension: int) -> bool:
    """Return whether the sizes in the header of a search graph are those of its vectors and files."""
    most, count, each, label, values = _HEADER.unpack_from(read_beneath(folder, f"{graph}/header.bin"))
    size = safe_path(folder, f"{graph}/data_level0.bin").stat().st_size
    own = (label - values, each) == (4 * (dimension or -1), label + 8)
    return own and count * each <= size and most * each <= 4 * size + _SPACE


def refuse_foreign(collection: Any, location: Location) -> None:
    """Raise :class:`ArtifactError` if a collection has an embedding function or an unsupported metric."""
    model = collection.get_model()
    configuration = model.configuration_json or {}
    for name in _embedding_functions([configuration, model.get_serialized_schema()]):
        raise ArtifactError(
            f"the Chroma collection {collection.name!r} at {location} has an embedding function "
            f"({name!r}), and embedding functions are never loaded",
            remedy=REBUILD,
        )
    space = (configuration.get("hnsw") or {}).get("space")
    if space not in ("l2", "cosine"):
        raise ArtifactError(
            f"the Chroma collection {collection.name!r} at {location} has the metric {space!r}, not 'l2'",
            remedy=REBUILD,
        )


def _embedding_functions(tree: Any) -> Iterator[str]:
    """Yield the names of all embedding functions in a collection's configuration."""
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
