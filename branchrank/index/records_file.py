"""Records of an index, read one by one from its JSON Lines file, which is mapped into memory.

1. A second file, ``lookup/<name>.npy``, contains arrays that a build writes: the ids and sources
   (:class:`~branchrank.stores.strings.Strings`), the byte at which each line starts, and each record's lines.
2. A record is decoded when it is asked for; the latest ones are kept. Opening reads nothing, whatever the
   size.
"""

from __future__ import annotations

import mmap
from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from branchrank.artifacts import NOT_JSON, atomic_writer
from branchrank.errors import ArtifactError
from branchrank.records import Chunk, Node, Span
from branchrank.safe_open import open_beneath
from branchrank.stores.arrays import mapped_arrays, write_arrays
from branchrank.stores.strings import StringArrays, Strings

R = TypeVar("R", Chunk, Node)

LOOKUP = "lookup"
_REMEDY = "rebuild the index: branchrank index"
#: Decoded records that are kept, about 1.5 KB each.
_KEPT = 1 << 14
#: Rows whose bounds are read at once.
_BLOCK = 1 << 12


def lookup_of(name: str) -> str:
    """The file of arrays that belongs to a JSON Lines file of a generation."""
    return f"{LOOKUP}/{Path(name).stem}.npy"


class RecordsFile(Mapping[str, R], Generic[R]):
    """The records of a JSON Lines file by id, in the order of the file."""

    def __init__(self, directory: Path, name: str, record_type: type[R]) -> None:
        """Map the file ``name`` of a generation and its arrays. Raises :class:`ArtifactError`."""
        self.path: Path = directory / name
        opened = partial(open_beneath, directory)
        try:
            with opened(name) as stream:
                self._content: mmap.mmap = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
            starts, *rest = mapped_arrays(opened, lookup_of(name), 11)
            self._starts: NDArray[np.int64] = starts
            id_starts, source_starts, spans, by_span, *rest = rest
            id_order, id_ties, source_order, source_ties, id_text, source_text = rest
            self.ids = Strings(StringArrays(id_starts, id_order, id_ties, id_text))
            self.sources = Strings(StringArrays(source_starts, source_order, source_ties, source_text))
            count = len(self.ids)
            if spans.shape != (3, count) or by_span.shape != (count,) or starts.shape != (count + 1,):
                raise ValueError("the arrays do not fit together")
            if starts[-1] != len(self._content):
                raise ValueError(f"the lines are not where {lookup_of(name)} says")
        except (OSError, ValueError) as error:
            raise ArtifactError(f"cannot read {self.path}: {error}", remedy=_REMEDY) from error
        #: Of each row: the number of its source in :attr:`sources`, or -1; its first and last line.
        self.source_rows, self.line_starts, self.line_ends = spans
        self._by_span: NDArray[np.int32] = by_span
        self._decoder: msgspec.json.Decoder[R] = msgspec.json.Decoder(record_type)
        #: Decoded records by row. Not ``lru_cache``: it would keep the mapped files alive.
        self._kept: dict[int, R] = {}

    def at(self, row: int) -> R:
        """The record in a row."""
        record = self._kept.get(row)
        if record is None:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            record = self._kept[row] = self._decoded(
                self._content[self._starts[row] : self._starts[row + 1]], row
            )
        return record

    def _decoded(self, line: bytes, row: int) -> R:
        try:
            return self._decoder.decode(line)
        except NOT_JSON as error:
            raise ArtifactError(f"{self.path}:{row + 1}: {error}", remedy=_REMEDY) from None

    def __getitem__(self, key: str) -> R:
        return self.at(self.ids.row(key))

    def __contains__(self, key: object) -> bool:
        return key in self.ids

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def values(self) -> ValuesView[R]:
        """Every record, decoded one after the other; none is kept."""
        return _Records(self)

    def items(self) -> ItemsView[str, R]:
        """Every record with its id, decoded one after the other; none is kept."""
        return _Items(self)

    def stream(self, first: int = 0, end: int | None = None) -> Iterator[R]:
        """The records of rows ``first`` to ``end``, decoded one after the other; none is kept."""
        last = len(self) if end is None else end
        for start in range(first, last, _BLOCK):
            bounds = self._starts[start : min(start + _BLOCK, last) + 1].tolist()
            for row, (begin, stop) in enumerate(pairwise(bounds), start=start):
                yield self._decoded(self._content[begin:stop], row)

    def in_source(self, source: str) -> NDArray[np.int32]:
        """The rows of a source's records, sorted by first and last line."""
        number = self.sources.find(source)
        if number is None:
            return self._by_span[:0]
        first, last = np.searchsorted(self.source_rows, [number, number + 1], sorter=self._by_span)
        return self._by_span[first:last]

    def overlapping(self, span: Span) -> list[R]:
        """The records that share lines with a span, sorted by first and last line."""
        rows = self.in_source(span.source)
        shares = (self.line_starts[rows] <= span.line_end) & (self.line_ends[rows] >= span.line_start)
        return [self.at(row) for row in rows[shares].tolist()]


