"""No model at all: ``--embedder none`` makes an index that is searched by words alone.

Every chunk gets the same vector of one dimension, so that an index has one form. No query is embedded: a
system that asks for it is refused before any work (:func:`branchrank.systems.checks.check_embedder`).
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
    """Vectors that say nothing, of one dimension."""

    identity = EmbedderIdentity(name=NONE, model=NONE, dimension=1, max_tokens=MAX_TOKENS)

    def embed_documents(self, texts: Sequence[str], progress: Progress = no_progress) -> Vectors:
        """A row of 1 for each text."""
        return np.ones((len(texts), 1), dtype=np.float32)

    def embed_query(self, text: str) -> Vectors:
        """Raise :class:`UsageError`: a query has no vector."""
        raise no_vectors("the index")


def no_vectors(what: str) -> UsageError:
    """The error for a search by vectors in an index that has none."""
    return UsageError(
        f"{what} has no vectors: it was asked for with the embedder {NONE}",
        remedy="--embedder all-MiniLM-L6-v2 (or another model), or search by words: --predictor bm25",
    )
