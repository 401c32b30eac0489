"""The embedder ``none``: no model, for an index that supports keyword search only.

Every chunk gets the same vector of one dimension, so that all indexes have the same layout. Queries can't be
embedded; a system that needs it is rejected at the start (:func:`branchrank.systems.checks.check_embedder`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from branchrank.embedders.protocol import EmbedderIdentity, Vectors
from branchrank.errors import UsageError
from branchrank.progress import Progress, no_progress

NONE = "none"
MAX_TOKENS = 512


class NoEmbedder:
    """An embedder that gives every text the same vector, of one dimension."""

    identity = EmbedderIdentity(name=NONE, model=NONE, dimension=1, max_tokens=MAX_TOKENS)

    def embed_documents(self, texts: Sequence[str], progress: Progress = no_progress) -> Vectors:
        """One row ``[1]`` for each text."""
        return np.ones((len(texts), 1), dtype=np.float32)

    def embed_query(self, text: str) -> Vectors:
        """Raise :class:`UsageError`, because there is no model to embed a query."""
        raise no_vectors("the index")


def no_vectors(what: str) -> UsageError:
    """The error for a vector search in an index without vectors."""
    return UsageError(
        f"{what} has no vectors: its embedder is {NONE}",
        remedy="--embedder all-MiniLM-L6-v2 (or another model), or use keyword search: --predictor bm25",
    )
