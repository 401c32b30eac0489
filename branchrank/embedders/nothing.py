"""The embedder ``none``, for an index that supports only keyword search.

Every chunk gets the same one-dimensional vector, so that all indexes have the same layout. Systems that
search vectors are rejected before the first query (:func:`branchrank.systems.checks.check_embedder`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from branchrank.embedders.protocol import EmbedderIdentity, Vectors
from branchrank.errors import UsageError
from branchrank.io.progress import Progress, no_progress

NONE = "none"
MAX_TOKENS = 512


class NoEmbedder:
    """An embedder that returns the same one-dimensional vector for every text."""

    identity = EmbedderIdentity(name=NONE, model=NONE, dimension=1, max_tokens=MAX_TOKENS)

    def embed_documents(self, texts: Sequence[str], progress: Progress = no_progress) -> Vectors:
        """Return one row ``[1]`` for each text."""
        return np.ones((len(texts), 1), dtype=np.float32)

    def embed_query(self, text: str) -> Vectors:
        """Raise :class:`UsageError`, because there is no model to embed a query."""
        raise no_vectors("the index")


def no_vectors(what: str) -> UsageError:
    """Return the error for a vector search in an index without vectors."""
    return UsageError(
        f"{what} has no vectors, because its embedder is {NONE}",
        remedy="use --embedder all-MiniLM-L6-v2 (or another model), or keyword search: --predictor bm25",
    )
