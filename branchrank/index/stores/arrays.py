"""NumPy arrays and strings in one file that is mapped into memory, without pickle.

1. The file contains the arrays one after the other, each at a multiple of 64 bytes. A JSON object at the end
   of the file maps the name of each array to its number type, its shape and its position. The last 8 bytes
   contain the length of the JSON object. An array can therefore be written block by block.
2. Many strings are stored in four arrays (:class:`Strings`), which takes less memory than one Python object
   per string. The array ``text`` contains the UTF-8 bytes of all strings, one after the other. The array
   ``starts`` contains the offset of each string. The array ``order`` contains the row numbers sorted by
   string, so a string can be found by bisection. The array ``ties`` contains each row's position in
   ``order``, and is used to sort rows with equal scores by id.
"""

from __future__ import annotations

import math
import mmap
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from branchrank.core.errors import ArtifactError
from branchrank.core.io.files import NOT_JSON, atomic_writer, open_file

K = TypeVar("K")
V = TypeVar("V")
REBUILD = "rebuild the index: branchrank index"
_ALIGNED = 64
#: The maximum number of lookups in each cache.
_KEPT = 1 << 16

_Size = Annotated[int, msgspec.Meta(ge=0)]


class _Place(msgspec.Struct, array_like=True, frozen=True):
    """The number type, the shape and the position of an array in a file."""

    dtype: str
    shape: tuple[_Size, ...]
    offset: _Size


def write_arrays(path: Path, arrays: Iterable[tuple[str, NDArray[Any] | Iterator[NDArray[Any]]]]) -> None:
    """Write named arrays of numbers to a file, atomically.

    An array can be given as an iterator over its blocks of rows, which are written one by one. Raises
    :class:`~branchrank.core.errors.StorageError` if the file can't be written.
    """
    places: dict[str, _Place] = {}
    with atomic_writer(path) as stream:
        for name, array in arrays:
            offset = stream.tell() + -stream.tell() % _ALIGNED
            stream.write(bytes(offset - stream.tell()))
            rows, block = 0, np.empty(0, dtype=np.uint8)
            for block in [array] if isinstance(array, np.ndarray) else array:
                stream.write(np.ascontiguousarray(block).data)
                rows += len(block)
            places[name] = _Place(block.dtype.str, (rows, *block.shape[1:]), offset)
        header = msgspec.json.encode(places)
        stream.write(header + len(header).to_bytes(8, "little"))


def map_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Memory-map the arrays in a file. Raises :class:`ArtifactError` if the file is missing or damaged."""
    try:
        with open_file(path) as stream:
            content = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        end = len(content) - 8
        size = int.from_bytes(content[max(end, 0) :], "little")
        places = msgspec.json.decode(content[max(end - size, 0) : max(end, 0)], type=dict[str, _Place])
        # Plain arrays are returned, because indexing a ``memmap`` object is slow.
        arrays = {}
        for name, place in places.items():
            numbers = np.frombuffer(content, place.dtype, math.prod(place.shape), place.offset)
            arrays[name] = numbers.reshape(place.shape)
        return arrays
    except (OSError, ValueError, TypeError, OverflowError, *NOT_JSON) as error:
        raise ArtifactError(f"cannot read {path}: {error}", remedy=REBUILD) from error


class Kept(dict[K, V]):
    """A cache, which is cleared when it has ``most`` values. It does not refer to the object that uses it."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def keep(self, key: K, value: V) -> V:
        """Store and return a value."""
        if len(self) >= self._most:
            self.clear()
        self[key] = value
        return value


class StringArrays(NamedTuple):
    """The arrays that store ``n`` strings."""

    starts: NDArray[np.int64]
    order: NDArray[np.int32]
    ties: NDArray[np.int32]
    text: NDArray[np.uint8]


