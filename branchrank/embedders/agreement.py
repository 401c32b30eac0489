"""Check whether the vectors in another program's database were computed with a given model.

A random sample (with a fixed seed) of the texts is embedded again, and each new vector is compared with the
stored vector of the text. Stored vectors need not have unit length. The other program may have added a
breadcrumb or other text to each text before embedding it, so the check tries several forms of the texts.
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

    ``form`` names the text format for which the new vectors agree with the stored vectors. ``sampled`` is the
    number of texts that were embedded again. ``least`` is the smallest cosine similarity between the new
    vector and the stored vector of a text.
    """

    form: str
    sampled: int
    least: float


def sampled(count: int) -> list[int]:
    """Return at most ``SAMPLE`` distinct random numbers from 0 to ``count - 1``, in ascending order."""
    return sorted(Random(SEED).sample(range(count), min(SAMPLE, count)))  # noqa: S311 - no secret


def check_agreement(
    embedder: Embedder, vectors: Vectors, forms: Mapping[str, Sequence[str]], *, place: str, remedy: str
) -> Agreement:
    """Find the text format for which ``embedder`` reproduces all sampled rows of ``vectors``.

    ``vectors`` has the shape ``(n, d)``. ``forms`` maps the name of each text format to a list of the n texts
    in that format. If several formats reproduce the sampled rows, the first one is returned. Error messages
    use ``place`` to say where ``vectors`` came from. Raises :class:`ArtifactError` if no text format
    reproduces the sampled rows, if a sampled row is all zeros or has a value that is not finite, or if the
    dimension of the embedder's vectors is not d. If no text format reproduces the rows, the error message
    gives the results for the closest format, and quotes the text whose new and stored vectors differ most.
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
