"""Read an index's records one by one from a JSON Lines file that is mapped into memory.

1. For each JSON Lines file, a build also writes the lookup file ``lookup/<name>.arrays``
   (:mod:`branchrank.index.stores.arrays`) with the ids and sources, the byte offset of each line, each
   record's line numbers and, for nodes, their parents and children.
2. A record is decoded when it is first used, and then cached. The time to open a JSON Lines file does not
   depend on the file's size.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from branchrank.core.errors import ArtifactError
from branchrank.core.io.files import NOT_JSON, atomic_writer, open_file
from branchrank.core.records import Chunk, Node, Span
from branchrank.documents.tree_nodes import Tree, TreeRows
from branchrank.index.stores.arrays import REBUILD, Kept, Strings, map_arrays, write_arrays

R = TypeVar("R", Chunk, Node)

#: The maximum number of decoded records in the cache (about 1.5 KB each).
_KEPT = 1 << 14
#: The number of records whose byte offsets are read at once.
_BLOCK = 1 << 12


def lookup_of(name: str) -> str:
    """Return the name of the lookup file for a JSON Lines file."""
    return f"lookup/{Path(name).stem}.arrays"


class RecordsFile(Mapping[str, R], Generic[R]):
    """A mapping from ids to the records in a JSON Lines file, in file order."""

    def __init__(self, directory: Path, name: str, record_type: type[R]) -> None:
        """Map the file ``name`` and its lookup file into memory.

        Raises :class:`ArtifactError` if one of the files is missing or damaged.
        """
        self.path: Path = directory / name
        self.arrays = arrays = map_arrays(directory / lookup_of(name))
        try:
            with open_file(self.path) as stream:
                self._content: mmap.mmap = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
            self.ids = Strings.named(arrays, "ids")
            self.sources = Strings.named(arrays, "sources")
            self._starts: NDArray[np.int64] = arrays["starts"]
            self._by_span: NDArray[np.int32] = arrays["by_span"]
            spans, count = arrays["spans"], len(self.ids)
            sizes = spans.shape, self._by_span.shape, self._starts.shape
            if sizes != ((3, count), (count,), (count + 1,)) or self._starts[-1] != len(self._content):
                raise ValueError(f"its size does not match {lookup_of(name)}: {sizes}")
        except (OSError, ValueError, KeyError) as error:
            raise ArtifactError(f"cannot read {self.path}: {error}", remedy=REBUILD) from error
        #: Arrays with each record's source (a row of :attr:`sources`, or -1), first line and last line.
        self.source_rows, self.line_starts, self.line_ends = spans
        self._decoder: msgspec.json.Decoder[R] = msgspec.json.Decoder(record_type)
        #: Cached records by row. An ``lru_cache`` would prevent the mapped files from being freed.
        self._kept: Kept[int, R] = Kept(_KEPT)

    @property
    def ties(self) -> NDArray[np.int32]:
        """For each record, the position of its id in the sorted list of ids."""
        return self.ids.ties

    @property
    def mapping(self) -> Mapping[str, R]:
        """The mapping from ids to records, which is this :class:`RecordsFile` itself."""
        return self

    def row(self, key: str) -> int:
        """Return the row number of the record with the id ``key``. Raises ``KeyError`` for an unknown id."""
        return self.ids.row(key)

    def span(self, row: int) -> Span:
        """Return the source and lines of the record in row ``row``, without decoding the record."""
        source = self.sources[int(self.source_rows[row])]
        return Span(source=source, line_start=int(self.line_starts[row]), line_end=int(self.line_ends[row]))

    @property
    def has_lines(self) -> NDArray[np.bool_]:
        """A Boolean array that is true for chunks, and for nodes with lines outside their subsections."""
        found: NDArray[np.bool_] = (self.line_starts > 0) & (self.line_ends >= self.line_starts)
        return found

    def at(self, row: int) -> R:
        """Return the record in row ``row``."""
        record = self._kept.get(row)
        if record is None:
            line = self._content[self._starts[row] : self._starts[row + 1]]
            record = self._kept.keep(row, self._decoded(line, row))
        return record

    def _decoded(self, line: bytes, row: int) -> R:
        try:
            return self._decoder.decode(line)
        except NOT_JSON as error:
            raise ArtifactError(f"{self.path}:{row + 1}: {error}", remedy=REBUILD) from None

    def __getitem__(self, key: str) -> R:
        return self.at(self.ids.row(key))

    def __contains__(self, key: object) -> bool:
        return key in self.ids

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def stream(self) -> Iterator[R]:
        """Yield all records, without caching them, and then free the memory of the pages that were read."""
        try:
            for start in range(0, len(self), _BLOCK):
                bounds = self._starts[start : start + _BLOCK + 1].tolist()
                for row, (begin, stop) in enumerate(pairwise(bounds), start=start):
                    yield self._decoded(self._content[begin:stop], row)
        finally:
            self._content.madvise(mmap.MADV_DONTNEED)

    def in_source(self, source: str) -> NDArray[np.int32]:
        """Return the row numbers of a source's records, sorted by first line and then by last line."""
        number = self.sources.find(source)
        if number is None:
            return self._by_span[:0]
        first, last = np.searchsorted(self.source_rows, [number, number + 1], sorter=self._by_span)
        return self._by_span[first:last]

    def of_sources(self, sources: Iterable[str]) -> Iterator[R]:
        """Yield all records that belong to the given sources."""
        return (self.at(row) for source in sources for row in self.in_source(source).tolist())

    def overlapping(self, span: Span) -> list[R]:
        """Return the records that share lines with a span, sorted by first line and then by last line."""
        rows = self.in_source(span.source)
        shares = (self.line_starts[rows] <= span.line_end) & (self.line_ends[rows] >= span.line_start)
        return [self.at(row) for row in rows[shares].tolist()]


