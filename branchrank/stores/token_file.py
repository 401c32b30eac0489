"""The token vectors of an index's chunks, stored in memory-mapped files.

- ``values`` contains the token vectors of all chunks, one vector per row, as int8 or float16 numbers without
  a header.
- ``scales.npy`` contains one float32 factor per row of ``values``
  (:class:`branchrank.ranking.maxsim.TokenVectors`).
- ``offsets.npy`` contains an int64 array of shape ``(number of chunks + 1,)``. The token vectors of chunk
  ``i`` are the rows ``offsets[i]`` to ``offsets[i + 1] - 1`` of ``values``.
- ``keys.npy`` contains a cache key of 64 hexadecimal digits for each chunk. A later build uses the keys to
  find vectors that it can reuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from branchrank.errors import ArtifactError
from branchrank.io.files import storage_errors
from branchrank.ranking.maxsim import TokenPrecision, TokenVectors
from branchrank.stores.npy_file import read_npy
from branchrank.stores.strings import Strings

VALUES, SCALES, OFFSETS, KEYS = "values", "scales.npy", "offsets.npy", "keys.npy"
_NUMBERS: dict[TokenPrecision, type[np.int8] | type[np.float16]] = {"int8": np.int8, "fp16": np.float16}


def save_token_vectors(directory: Path, keys: Sequence[str], vectors: Iterable[TokenVectors]) -> None:
    """Write the token vectors of each chunk to ``directory``, without keeping all vectors in memory.

    Raises :class:`~branchrank.errors.StorageError` if the files can't be written.
    """
    scales, counts = [], []
    with storage_errors(directory):
        directory.mkdir(parents=True)
        with (directory / VALUES).open("wb") as stream:
            for each in vectors:
                stream.write(np.ascontiguousarray(each.values).tobytes())
                scales.append(each.scales)
                counts.append(len(each.scales))
        np.save(directory / SCALES, np.concatenate(scales or [np.zeros(0, np.float32)]))
        np.save(directory / OFFSETS, np.cumsum([0, *counts], dtype=np.int64))
        np.save(directory / KEYS, np.array(keys, dtype="S64"))


class TokenFile:
    """The token vectors of a list of chunks, read from the files in a directory."""

    def __init__(self, directory: Path, ids: Sequence[str], precision: TokenPrecision) -> None:
        """Open the files.

        Raises :class:`ArtifactError` if a file is damaged, or if the files do not contain one entry per id.
        """
        self.precision = precision
        self._ids = Strings.of(ids)
        try:
            self._offsets = _load(directory / OFFSETS, np.int64)
            self._scales = _load(directory / SCALES, np.float32)
            self._keys = _load(directory / KEYS, np.dtype("S64"))
            self._values = _rows(directory / VALUES, len(self._scales), _NUMBERS[precision])
        except (OSError, ValueError) as error:
            raise _damaged(directory, str(error)) from error
        if len(self._offsets) != len(ids) + 1 or len(self._keys) != len(ids):
            raise _damaged(directory, f"the files contain {len(self._keys)} chunks, not {len(ids)}")
        if (
            self._offsets[0] != 0
            or self._offsets[-1] != len(self._scales)
            or (np.diff(self._offsets) < 0).any()
        ):
            raise _damaged(directory, "the offsets do not match the number of rows")

    @property
    def keys(self) -> list[str]:
        """The cache keys of the chunks, in the order of the ids."""
        return [key.decode("ascii", "replace") for key in self._keys.tolist()]

    @property
    def dimension(self) -> int:
        """The dimension of the token vectors."""
        return int(self._values.shape[1])

    def vectors(self, key: str) -> TokenVectors:
        """Return the token vectors of a chunk. Raises ``KeyError`` for an unknown id."""
        row = self._ids.row(key)
        first, last = self._offsets[row : row + 2]
        return TokenVectors(self._values[first:last], self._scales[first:last])


def _load(path: Path, number: Any) -> NDArray[Any]:
    with path.open("rb") as stream:
        loaded = read_npy(stream)
    if loaded.dtype != number or loaded.ndim != 1:
        raise ValueError(
            f"the file {path.name} contains an array of {loaded.dtype} with the shape {loaded.shape}"
        )
    return loaded


def _rows(path: Path, count: int, number: type[Any]) -> NDArray[Any]:
    # Use a plain array, because indexing the rows of a ``memmap`` object is slow.
    values = np.asarray(np.memmap(path, dtype=number, mode="r"))
    return values.reshape(count, -1)


def _damaged(directory: Path, reason: str) -> ArtifactError:
    return ArtifactError(
        f"cannot read the token vectors in {directory}: {reason}",
        remedy="rebuild the index: branchrank index",
    )
