"""Read chunks, vectors and nodes that the user or another program wrote.

1. If ``branchrank.toml`` specifies paths (``chunks = ...``, ``nodes = ...``), the user's own files replace
   the chunks and nodes computed by a build. Each chunk must have the keys ``id``, ``source``, ``line_start``,
   ``line_end`` and ``text``, and its lines must exist in a document of the corpus.
2. In another program's ``chunks.jsonl``, a chunk's text is in ``text``, ``page_content``, ``content`` or
   ``document``. The path of a chunk's document is in ``file_path``, ``path`` or ``source``. A chunk's line
   numbers are in ``line_start`` and ``line_end`` or in ``start_line`` and ``end_line``, and may be missing.
   Each field may be at the top level of the object or in its ``metadata``. If there is no ``chunks.jsonl``,
   each record of the Chroma collection is a chunk.
3. A chunk's vector is taken from the Chroma record with the same id or, if there is no such record, from the
   record with the same text. Vectors are returned as they are stored. Chroma changes a database's files when
   it opens the database, so the folder is first copied to a temporary folder.
4. Symbolic links in another program's folder are not followed. A file, line or folder that is too large is an
   error.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from branchrank.core.errors import ArtifactError, InputError, UsageError, or_else
from branchrank.core.io.files import copy_folder, reading_errors
from branchrank.core.io.text_files import read_jsonl
from branchrank.core.records import Chunk, Passage
from branchrank.documents.loading import Corpus
from branchrank.documents.locating import Locator
from branchrank.documents.tree_build import load_nodes
from branchrank.documents.tree_nodes import Tree, check_nodes
from branchrank.index.embedders.protocol import Vectors
from branchrank.index.generations import CHROMA, CHUNKS

_PATHS = ("file_path", "path", "source")
_TEXTS = ("text", "page_content", "content", "document")
#: The maximum sizes of a file and a line, in bytes.
MOST_BYTES = 4 << 30
MOST_LINE_BYTES = 16 << 20


def opened_up(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an object and of its ``metadata``. The object's own fields take precedence."""
    metadata = fields.get("metadata")
    return {**(metadata if isinstance(metadata, Mapping) else {}), **fields}


def passage_of(fields: Mapping[str, Any], locator: Locator) -> Passage:
    """Read a passage from an object with the field names of common text splitters.

    Its source is the first document of the locator that a path means.
    """
    first, last = (
        next((value for name in names if isinstance(value := fields.get(name), int)), None)
        for names in (("line_start", "start_line"), ("line_end", "end_line"))
    )
    return Passage(
        text=next((text for name in _TEXTS if (text := string_of(fields, name))), ""),
        source=next(filter(None, map(locator.source_of, _paths(fields))), None),
        line_start=first,
        line_end=last,
    )


def string_of(fields: Mapping[str, Any], name: str) -> str:
    """Return the value of the ``name`` field, or an empty string if it is missing or not a string."""
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def _paths(fields: Mapping[str, Any]) -> Iterator[str]:
    return filter(None, (string_of(fields, name) for name in _PATHS))


class ChromaRecords(NamedTuple):
    """All records of one collection. ``vectors`` has the shape ``(number of records, dimension)``."""

    collection: str
    ids: list[str]
    vectors: Vectors
    documents: list[str]
    metadatas: list[dict[str, Any]]


def read_found(
    folder: Path, collection: str, *, remedy: str
) -> tuple[dict[str, dict[str, Any]], ChromaRecords | None]:
    """Return the chunks in ``folder`` by id, as JSON objects, and the folder's Chroma records, if any.

    Raises :class:`InputError` with the file and line if a chunk can't be read. Also raises the errors of
    :func:`read_chroma`.
    """
    has_chunks, has_chroma = (folder / CHUNKS).exists(), (folder / CHROMA).exists()
    if not has_chunks and not has_chroma:
        raise InputError(f"{folder} has neither {CHUNKS} nor {CHROMA}/", remedy=remedy)
    records = read_chroma(folder / CHROMA, collection, remedy=remedy) if has_chroma else None
    if has_chunks or records is None:
        objects = list(json_objects(folder, CHUNKS, remedy=remedy))
    else:
        rows = zip(records.ids, records.documents, records.metadatas, strict=True)
        objects = [{**metadata, "id": key, "text": document} for key, document, metadata in rows]
    found: dict[str, dict[str, Any]] = {}
    for number, fields in enumerate(objects, start=1):
        ids = (str(each) for name in ("id", "chunk_id") if isinstance(each := fields.get(name), str | int))
        key = next(filter(None, ids), f"{next(_paths(fields), 'chunk')}@{number}")
        if key in found:
            raise InputError(f"{folder}: chunk {number}: the id {key!r} occurs twice", remedy=remedy)
        found[key] = fields
    return found, records


def json_objects(folder: Path, name: str, *, remedy: str) -> Iterator[dict[str, Any]]:
    """Return an iterator over the objects in a JSON Lines file below ``folder``.

    Fields inside ``metadata`` are moved to the top level of the object. Raises :class:`InputError` if the
    file is too large, and with the line number if a line is not a JSON object or is too long.
    """
    path = folder / name
    with reading_errors(path, remedy=remedy):
        if path.lstat().st_size > MOST_BYTES:
            raise InputError(f"{path} is larger than {MOST_BYTES} bytes", remedy=remedy)
    objects = read_jsonl(path, dict[str, Any], remedy=remedy, root=folder, most_line_bytes=MOST_LINE_BYTES)
    return map(opened_up, objects)


