"""Several NumPy arrays in one file, mapped into memory.

The file has the format that repeated calls of ``numpy.save`` on one open file write, so ``numpy.load`` can
read the arrays one after the other. Arrays with larger items come first, because each array must be aligned
to be mapped into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from branchrank.stores.npy_file import map_npys


def write_arrays(stream: IO[bytes], arrays: Sequence[NDArray[Any]]) -> None:
    """Write arrays of numbers, which must be in descending order of the size of their items."""
    sizes = [array.itemsize for array in arrays]
    assert sizes == sorted(sizes, reverse=True), "the arrays are not in descending order of item size"
    for array in arrays:
        np.save(stream, np.ascontiguousarray(array), allow_pickle=False)


def mapped_arrays(open_file: Callable[[str], BinaryIO], name: str, count: int) -> list[NDArray[Any]]:
    """Map the ``count`` arrays of the file that ``open_file(name)`` opens. Only the headers are read.

    Raises ``ValueError`` if the file does not contain exactly ``count`` arrays of numbers.
    """
    with open_file(name) as stream:
        # Plain views are returned, because indexing a ``memmap`` object is slow.
        return [np.asarray(array) for array in map_npys(stream, count)]
