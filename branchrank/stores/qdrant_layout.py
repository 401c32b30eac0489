"""The layout of an existing Qdrant collection: which of its vectors are searched, and how they are stored.

1. Of several dense vectors, the one named ``dense`` is searched, else the only one with the model's
   dimension. Of several sparse vectors, the one named ``sparse`` is searched, else the only one.
2. A multivector (``tokens``, else the only one) holds token vectors, for late interaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from branchrank.embedders.protocol import Vectors
from branchrank.errors import ArtifactError
from branchrank.stores.qdrant_points import DENSE, SPARSE, TOKENS, SparseWeights

REMEDY = "name another collection, or leave --qdrant-collection out to search the index's own chunks"
_DISTANCES = ("Euclid", "Manhattan")


class Layout(NamedTuple):
    """The vectors that are searched: their names and sizes, and whether a smaller dense value is nearer."""

    dense: str
    size: int
    distance: bool
    sparse: str | None
    tokens: str | None = None
    token_size: int = 0


class StoredVectors(NamedTuple):
    """A point's dense and sparse vector and its tokens' rows ``(tokens, d)``; each may be missing."""

    dense: Vectors | None
    sparse: SparseWeights | None
    tokens: Vectors | None = None


class DenseVector(NamedTuple):
    """What a layout says about a dense vector or a multivector."""

    size: int
    distance: str
    several: bool


class _StoredVector(msgspec.Struct):
    size: int
    distance: str
    multivector_config: Any = None


class StoredLayout(msgspec.Struct):
    """A collection's layout, as it is stored in both kinds of folder."""

    vectors: dict[str, Any]
    sparse_vectors: dict[str, Any] | None = None

    def described(self) -> tuple[dict[str, DenseVector], Mapping[str, Any]]:
        """Each dense vector by name ("" if unnamed), and the sparse vectors by name."""
        named = {"": self.vectors} if "size" in self.vectors else self.vectors
        decoded = msgspec.convert(named, dict[str, _StoredVector])
        dense = {
            key: DenseVector(each.size, each.distance, each.multivector_config is not None)
            for key, each in decoded.items()
        }
        return dense, self.sparse_vectors or {}


class LocalModeMeta(msgspec.Struct):
    """``meta.json`` of the local mode."""

    collections: dict[str, StoredLayout]


def chosen_layout(
    place: str, vectors: Mapping[str, DenseVector], sparse: Mapping[str, object], dimension: int
) -> Layout:
    dense = {name: each for name, each in vectors.items() if not each.several}
    several = [name for name, each in vectors.items() if each.several]
    fitting = [name for name, each in dense.items() if each.size == dimension]
    chosen = [DENSE] if DENSE in dense else fitting if len(fitting) == 1 else list(dense)
    if len(chosen) != 1:
        sizes = ", ".join(f"{name or 'unnamed'} of {each.size}" for name, each in dense.items()) or "none"
        raise ArtifactError(
            f"{place} needs exactly one dense vector of {dimension} dimensions: {sizes}", remedy=REMEDY
        )
    size, distance, _ = dense[chosen[0]]
    if size != dimension:
        raise ArtifactError(
            f"{place} has vectors of {size} dimensions, the index's embedder gives {dimension}",
            remedy="index with the collection's model: branchrank index --embedder NAME --data-dir DIR",
        )
    names = [SPARSE] if SPARSE in sparse else list(sparse)
    tokens = TOKENS if TOKENS in several else several[0] if len(several) == 1 else None
    return Layout(
        chosen[0],
        size,
        distance in _DISTANCES,
        names[0] if len(names) == 1 else None,
        tokens,
        0 if tokens is None else vectors[tokens].size,
    )


def stored_vectors(vector: Any, layout: Layout) -> StoredVectors:
    """A point's vectors, from the form in which Qdrant, its client or its pickles represent them."""
    named = vector if isinstance(vector, Mapping) else {"": vector}
    dense = named.get(layout.dense)
    sparse = named.get(layout.sparse) if layout.sparse is not None else None
    if isinstance(sparse, Mapping):
        weights = SparseWeights(list(sparse["indices"]), list(sparse["values"]))
    elif sparse is not None:
        weights = SparseWeights(list(sparse.indices), list(sparse.values))
    tokens = named.get(layout.tokens) if layout.tokens is not None else None
    return StoredVectors(
        None if dense is None else np.asarray(dense, dtype=np.float32),
        None if sparse is None else weights,
        None if tokens is None else np.asarray(tokens, dtype=np.float32),
    )
