"""Store many distinct strings in four arrays, which can be memory-mapped.

Four arrays take less memory than one Python object per string.

1. The array ``text`` contains the UTF-8 bytes of all strings, one after the other. The array ``starts``
   contains the offset of each string.
2. The array ``order`` contains the row numbers sorted by string, so a string can be found by bisection. The
   array ``ties`` contains each row's position in ``order``, and is used to sort rows with equal scores by id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

#: The maximum number of lookups in each cache. A full cache is cleared.
_KEPT = 1 << 16


class StringArrays(NamedTuple):
    """The arrays that store ``n`` strings.

    Arrays with larger items come first, as :mod:`branchrank.stores.arrays` requires.
    """

    starts: NDArray[np.int64]
    order: NDArray[np.int32]
    ties: NDArray[np.int32]
    text: NDArray[np.uint8]


class Strings(Sequence[str]):
    """A read-only sequence of distinct strings that compares equal to a tuple of the same strings."""

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
        self._found: dict[str, int] = {}
        self._decoded: dict[int, str] = {}

    @classmethod
    def of(cls, strings: Iterable[str]) -> Strings:
        """Return ``strings`` as a :class:`Strings` object."""
        if isinstance(strings, Strings):
            return strings
        encoded = [string.encode("utf-8", "surrogatepass") for string in strings]
        return cls.joined(b"".join(encoded), np.fromiter(map(len, encoded), np.int64, len(encoded)))

    @classmethod
    def joined(cls, text: bytes, sizes: NDArray[np.int64]) -> Strings:
        """Split ``text`` into strings whose sizes in bytes are ``sizes``."""
        starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])
        strings = [text[first:last] for first, last in pairwise(starts.tolist())]
        # UTF-8 bytes sort in the same order as the code points of the strings.
        order = np.array(sorted(range(len(strings)), key=strings.__getitem__), dtype=np.int32)
        return cls(StringArrays(starts, order, _inverse(order), np.frombuffer(text, dtype=np.uint8)))

    def where(self, kept: NDArray[np.bool_]) -> Strings:
        """Return the strings for which ``kept`` is true, in the same order."""
        starts, order, _, text = self.arrays
        sizes = np.diff(starts)
        rows = np.cumsum(kept, dtype=np.int32) - np.int32(1)
        chosen = rows[order[kept[order]]]
        return Strings(
            StringArrays(
                np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes[kept])]),
                chosen,
                _inverse(chosen),
                text[np.repeat(kept, sizes)],
            )
        )

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, row: int) -> str: ...

    @overload
    def __getitem__(self, row: slice) -> list[str]: ...

    def __getitem__(self, row: int | slice) -> str | list[str]:
        if isinstance(row, slice):
            return [self[each] for each in range(*row.indices(len(self)))]
        found = self._decoded.get(row)
        if found is None:
            if row < 0:
                row += len(self)
            if not 0 <= row < len(self):
                raise IndexError(row)
            if len(self._decoded) >= _KEPT:
                self._decoded.clear()
            found = self._decoded[row] = self._bytes(row).decode("utf-8", "surrogatepass")
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

    def __eq__(self, other: object) -> bool:
        if isinstance(other, tuple):
            return tuple(self) == other
        if not isinstance(other, Strings):
            return NotImplemented
        return self._starts == other._starts and self._text == other._text

    __hash__ = None  # type: ignore[assignment]

    def find(self, string: str) -> int | None:
        """Return the row number of ``string``, or ``None`` if the string is not stored."""
        found = self._found.get(string)
        if found is None:
            found = self._bisected(string)
            if found is not None:
                if len(self._found) >= _KEPT:
                    self._found.clear()
                self._found[string] = found
        return found

    def _bisected(self, string: str) -> int | None:
        wanted = string.encode("utf-8", "surrogatepass")
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self._bytes(self._order[middle]) < wanted:
                low = middle + 1
            else:
                high = middle
        if low < len(self) and self._bytes(row := self._order[low]) == wanted:
            return row
        return None

    def row(self, string: str) -> int:
        """Return the row number of ``string``. Raises ``KeyError`` if the string is not stored."""
        found = self._found.get(string)
        if found is None and (found := self.find(string)) is None:
            raise KeyError(string)
        return found

    def _bytes(self, row: int) -> bytes:
        return bytes(self._text[self._starts[row] : self._starts[row + 1]])


def _inverse(order: NDArray[np.int32]) -> NDArray[np.int32]:
    places = np.empty_like(order)
    places[order] = np.arange(len(order), dtype=np.int32)
    return places
