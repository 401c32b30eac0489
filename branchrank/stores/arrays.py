"""Write several NumPy arrays to one file, and memory-map them.

The file contains the arrays one after the other in the format of ``numpy.save``, so repeated calls to
``numpy.load`` can read the arrays. Arrays with larger items come first, because memory-mapped arrays must be
aligned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from branchrank.stores.npy_file import map_npys


def write_arrays(stream: IO[bytes], arrays: Sequence[NDArray[Any]]) -> None:
    """Write arrays of numbers to ``stream``. Arrays with larger items must come first."""
    sizes = [array.itemsize for array in arrays]
    assert sizes == sorted(sizes, reverse=True), "the arrays are not in descending order of item size"
    for array in arrays:
        np.save(stream, np.ascontiguousarray(array), allow_pickle=False)


def mapped_arrays(open_file: Callable[[str], BinaryIO], name: str, count: int) -> list[NDArray[Any]]:
    """Memory-map the arrays in the file that ``open_file(name)`` opens.

    Raises ``ValueError`` if the file does not contain exactly ``count`` arrays of numbers.
    """
    with open_file(name) as stream:
        # Return plain arrays, because indexing a ``memmap`` object is slow.
        return [np.asarray(array) for array in map_npys(stream, count)]
