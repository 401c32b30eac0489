"""Determine which vectors of an existing Qdrant collection are searched.

1. Dense search uses the dense vector named ``dense``. In a collection without a dense vector named ``dense``,
   exactly one dense vector must have the model's dimension, and dense search uses that vector.
2. Sparse search uses the sparse vector named ``sparse``. In a collection without a sparse vector named
   ``sparse``, sparse search uses the collection's sparse vector if there is exactly one.
3. The multivector named ``tokens`` contains token vectors for late interaction. In a collection without a
   multivector named ``tokens``, late interaction uses the collection's multivector if there is exactly one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from branchrank.embedders.protocol import Vectors
from branchrank.errors import ArtifactError
from branchrank.stores.qdrant_points import DENSE, SPARSE, TOKENS, SparseWeights

REMEDY = "use another collection, or omit --qdrant-collection to search the chunks of the index"
_DISTANCES = ("Euclid", "Manhattan")


class Layout(NamedTuple):
    """The names and dimensions of the vectors that are searched.

    ``dense``, ``sparse`` and ``tokens`` are the names of the dense vector, the sparse vector and the
    multivector. ``distance`` is true if smaller values of the dense vector's metric are better.
    """

    dense: str
    size: int
    distance: bool
    sparse: str | None
    tokens: str | None = None
    token_size: int = 0


class StoredVectors(NamedTuple):
    """The dense vector, the sparse vector and the token vectors of a point.

    A vector that the point does not have is ``None``. ``tokens`` has the shape ``(number of tokens, d)``.
    """

    dense: Vectors | None
    sparse: SparseWeights | None
    tokens: Vectors | None = None


class DenseVector(NamedTuple):
    """The dimension and metric of a dense vector or a multivector. ``several`` is true for a multivector."""

    size: int
    distance: str
    several: bool


class _StoredVector(msgspec.Struct):
    size: int
    distance: str
    multivector_config: Any = None


class StoredLayout(msgspec.Struct):
    """A collection's layout, from the configuration file of a shard or of qdrant-client's local mode."""

    vectors: dict[str, Any]
    sparse_vectors: dict[str, Any] | None = None

    def described(self) -> tuple[dict[str, DenseVector], Mapping[str, Any]]:
        """Return the properties of the dense vectors and of the sparse vectors, by vector name.

        The name of an unnamed dense vector is an empty string.
        """
        named = {"": self.vectors} if "size" in self.vectors else self.vectors
        decoded = msgspec.convert(named, dict[str, _StoredVector])
        dense = {
            key: DenseVector(each.size, each.distance, each.multivector_config is not None)
            for key, each in decoded.items()
        }
        return dense, self.sparse_vectors or {}


class LocalModeMeta(msgspec.Struct):
    """The content of the file ``meta.json`` that qdrant-client writes in local mode."""

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
            f"{place} must have exactly one dense vector with {dimension} dimensions, but has: {sizes}",
            remedy=REMEDY,
        )
    size, distance, _ = dense[chosen[0]]
    if size != dimension:
        raise ArtifactError(
            f"{place} has vectors with {size} dimensions, but the embedder of the index produces vectors "
            f"with {dimension} dimensions",
            remedy="build the index with the collection's embedding model: "
            "branchrank index --embedder NAME --data-dir DIR",
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
    """Convert a point's vectors from any of Qdrant's types to :class:`StoredVectors`."""
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
