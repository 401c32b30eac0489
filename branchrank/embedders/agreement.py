"""Check that vectors stored by another program were made with a named model.

A seeded sample of the texts is embedded again, and each new vector is compared with the stored one. Stored
vectors need not have unit length. The text that was embedded for a record may have one of several forms.
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
    """The form of the texts that was embedded, the number of texts checked, and the smallest cosine."""

    form: str
    sampled: int
    least: float


def sampled(count: int) -> list[int]:
    """The sampled row numbers, out of ``count`` rows, in ascending order."""
    return sorted(Random(SEED).sample(range(count), min(SAMPLE, count)))  # noqa: S311 - no secret


def check_agreement(
    embedder: Embedder, vectors: Vectors, forms: Mapping[str, Sequence[str]], *, place: str, remedy: str
) -> Agreement:
    """Return the form of the texts for which ``embedder`` reproduces every sampled row of ``vectors``.

    ``vectors`` has shape ``(n, d)``; ``forms`` maps the name of each form to the n texts. If no form matches,
    raises :class:`ArtifactError` about ``place`` that quotes the text with the smallest cosine in the best
    form.
    """
    identity = embedder.identity
    model = f"{identity.name} {identity.model}".strip()
    if vectors.shape[1] != identity.dimension:
        raise ArtifactError(
            f"{place} has vectors of {vectors.shape[1]} dimensions, the embedder {model} gives "
            f"{identity.dimension}",
            remedy=remedy,
        )
    rows = sampled(len(vectors))
    stored = vectors[rows].astype(np.float64)
    lengths = np.linalg.norm(stored, axis=1)
    if not np.isfinite(stored).all() or not lengths.all():
        raise ArtifactError(f"{place} has a vector without a direction", remedy=remedy)
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
        f"{place} does not hold the vectors of {model}: {count} of {len(rows)} sampled texts have another "
        f"vector; the farthest, cosine {nearest.least:.3f}, is {text[:60]!r}",
        remedy=remedy,
    )
