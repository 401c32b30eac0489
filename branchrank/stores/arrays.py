"""Several NumPy arrays in one file, mapped into memory.

The file is what ``numpy.save`` writes when it is called several times on one open file, so ``numpy.load``
reads the arrays one after the other. Arrays with larger items come first: then each is aligned, and can be
mapped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from branchrank.stores.npy_file import map_npys


def write_arrays(stream: IO[bytes], arrays: Sequence[NDArray[Any]]) -> None:
    """Write arrays, in descending order of the size of their items, without pickled objects."""
    sizes = [array.itemsize for array in arrays]
    assert sizes == sorted(sizes, reverse=True), "an array would not be aligned"
    for array in arrays:
        np.save(stream, np.ascontiguousarray(array), allow_pickle=False)


def mapped_arrays(open_file: Callable[[str], BinaryIO], name: str, count: int) -> list[NDArray[Any]]:
    """Map the ``count`` arrays of the file that ``open_file(name)`` opens; only their headers are read.

    Raises ``ValueError`` for any other content.
    """
    with open_file(name) as stream:
        # Plain views, because indexing a ``memmap`` object is slow.
        return [np.asarray(array) for array in map_npys(stream, count)]
