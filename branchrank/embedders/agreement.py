"""Check whether the vectors in another program's database were computed with a given model.

A seeded random sample of the texts is embedded again, and each new vector is compared with the stored vector
of the same text. Stored vectors need not have unit length. The other program may have embedded each text
together with a breadcrumb or other text, so the check tries several text formats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple

import numpy as np

from branchrank.embedders.protocol import Embedder, Vectors
from branchrank.errors import ArtifactError

SAMPLE = 20
SEED = 42
LEAST_COSINE = 0.999


class Agreement(NamedTuple):
    """The result of comparing stored vectors with newly computed vectors of the same texts.

    ``form`` is the name of the text format for which the new vectors agree with the stored vectors.
    ``sampled`` is the number of texts that were embedded again. ``least`` is the smallest cosine similarity
    between a text's new vector and its stored vector.
    """

    form: str
    sampled: int
    least: float


def sampled(count: int) -> list[int]:
    """Return at most ``SAMPLE`` distinct random integers from 0 to ``count - 1``, in ascending order."""
    return sorted(Random(SEED).sample(range(count), min(SAMPLE, count)))  # noqa: S311 - no secret


def check_agreement(
    embedder: Embedder, vectors: Vectors, forms: Mapping[str, Sequence[str]], *, place: str, remedy: str
) -> Agreement:
    """Return the first text format for which ``embedder`` reproduces the sampled rows of ``vectors``.

    ``vectors`` has the shape ``(n, d)``. ``forms`` maps the name of each text format to the n texts in that
    format. ``place`` describes the source of ``vectors`` in error messages.

    Raises :class:`ArtifactError` in three cases:

    - The embedder does not reproduce the sampled vectors in any text format. The error message describes the
      differences for the text format whose vectors are most similar to the sampled vectors.
    - A sampled vector is all zeros or contains a value that is not finite.
    - The embedder's vectors do not have d dimensions.
    """
    identity = embedder.identity
    model = f"{identity.name} {identity.model}".strip()
    if vectors.shape[1] != identity.dimension:
        raise ArtifactError(
            f"{place} has vectors with {vectors.shape[1]} dimensions, but the embedder {model} produces "
            f"vectors with {identity.dimension} dimensions",
            remedy=remedy,
        )
    rows = sampled(len(vectors))
    stored = vectors[rows].astype(np.float64)
    lengths = np.linalg.norm(stored, axis=1)
    if not np.isfinite(stored).all() or not lengths.all():
        raise ArtifactError(f"{place} contains a vector that is zero or not finite", remedy=remedy)
    nearest: Agreement | None = None
    worst = (0, "")
    for form, texts in forms.items():
        again = embedder.embed_documents([texts[row] for row in rows])
        cosines = np.einsum("ij,ij->i", stored, again) / lengths
        found = Agreement(form, len(rows), float(cosines.min()))
        if found.least >= LEAST_COSINE:
            return found
        if nearest is None or found.least > nearest.least:
            nearest = found
            worst = (int((cosines < LEAST_COSINE).sum()), texts[rows[int(cosines.argmin())]])
    assert nearest is not None
    count, text = worst
    raise ArtifactError(
        f"the vectors in {place} were not made with {model}: {count} of {len(rows)} sampled texts have a "
        f"different vector; the largest difference (cosine {nearest.least:.3f}) is at {text[:60]!r}",
        remedy=remedy,
    )