def read_chroma(folder: Path, collection: str = "", *, remedy: str) -> ChromaRecords:
    """Return all records from one collection in the Chroma database in ``folder``.

    If ``collection`` is an empty string, the records of the database's only collection are returned. Raises
    :class:`UsageError` if the collection does not exist. Raises :class:`UsageError` if ``collection`` is
    empty and the database does not have exactly one collection. Raises :class:`ArtifactError` with ``remedy``
    if the database can't be read.
    """
    from branchrank.index.stores.chroma import connected
    from branchrank.index.stores.chroma_checks import DATABASE

    with tempfile.TemporaryDirectory(prefix="branchrank-") as temporary:
        copy = Path(temporary) / "chroma"
        copy_folder(folder, copy, remedy=remedy)
        if not (copy / DATABASE).is_file():
            raise ArtifactError(f"{folder} is not a Chroma database: it has no chroma.sqlite3", remedy=remedy)
        try:
            with connected(copy) as client:
                name = _named(client, collection, folder)
                found = client.get_collection(name, embedding_function=None)
                stored = found.get(include=["embeddings", "documents", "metadatas"])
                count = found.count()
        except ArtifactError as error:
            message = error.message.replace(str(copy), str(folder))
            raise ArtifactError(message, remedy=remedy) from error
    if not count or len(set(stored["ids"])) != count:
        raise ArtifactError(
            f"the collection {name!r} in {folder} should contain {count} records, "
            f"but {len(set(stored['ids']))} records can be read",
            remedy=remedy,
        )
    return ChromaRecords(
        name,
        stored["ids"],
        np.asarray(stored["embeddings"], dtype=np.float32),
        [text or "" for text in stored["documents"]],
        [dict(each or {}) for each in stored["metadatas"]],
    )


def _named(client: Any, collection: str, folder: Path) -> str:
    names = sorted(each.name for each in client.list_collections())
    if collection in names:
        return collection
    if collection:
        raise UsageError(
            f"{folder} has no collection {collection!r}{or_else(collection, names)}",
            remedy="correct --collection",
        )
    if len(names) != 1:
        raise UsageError(
            f"{folder} has {len(names)} collections: {', '.join(names) or 'none'}",
            remedy="choose one with --collection" if names else f"move the folder {folder} away",
        )
    return str(names[0])


class GivenChunk(Chunk, frozen=True, kw_only=True):
    """A chunk that the user or another program wrote."""

    node_id: str = ""
    breadcrumb: str = ""

    def completed(self, tree: Tree) -> Chunk:
        """Return the chunk with the sections on its lines, and with their first breadcrumb if it has none.

        A ``node_id`` of the tree is kept.
        """
        fields = msgspec.structs.asdict(self)
        found = tree.overlapping(self.span)
        if not self.breadcrumb:
            nodes = [*found, tree.file_node(self.source)]
            fields["breadcrumb"] = nodes[0].breadcrumb if nodes[0] else ""
        spans = {node.id: node.own_span for node in sorted(found, key=lambda node: node.line_start or 0)}
        if spans and self.node_id not in tree.nodes:
            fields["node_id"] = max(spans, key=lambda each: self.span.overlap(spans[each] or self.span))
        fields["node_ids"] = tuple(spans) if len(spans) > 1 else ()
        return Chunk(**fields)


def given_nodes(path: Path, corpus: Corpus) -> Tree:
    """Read the tree in the user's nodes file ``path``.

    Raises :class:`InputError` if the file does not contain a tree of ``corpus``.
    """
    try:
        tree = load_nodes(path)
    except ArtifactError as error:
        raise InputError(error.message, remedy=f"correct {path}") from error
    line_counts = {document.source: document.line_count for document in corpus.documents}
    problems = check_nodes(list(tree.nodes.values()), line_counts)
    if not problems:
        problems = [
            f"the tree lacks the document {source}" for source in line_counts if not tree.file_node(source)
        ]
    if problems:
        raise InputError(
            f"{path} is not a tree of the corpus {corpus.root}: {problems[0]}",
            remedy=f"correct {path}, or remove it from branchrank.toml",
        )
    return tree


def given_chunks(path: Path, corpus: Corpus, tree: Tree) -> list[Chunk]:
    """Read the chunks in the user's chunks file ``path``, in file order.

    Raises :class:`InputError` if a chunk is invalid.
    """
    line_counts = {document.source: document.line_count for document in corpus.documents}
    seen: set[str] = set()
    chunks = []
    remedy = f"correct {path}, or remove it from branchrank.toml"
    for number, given in enumerate(read_jsonl(path, GivenChunk, remedy=remedy), start=1):
        problem = ""
        if given.id in seen:
            problem = f"the id {given.id!r} occurs twice"
        elif given.source not in line_counts:
            problem = f"{given.source!r} is not a document of the corpus {corpus.root}"
        elif not 1 <= given.line_start <= given.line_end <= line_counts[given.source]:
            problem = (
                f"it has lines {given.line_start}-{given.line_end} of {given.source!r}, "
                f"but this document has {line_counts[given.source]} lines"
            )
        elif not given.text.strip():
            problem = f"the chunk {given.id!r} has no text"
        if problem:
            raise InputError(f"{path}: chunk {number}: {problem}", remedy=remedy)
        seen.add(given.id)
        chunks.append(given.completed(tree))
    return chunks