class Strings(Sequence[str]):
    """A read-only sequence of distinct strings."""

    def __init__(self, arrays: StringArrays) -> None:
        """Raise ``ValueError`` if ``arrays`` have the wrong types or inconsistent sizes."""
        starts, order, ties, text = self.arrays = arrays
        kinds = [f"{array.dtype.name} {array.ndim}" for array in arrays]
        if kinds != ["int64 1", "int32 1", "int32 1", "uint8 1"]:
            raise ValueError(f"the string table's arrays have the wrong types: {kinds}")
        if not len(starts) - 1 == len(order) == len(ties) or starts[0] != 0 or starts[-1] != len(text):
            raise ValueError("the string table's arrays have inconsistent sizes")
        #: The position of each row in the list of sorted strings, with the shape ``(n,)``.
        self.ties = ties
        # Indexing a memoryview returns Python integers, which are faster than NumPy's integers.
        self._starts, self._order, self._text = starts.data, order.data, text.data
        #: The cached lookups by string and by row. Queries look up the same strings repeatedly.
        self._found = Kept[str, int](_KEPT)
        self._decoded = Kept[int, str](_KEPT)

    @classmethod
    def named(cls, arrays: Mapping[str, NDArray[Any]], name: str) -> Strings:
        """Return the strings whose arrays :meth:`to_write` named."""
        return cls(StringArrays(*(arrays[f"{name}.{field}"] for field in StringArrays._fields)))

    def to_write(self, name: str) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield the arrays of the strings with their names in a file."""
        return ((f"{name}.{field}", getattr(self.arrays, field)) for field in StringArrays._fields)

    @classmethod
    def of(cls, strings: Iterable[str]) -> Strings:
        """Return ``strings`` as a :class:`Strings` object."""
        if isinstance(strings, Strings):
            return strings
        encoded = [string.encode("utf-8", "surrogatepass") for string in strings]
        starts = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        # UTF-8 bytes sort in the same order as the code points of the strings.
        order = np.array(sorted(range(len(encoded)), key=encoded.__getitem__), dtype=np.int32)
        ties = np.empty_like(order)
        ties[order] = np.arange(len(order), dtype=np.int32)
        return cls(StringArrays(starts, order, ties, np.frombuffer(b"".join(encoded), dtype=np.uint8)))

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, row: int) -> str:  # type: ignore[override]  # slices are not needed
        found = self._decoded.get(row)
        if found is None:
            if row < 0:
                row += len(self)
            if not 0 <= row < len(self):
                raise IndexError(row)
            found = self._decoded.keep(row, self._bytes(row).decode("utf-8", "surrogatepass"))
        return found

    def take(self, rows: Iterable[int]) -> list[str]:
        """Return the strings in the rows ``rows``, in the same order."""
        known = self._decoded.get
        return [known(row) or self[row] for row in rows]

    def __iter__(self) -> Iterator[str]:
        content = bytes(self._text)
        for first, last in pairwise(self._starts):
            yield content[first:last].decode("utf-8", "surrogatepass")

    def __contains__(self, string: object) -> bool:
        return isinstance(string, str) and self.find(string) is not None

    def find(self, string: str) -> int | None:
        """Return the row number of ``string``, or ``None`` if the string is not stored."""
        found = self._found.get(string)
        if found is None:
            found = self._bisected(string)
            if found is not None:
                self._found.keep(string, found)
        return found

    def _bisected(self, string: str) -> int | None:
        wanted = string.encode("utf-8", "surrogatepass")
        low = bisect_left(self._order, wanted, key=self._bytes)
        if low < len(self) and self._bytes(row := self._order[low]) == wanted:
            return row
        return None

    def row(self, string: str) -> int:
        """Return the row number of ``string``. Raises ``KeyError`` if the string is not stored."""
        found = self.find(string)
        if found is None:
            raise KeyError(string)
        return found

    def _bytes(self, row: int) -> bytes:
        return bytes(self._text[self._starts[row] : self._starts[row + 1]])
