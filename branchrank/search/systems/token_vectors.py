"""Token vectors of queries and candidates, for late interaction.

1. The token vectors of each distinct query are computed only once.
2. The token vectors of a candidate are read from the index. If the index has no token vectors, a candidate's
   token vectors are computed when a query first retrieves the candidate. Computed token vectors are cached in
   the workspace as int8.
3. If the system searches a store that has token vectors, such as Qdrant, the store computes MaxSim.
4. Computed vectors are rounded to the precision of stored vectors, so that computed and stored vectors give
   the same scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property

from branchrank.index.embedders import token_embedder
from branchrank.index.embedders.cache import TokenCache
from branchrank.index.embedders.protocol import QueryVectors, TokenEmbedder, Vectors
from branchrank.index.manifest import MAXSIM_SCALE
from branchrank.index.maxsim import TokenVectors, maxsim, quantize, unit_tokens
from branchrank.index.reader import Index
from branchrank.index.stores.analyzer import embedded_text
from branchrank.search.systems.branches import MaxSim
from branchrank.search.systems.memo import Memo, caches_are_off
from branchrank.search.systems.query import Trace


@dataclass(frozen=True, eq=False)
class TokenVectorSource:
    """Provides token vectors for one index.

    ``open_cache`` opens the cache of token vectors, which is closed when ``resources`` is closed. If
    ``open_cache`` is ``None``, candidates are embedded again for each query.
    """

    _index: Index
    _memo: Memo
    _resources: ExitStack
    _open_cache: Callable[[], TokenCache] | None

    def check(self) -> None:
        """Raise :class:`~branchrank.core.errors.UsageError` if the index's model can't compute token
        vectors."""
        _ = self._embedder, self._index.token_vectors

    def maxsim(
        self, query: str, chunks: Sequence[str], trace: Trace, store: MaxSim | None = None
    ) -> dict[str, float]:
        """Return the MaxSim between a query and each chunk, computed by ``store`` if a store is given.

        The scores are converted to the scale that all models share.

        Raises the same error as :meth:`check`.
        """
        if store is not None:
            with trace.timed("embed tokens"):
                rows = self._memo.get(("query token rows", query), lambda: self._query_rows(query))
            with trace.timed("maxsim"):
                return dict.fromkeys(chunks, 0.0) | self._on_scale(store(rows, chunks))
        with trace.timed("embed tokens"):
            tokens = self._memo.get(("query tokens", query), lambda: self._query(query))
        with trace.timed("candidate tokens"):
            documents = self._documents(chunks)
        with trace.timed("maxsim"):
            return self._on_scale(dict(zip(chunks, maxsim(tokens, documents).tolist(), strict=True)))

    def _on_scale(self, scores: Mapping[str, float]) -> dict[str, float]:
        spread = self._index.manifest.maxsims
        return {key: spread.convert(score, MAXSIM_SCALE) for key, score in scores.items()}

    def embedding(self, query: str) -> Vectors:
        """Return the query's vector. The model computes it together with those of the query's tokens."""
        return self._vectors(query).vector

    def _vectors(self, query: str) -> QueryVectors:
        return self._memo.get(("query vectors", query), lambda: self._embedder.embed_query_and_tokens(query))

    def _query(self, query: str) -> TokenVectors:
        kept = self._index.token_vectors
        return quantize(self._vectors(query).tokens, kept.precision if kept else "int8")

    def _query_rows(self, query: str) -> Vectors:
        """Return the query's token vectors.

        If the index has token vectors, the query's token vectors are rounded to the same precision.
        """
        if self._index.token_vectors is not None:
            return unit_tokens(self._query(query))
        return self._vectors(query).tokens

    def _documents(self, chunks: Sequence[str]) -> list[TokenVectors]:
        kept = self._index.token_vectors
        if kept is not None:
            return [kept.vectors(chunk) for chunk in chunks]
        texts = [embedded_text(self._index.chunks[chunk]) for chunk in chunks]
        if self._cache is not None and not caches_are_off():
            return self._cache.document_tokens(self._embedder, texts)
        return [quantize(rows, "int8") for rows in self._embedder.embed_documents_and_tokens(texts).tokens]

    @cached_property
    def _embedder(self) -> TokenEmbedder:
        return token_embedder(self._index.embedder, self._index.settings.embedder)

    @cached_property
    def _cache(self) -> TokenCache | None:
        if self._open_cache is None:
            return None
        cache = self._open_cache()
        self._resources.callback(cache.close)
        return cache
