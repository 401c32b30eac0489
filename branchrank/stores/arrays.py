"""Several NumPy arrays in one file, mapped into memory.

The file is what ``numpy.save`` writes when it is called several times on one open file, so ``numpy.load``
reads the arrays one after the other. Arrays with larger items come first: then each is aligned, and can be
mapped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray


def write_arrays(stream: IO[bytes], arrays: Sequence[NDArray[Any]]) -> None:
    """Write arrays, in descending order of the size of their items, without pickled objects."""
    sizes = [array.itemsize for array in arrays]
    assert sizes == sorted(sizes, reverse=True), "an array would not be aligned"
    for array in arrays:
        np.save(stream, np.ascontiguousarray(array), allow_pickle=False)


def mapped_arrays(open_file: Callable[[str], IO[bytes]], name: str, count: int) -> list[NDArray[Any]]:
    """Map the first ``count`` arrays of the file that ``open_file(name)`` opens.

    Nothing but their headers is read. Raises ``ValueError`` for another format, for objects, and for arrays
    stored by column.
    """
    arrays = []
    with open_file(name) as stream:
        for _ in range(count):
            version = np.lib.format.read_magic(stream)
            if version != (1, 0):
                raise ValueError(f"format {version[0]}.{version[1]} of .npy files, where 1.0 is expected")
            shape, by_column, dtype = np.lib.format.read_array_header_1_0(stream)
            if dtype.hasobject or (by_column and len(shape) > 1):
                raise ValueError(f"an array of {dtype}, stored by column: {by_column}")
            start = stream.tell()
            if 0 in shape:
                arrays.append(np.empty(shape, dtype=dtype))
                continue
            mapped = np.memmap(stream, dtype=dtype, mode="r", offset=start, shape=shape)
            stream.seek(start + mapped.nbytes)
            # A plain view, because indexing a ``memmap`` object is slow.
            arrays.append(np.asarray(mapped))
    return arrays
