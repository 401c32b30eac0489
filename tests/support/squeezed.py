"""An embedder whose cosines are ``a c + 1 - a``, where ``c`` are the cosines of another embedder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint

import numpy as np
import pytest
from msgspec.structs import replace

from branchrank.core.settings import IndexSettings
from branchrank.index.embedders import EMBEDDERS, open_embedder, token_embedder
from branchrank.index.embedders.protocol import DocumentVectors, QueryVectors, TokenEmbedder, Vectors


class SqueezedEmbedder:
    """Vectors ``(sqrt(a) v, sqrt(1 - a))``, which have one more dimension, and token vectors alike."""

    def __init__(self, inner: TokenEmbedder, a: float) -> None:
        self.inner, self.a = inner, a
        known = inner.identity
        self.identity = replace(known, name="squeezed", model=f"{a}", dimension=known.dimension + 1)

    def squeezed(self, rows: Vectors) -> Vectors:
        last = np.full((*rows.shape[:-1], 1), np.sqrt(1 - self.a))
        moved: Vectors = np.concatenate([np.sqrt(self.a) * rows, last], axis=-1).astype(np.float32)
        return moved

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return self.squeezed(self.inner.embed_documents(texts))

    def embed_query(self, text: str) -> Vectors:
        return self.squeezed(self.inner.embed_query(text))

    def embed_documents_and_tokens(self, texts: Sequence[str]) -> DocumentVectors:
        found = self.inner.embed_documents_and_tokens(texts)
        return DocumentVectors(self.squeezed(found.vectors), [*map(self.squeezed, found.tokens)])

    def embed_query_and_tokens(self, text: str) -> QueryVectors:
        return QueryVectors(*map(self.squeezed, self.inner.embed_query_and_tokens(text)))


def open_squeezed(model: str, notify: Callable[[str], None] | None) -> SqueezedEmbedder:
    """``squeezed:0.3/NAME`` is the embedder ``NAME`` with ``a`` = 0.3."""
    a, _, name = model.partition("/")
    return SqueezedEmbedder(token_embedder(open_embedder(IndexSettings(embedder=name)), name), float(a))


def install_squeezed(patch: pytest.MonkeyPatch) -> None:
    """Offer the embedder as if an installed package provided it."""
    entry = EntryPoint("squeezed", f"{__name__}:open_squeezed", EMBEDDERS.group)
    patch.setitem(EMBEDDERS.installed, "squeezed", entry)  # type: ignore[arg-type]