class _Records(ValuesView[R]):
    """The records in the order of the file."""

    _mapping: RecordsFile[R]

    def __iter__(self) -> Iterator[R]:
        return self._mapping.stream()


class _Items(ItemsView[str, R]):
    """The ids and records in the order of the file."""

    _mapping: RecordsFile[R]

    def __iter__(self) -> Iterator[tuple[str, R]]:
        return ((record.id, record) for record in self._mapping.stream())


class RecordLines(NamedTuple):
    """Encoded records: their lines, the size of each in bytes, and what :class:`RecordsFile` finds them by.

    ``places`` holds each record's source and its first and last own line, 0 for a node without lines.
    """

    content: bytes
    sizes: list[int]
    ids: list[str]
    places: list[tuple[str, int, int]]


def encoded(records: Iterable[R]) -> RecordLines:
    """Encode records as JSON Lines."""
    encoder = msgspec.json.Encoder()
    lines, ids, places = [], [], []
    for record in records:
        lines.append(encoder.encode(record) + b"\n")
        ids.append(record.id)
        last = record.line_end if isinstance(record, Chunk) else record.own_line_end
        places.append((record.source, record.line_start or 0, last or 0))
    return RecordLines(b"".join(lines), list(map(len, lines)), ids, places)


def write_records(directory: Path, name: str, parts: Iterable[RecordLines]) -> Strings:
    """Write parts of a JSON Lines file one after the other, then its arrays; return the ids.

    Raises :class:`~branchrank.errors.StorageError`.
    """
    sizes: list[NDArray[np.int64]] = [np.zeros(1, dtype=np.int64)]
    spans: list[NDArray[np.int32]] = [np.empty((3, 0), dtype=np.int32)]
    ids: list[str] = []
    numbers: dict[str, int] = {"": -1}
    with atomic_writer(directory / name) as stream:
        for part in parts:
            stream.write(part.content)
            sizes.append(np.array(part.sizes, dtype=np.int64))
            ids += part.ids
            rows = [(numbers.setdefault(source, len(numbers) - 1), a, b) for source, a, b in part.places]
            spans.append(np.array(rows, dtype=np.int32).reshape(-1, 3).T)
    table, sources = Strings.of(ids), Strings.of(list(numbers)[1:])
    span = np.concatenate(spans, axis=1)
    by_span = np.lexsort(span[::-1]).astype(np.int32)
    keys, names = table.arrays, sources.arrays
    with atomic_writer(directory / lookup_of(name)) as stream:
        write_arrays(
            stream,
            [
                *(np.cumsum(np.concatenate(sizes)), keys.starts, names.starts),
                *(span, by_span, keys.order, keys.ties, names.order, names.ties),
                *(keys.text, names.text),
            ],
        )
    return table
