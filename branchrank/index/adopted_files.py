"""Read chunks, a Chroma collection and nodes from a folder that another program wrote.

1. ``chunks.jsonl`` has one JSON object per line. A chunk's text is in ``text``, ``page_content``,
   ``content`` or ``document``. The path of a chunk's document is in ``file_path``, ``path`` or ``source``. A
   chunk's line numbers are in ``line_start`` and ``line_end`` or in ``start_line`` and ``end_line``, and may
   be missing. Each field may be at the top level of the object or in its ``metadata``.
2. If there is no ``chunks.jsonl``, each record of the Chroma collection is a chunk.
3. A chunk's vector is taken from the Chroma record with the same id or, if there is no such record, from the
   record with the same text.
4. Symbolic links are not followed. A file or line that is too long is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from branchrank.corpus.placing import Passage, opened_up, passage_of, string_of
from branchrank.errors import InputError
from branchrank.io.files import NOT_JSON, open_beneath

if TYPE_CHECKING:
    from branchrank.stores.chroma_reading import ChromaRecords

CHUNKS = "chunks.jsonl"
CHROMA = "chroma"
NODES = "pageindex/nodes.jsonl"
#: The maximum sizes of a file and a line, in bytes.
MOST_BYTES = 4 << 30
MOST_LINE_BYTES = 16 << 20


class FoundChunk(NamedTuple):
    """A chunk that was read from the other program's folder.

    ``row`` is the row of the chunk's vector in the Chroma collection, or ``None`` if the collection has no
    vector for the chunk.
    """

    id: str
    passage: Passage
    node_id: str
    breadcrumb: str
    row: int | None


class Found(NamedTuple):
    """The chunks in another program's folder, and the records in the folder's Chroma collection, if any."""

    chunks: list[FoundChunk]
    records: ChromaRecords | None


def read_found(folder: Path, collection: str, *, remedy: str) -> Found:
    """Read the chunks in ``folder`` and their vectors.

    Raises :class:`InputError` with the file and line if a chunk can't be read. Also raises the errors of
    :func:`~branchrank.stores.chroma_reading.read_chroma`.
    """
    from branchrank.stores.chroma_reading import read_chroma

    has_chunks, has_chroma = (folder / CHUNKS).exists(), (folder / CHROMA).exists()
    if not has_chunks and not has_chroma:
        raise InputError(f"{folder} has neither {CHUNKS} nor {CHROMA}/", remedy=remedy)
    records = read_chroma(folder / CHROMA, collection, remedy=remedy) if has_chroma else None
    if has_chunks:
        objects = [fields for _, fields in json_objects(folder, CHUNKS, remedy=remedy)]
    else:
        assert records is not None
        rows = zip(records.ids, records.documents, records.metadatas, strict=True)
        objects = [{**metadata, "id": key, "text": document} for key, document, metadata in rows]
    return Found(_chunks(objects, records, folder, remedy), records)


def json_objects(folder: Path, name: str, *, remedy: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """For each line of a JSON Lines file below ``folder``, yield the line number and the object.

    Fields inside ``metadata`` are moved to the top level of the object. Raises :class:`InputError` with the
    line number if a line is not a JSON object or is too long.
    """
    decoder = msgspec.json.Decoder(dict[str, Any])
    path, number, done = folder / name, 0, 0
    try:
        with open_beneath(folder, name) as stream:
            while line := stream.readline(MOST_LINE_BYTES + 1):
                number, done = number + 1, done + len(line)
                if len(line) > MOST_LINE_BYTES or done > MOST_BYTES:
                    raise InputError(f"{path}:{number}: the line or the file is too long", remedy=remedy)
                if not line.strip():
                    continue
                try:
                    fields = decoder.decode(line)
                except NOT_JSON as error:
                    raise InputError(f"{path}:{number}: {error}", remedy=remedy) from None
                yield number, opened_up(fields)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}", remedy=remedy) from error


def _chunks(
    objects: Sequence[Mapping[str, Any]], records: ChromaRecords | None, folder: Path, remedy: str
) -> list[FoundChunk]:
    row_of = {key: row for row, key in enumerate(records.ids)} if records else {}
    of_document = {text: row for row, text in enumerate(records.documents)} if records else {}
    seen: set[str] = set()
    chunks = []
    for number, fields in enumerate(objects, start=1):
        passage = passage_of(fields)
        key = _identifier(fields) or f"{(*passage.paths, 'chunk')[0]}@{number}"
        if key in seen:
            raise InputError(f"{folder}: chunk {number}: the id {key!r} occurs twice", remedy=remedy)
        seen.add(key)
        row = row_of.get(key, of_document.get(passage.text))
        node_id, breadcrumb = string_of(fields, "node_id"), string_of(fields, "breadcrumb")
        chunks.append(FoundChunk(key, passage, node_id, breadcrumb, row))
    return chunks


def _identifier(fields: Mapping[str, Any]) -> str:
    given = (fields.get(name) for name in ("id", "chunk_id"))
    return next((str(value) for value in given if isinstance(value, str | int) and value != ""), "")