def open_tree(nodes: RecordsFile[Node]) -> Tree:
    """Return the tree of an index's nodes. Raises :class:`ArtifactError` if the lookup file is damaged."""
    try:
        links = TreeRows(*(nodes.arrays[f"tree.{field}"] for field in TreeRows._fields))
        shapes = [array.shape for array in links]
        if shapes != [(len(nodes),)] * 5 + [(len(nodes) + 1,)]:
            raise ValueError(f"its arrays do not have the shapes for {len(nodes)} nodes: {shapes}")
    except (KeyError, ValueError) as error:
        raise ArtifactError(f"cannot read the tree of {nodes.path}: {error}", remedy=REBUILD) from error
    return Tree.opened(nodes, links)


class RecordLines(NamedTuple):
    """Encoded records, with the arrays from which the lookup file is made.

    ``content`` contains the joined lines, and ``sizes`` contains the size of each line in bytes. ``spans``
    has the shape ``(4, n)``. The first row of ``spans`` contains the position of each record's source in
    ``sources`` (-1 for a record without a source). The second and third rows contain each record's first and
    last line (0 for a record without lines). The last row contains the depths of nodes (0 for chunks).
    """

    content: bytes
    sizes: list[int]
    ids: list[str]
    sources: list[str]
    spans: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.sizes)


def encoded(records: Iterable[R]) -> RecordLines:
    """Encode records as JSON Lines."""
    encoder = msgspec.json.Encoder()
    lines: list[bytes] = []
    ids, spans = [], []
    sources = {"": -1}
    for record in records:
        lines.append(encoder.encode(record) + b"\n")
        ids.append(record.id)
        number = sources.setdefault(record.source, len(sources) - 1)
        last = record.line_end if isinstance(record, Chunk) else record.own_line_end
        depth = 0 if isinstance(record, Chunk) else record.depth
        spans.append((number, record.line_start or 0, last or 0, depth))
    columns = np.array(spans, dtype=np.int32).reshape(-1, 4).T
    return RecordLines(b"".join(lines), [*map(len, lines)], ids, list(sources)[1:], columns)


def write_records(directory: Path, name: str, parts: Iterable[RecordLines], *, tree: bool = False) -> None:
    """Write ``parts`` to a JSON Lines file, and write a lookup file with the arrays that locate each record.

    If ``tree`` is true, the records are nodes in pre-order, and the lookup file also locates their children.
    Raises :class:`~branchrank.core.errors.StorageError` if a file can't be written.
    """
    sizes: list[int] = [0]
    ids: list[str] = []
    spans: list[NDArray[np.int32]] = [np.empty((4, 0), dtype=np.int32)]
    numbers: dict[str, int] = {}
    with atomic_writer(directory / name) as stream:
        for part in parts:
            stream.write(part.content)
            sizes += part.sizes
            ids += part.ids
            places = [numbers.setdefault(source, len(numbers)) for source in part.sources]
            spans.append(np.array([np.array([*places, -1], dtype=np.int32)[part.spans[0]], *part.spans[1:]]))
    columns = np.concatenate(spans, axis=1)
    span, depths = np.ascontiguousarray(columns[:3]), columns[3]
    links = TreeRows.of(depths, span[0], span[1])._asdict() if tree else {}
    arrays = {
        "starts": np.cumsum(sizes, dtype=np.int64),
        "spans": span,
        "by_span": np.lexsort(span[::-1]).astype(np.int32),
        **{f"tree.{field}": array for field, array in links.items()},
    }
    strings = [*Strings.of(ids).to_write("ids"), *Strings.of(numbers).to_write("sources")]
    write_arrays(directory / lookup_of(name), [*arrays.items(), *strings])
