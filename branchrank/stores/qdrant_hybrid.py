"""Hybrid search over a Qdrant collection: sparse BM25 and dense vectors at once, fused here.

1. Both branches fetch 2N. They run side by side; the dense one embeds the query first, which the sparse one
   does not wait for. The whole takes about as long as the longer of the two.
2. ``score(d) = (1 - w) / (k + rank_sparse(d)) + w / (k + rank_dense(d))``, k 60; a point in both lists is one
   entry. (Qdrant's own weighted RRF is another formula.) A branch of weight 0 contributes nothing.
3. Metadata filters apply inside each branch, before anything is ranked.
4. A collection without sparse vectors is searched by its dense vectors alone, and the answer says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from branchrank.embedders.cache import EmbeddingCache, cached_query
from branchrank.embedders.protocol import Embedder, Vectors
from branchrank.ranking.fusion import rrf
from branchrank.records import Chunk, Record, Scored
from branchrank.stores.indexed_text import chunk_terms
from branchrank.stores.qdrant_points import Bm25Encoder, Filters, Point, QdrantCollection

RRF_K = 60
DENSE_ONLY = "the collection has no sparse vectors: dense search only"


class HybridAnswer(Record, frozen=True, kw_only=True):
    """The fused list, the two lists it came from, and what a person should know of the search."""

    ranking: tuple[Scored, ...]
    dense: tuple[Scored, ...]
    sparse: tuple[Scored, ...]
    notices: tuple[str, ...] = ()


class QdrantHybrid:
    """Hybrid search over one collection. Safe for several threads."""

    def __init__(
        self, collection: QdrantCollection, embedder: Embedder, *, cache: EmbeddingCache | None = None
    ) -> None:
        """``cache`` is asked for a query's vector before ``embedder`` is."""
        self.collection = collection
        self._embedder = embedder
        self._cache = cache
        self._encoder = Bm25Encoder()
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="qdrant")

    def dense(self, query: str, n: int, filters: Filters | None = None) -> list[Scored]:
        """Embed the query and find the ``n`` nearest."""
        return self.collection.dense(cached_query(self._embedder, self._cache, query), n, filters)

    def sparse(self, query: str, n: int, filters: Filters | None = None) -> list[Scored]:
        """The ``n`` best by BM25 of the query's own words; none without sparse vectors."""
        if not self.collection.has_sparse:
            return []
        return self.collection.sparse(self._encoder.query(query), n, filters)

    def search(
        self,
        query: str,
        n: int,
        *,
        fusion_weight: float = 0.5,
        k: int = RRF_K,
        filters: Filters | None = None,
    ) -> HybridAnswer:
        """The best ``n``. ``fusion_weight`` 0 is sparse alone, 1 dense alone.

        Raises ``ValueError`` for a weight outside 0..1, and what the branches raise.
        """
        _check(fusion_weight)
        dense = self._threads.submit(self.dense, query, 2 * n, filters)
        sparse = self._threads.submit(self.sparse, query, 2 * n, filters)
        return self._fused(dense.result(), sparse.result(), n, fusion_weight, k)

    async def search_async(
        self,
        query: str,
        n: int,
        *,
        fusion_weight: float = 0.5,
        k: int = RRF_K,
        filters: Filters | None = None,
    ) -> HybridAnswer:
        """The same for a caller with an event loop, which is never blocked."""
        _check(fusion_weight)
        loop = asyncio.get_running_loop()
        dense, sparse = await asyncio.gather(
            loop.run_in_executor(self._threads, self.dense, query, 2 * n, filters),
            loop.run_in_executor(self._threads, self.sparse, query, 2 * n, filters),
        )
        return self._fused(dense, sparse, n, fusion_weight, k)

    def close(self) -> None:
        """Close the collection and end the threads."""
        self._threads.shutdown()
        self.collection.close()

    def _fused(
        self, dense: list[Scored], sparse: list[Scored], n: int, fusion_weight: float, k: int
    ) -> HybridAnswer:
        hybrid = self.collection.has_sparse
        weight = fusion_weight if hybrid else 1.0
        fused = rrf({"dense": dense, "sparse": sparse}, k, {"dense": weight, "sparse": 1.0 - weight})
        return HybridAnswer(
            ranking=tuple(fused[:n]),
            dense=tuple(dense),
            sparse=tuple(sparse),
            notices=() if hybrid else (DENSE_ONLY,),
        )


def chunk_points(chunks: Sequence[Chunk], vectors: Vectors) -> list[Point]:
    """A point per chunk; ``vectors`` are their unit rows, ``(len(chunks), d)``."""
    return [
        Point(
            key=chunk.id,
            vector=vector,
            text=chunk_terms(chunk),
            payload={
                "file_path": chunk.source,
                "node_id": chunk.node_id,
                "line_start": chunk.line_start,
                "line_end": chunk.line_end,
            },
        )
        for chunk, vector in zip(chunks, vectors, strict=True)
    ]


def _check(fusion_weight: float) -> None:
    if not 0.0 <= fusion_weight <= 1.0:
        raise ValueError(f"fusion_weight must lie in 0..1, not {fusion_weight}")
