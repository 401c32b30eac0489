"""Read ``.npy`` files that contain arrays of numbers. Any other content is rejected with an error.

``numpy.load`` is not used, because it evaluates the header of a file as a Python literal. Parsing a damaged
header can raise any of the exceptions of Python's parser. A header with a wrong shape can make NumPy allocate
a lot of memory. This module matches the header against a regular expression, and checks that the file has
exactly the size that the header describes.
"""

from __future__ import annotations

import math
import os
import re
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(
    rb"\{'descr': '([<|][a-zA-Z]\d{1,3})', 'fortran_order': False, 'shape': \(([\d, ]{0,60})\), \} *\n"
)


def read_npy(stream: BinaryIO) -> NDArray[Any]:
    """Return the array in an open file. Raises ``ValueError`` if the file is not an array of numbers."""
    dtype, shape = _header(stream)
    content = stream.read()
    _check_size(len(content), dtype, shape)
    return np.frombuffer(content, dtype).reshape(shape)


def map_npy(stream: BinaryIO) -> NDArray[Any]:
    """Memory-map the array in an open file. Raises ``ValueError`` if the file is not an array of numbers."""
    return map_npys(stream, 1)[0]


def map_npys(stream: BinaryIO, count: int) -> list[NDArray[Any]]:
    """Memory-map ``count`` arrays that are stored one after the other in an open file.

    Raises ``ValueError`` if the file does not contain exactly ``count`` arrays of numbers.
    """
    arrays: list[NDArray[Any]] = []
    size = os.fstat(stream.fileno()).st_size
    for number in range(count):
        dtype, shape = _header(stream)
        offset = stream.tell()
        end = offset + dtype.itemsize * math.prod(shape)
        # The last array must end at the end of the file, and no array may extend beyond the end of the file.
        _check_size(size - offset if number == count - 1 else min(end, size) - offset, dtype, shape)
        if math.prod(shape):
            arrays.append(np.memmap(stream, dtype=dtype, mode="r", offset=offset, shape=shape))
        else:
            arrays.append(np.empty(shape, dtype))
        stream.seek(end)
    return arrays


def _header(stream: BinaryIO) -> tuple[np.dtype[Any], tuple[int, ...]]:
    start = stream.read(len(_MAGIC) + 2)
    if not start.startswith(_MAGIC):
        raise ValueError("the file is not in .npy format version 1.0")
    header = stream.read(int.from_bytes(start[-2:], "little"))
    found = _HEADER.fullmatch(header)
    if found is None:
        raise ValueError("the .npy header does not describe an array of numbers")
    try:
        dtype = np.dtype(found[1].decode())
    except TypeError as error:
        raise ValueError(f"the .npy header has an unknown number type: {error}") from None
    return dtype, tuple(int(number) for number in found[2].replace(b",", b" ").split())


def _check_size(size: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    wanted = dtype.itemsize * math.prod(shape)
    if size != wanted or dtype.hasobject:
        raise ValueError(
            f"the file has {size} bytes of numbers, but the .npy header describes {wanted}: {dtype} {shape}"
        )
