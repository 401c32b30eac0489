"""The query vectors, token vectors, scores, nodes and document lines that systems look up in an index.

Results are memoized, so that a result that several systems need is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from branchrank.core.io.files import read_beneath
from branchrank.core.ranked_lists import RankedList
from branchrank.core.records import Node, Scored, Span
from branchrank.core.spec import Unit
from branchrank.documents.reading import document_text
from branchrank.documents.tree_nodes import Tree
from branchrank.index.embedders import token_embedder
from branchrank.index.embedders.cache import EmbeddingCache, TokenCache, cached_query
from branchrank.index.embedders.protocol import QueryVectors, TokenEmbedder, Vectors
from branchrank.index.manifest import COSINE_SCALE, MAXSIM_SCALE
from branchrank.index.maxsim import TokenVectors, maxsim, quantize, unit_tokens
from branchrank.index.reader import Index
from branchrank.index.stores.analyzer import embedded_text
from branchrank.index.stores.arrays import Kept
from branchrank.search.systems.memo import Memo, caches_are_off
from branchrank.search.systems.query import Filter, Query, Trace

#: The maximum number of chunks whose nodes are cached.
_KNOWN_CHUNKS = 1 << 14
Vector = np.ndarray[tuple[int], np.dtype[np.float32]]


@dataclass(eq=False)
class Sources:
    """Looks up query vectors, scores, lines and nodes in one index, for all systems.

    ``memo`` stores the results of lookups. ``cache`` keeps query vectors for later runs.
    """

    index: Index
    corpus_root: Path
    memo: Memo
    cache: EmbeddingCache | None = None
    _nodes_of: Kept[str, tuple[str, ...]] = field(default_factory=lambda: Kept(_KNOWN_CHUNKS), init=False)

    def embedding(self, query: str, embed: Callable[[str], Vector] | None = None) -> Vector:
        """Return the query's vector, with the shape ``(d,)``.

        A vector that isn't in the memo is computed by ``embed``, or else by the index's model.
        """
        cache = None if caches_are_off() else self.cache
        embed = embed or partial(cached_query, self.index.embedder, cache)
        return self.memo.get(("embed", query), lambda: embed(query))

    def lines(self, source: str) -> list[str]:
        """Return a document's lines without ``\\n``, or an empty list if the file can't be read."""
        try:
            text = document_text(source, read_beneath(self.corpus_root, source))
        except OSError:
            return []
        return text.removesuffix("\n").split("\n")

    def line_count(self, source: str) -> int:
        """Return the number of a document's lines, or 0 if the index does not have the document."""
        return len(self.lines(source)) if source in self.index.sources else 0

    def admitted_sources(self, filters: tuple[Filter, ...]) -> frozenset[str]:
        """Return the indexed documents that pass every filter."""
        return frozenset(
            source for source in self.index.sources if all(each.admits(source) for each in filters)
        )

    def banned(self, unit: Unit, query: Query) -> frozenset[str]:
        """Return the chunks or nodes that the query excludes.

        A node is excluded only if all its chunks are excluded.
        """
        if not query.restricted or unit == "span":
            return frozenset()
        inside = self._banned_nodes if unit == "node" else self._banned_chunks
        return self.memo.get(("excluded", unit, query.excluded, query.filters), lambda: inside(query))

    def admits(self, unit: Unit, query: Query) -> Callable[[str], bool]:
        """Return a function that checks whether the query's filters and exclusions allow a key.

        A key is a chunk id, a node id or a span, depending on ``unit``.
        """
        if unit == "span":
            return lambda key: query.admits(Span.of(key))
        banned = self.banned(unit, query)
        return lambda key: key not in banned

    def _banned_chunks(self, query: Query) -> frozenset[str]:
        chunks = self.index.chunks
        # Without filters, only sources with an excluded span can have excluded chunks.
        sources = chunks.sources if query.filters else sorted({span.source for span in query.excluded})
        banned: list[str] = []
        for source in sources:
            rows = chunks.in_source(source).tolist()
            if not all(each.admits(source) for each in query.filters):
                banned += (chunks.ids[row] for row in rows)
            else:
                banned += (chunks.ids[row] for row in rows if not query.admits(chunks.span(row)))
        return frozenset(banned)

    def _banned_nodes(self, query: Query) -> frozenset[str]:
        chunks = self.banned("chunk", query)
        nodes = {node for chunk in chunks for node in self.nodes_of(chunk)}
        if query.filters:
            admitted = self.admitted_sources(query.filters)
            nodes |= {node.id for node in self.index.tree.sections if node.source not in admitted}
        return frozenset(
            node for node in nodes if all(chunk.id in chunks for chunk in self.index.chunks_of(node))
        )

    def nodes_of(self, chunk_id: str) -> tuple[str, ...]:
        """Return the ids of the nodes that a chunk belongs to: one, or all whose lines the chunk overlaps.

        If the chunk's nodes are not in the tree, the nodes that overlap the chunk are returned. If no node
        overlaps the chunk, the node of the chunk's file is returned.
        """
        known = self._nodes_of.get(chunk_id)
        if known is None:
            known = self._nodes_of.keep(chunk_id, self._found_nodes(chunk_id))
        return known

    def _found_nodes(self, chunk_id: str) -> tuple[str, ...]:
        chunk = self.index.chunks[chunk_id]
        known = tuple(each for each in (chunk.node_ids or (chunk.node_id,)) if each in self.index.tree.nodes)
        if known:
            return known
        overlapping = self.index.tree.overlapping(chunk.span)
        if overlapping:
            return tuple(node.id for node in overlapping)
        file = self.index.tree.file_node(chunk.source)
        return (file.id,) if file is not None else ()

    def bm25_scores(self, query: str, chunks: Sequence[str]) -> dict[str, float]:
        """Return the BM25 scores of the given chunks."""
        bm25 = self.index.bm25_chunks
        scores = self.memo.get(("bm25 scores", query), lambda: bm25.scores(query))
        return {chunk: float(scores[bm25.ids.row(chunk)]) for chunk in chunks}

    @property
    def hittable(self) -> Container[str]:
        """The ids of the nodes that can be hits, because they have lines outside their subsections."""
        return self.index.bm25_nodes.ids

    def cosines(self, query: str, chunks: Sequence[str]) -> dict[str, float]:
        """Return the cosine similarity between the query and each chunk."""
        scores = self.index.vectors.scores(self.embedding(query), chunks)
        return dict(zip(chunks, scores.tolist(), strict=True))

    def on_scale(self, ranking: Sequence[Scored]) -> RankedList:
        """Return a list of cosine similarities, converted to the scale that all models share."""
        columns, spread = RankedList.of(ranking), self.index.manifest.cosines
        return RankedList(
            columns.ids, tuple(spread.convert(cosine, COSINE_SCALE) for cosine in columns.scores)
        )

    def own_scores(self, query: str, nodes: Iterable[str]) -> dict[str, float]:
        """Return the BM25 scores of the nodes' own texts. Nodes that score 0 are omitted."""
        bm25 = self.index.bm25_nodes
        scores = self.memo.get(("own scores", query), lambda: bm25.scores(query))
        known = {node: float(scores[bm25.ids.row(node)]) for node in nodes if node in bm25.ids}
        return {node: score for node, score in known.items() if score > 0}

    def tree(self, filters: tuple[Filter, ...]) -> Tree:
        """Return the tree of the documents that pass every filter."""
        if not filters:
            return self.index.tree
        return self.memo.get(("tree", filters), lambda: self.index.tree.only(self.admitted_sources(filters)))

    def subtree_scores(
        self, query: str, filters: tuple[Filter, ...] = ()
    ) -> Callable[[Sequence[Node]], dict[str, float]]:
        """Return a function that maps each node to the best BM25 score in its subtree.

        Documents that do not pass ``filters`` score 0.
        """
        best = self.memo.get(("subtree scores", query, filters), lambda: self._subtree_best(query, filters))
        row = self.index.tree.table.row
        return lambda nodes: {node.id: float(best[row(node.id)]) for node in nodes}

    def _subtree_best(
        self, query: str, filters: tuple[Filter, ...]
    ) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        table, ends = self.index.tree.table, self.index.tree.rows.ends
        own = np.zeros(len(ends) + 1)
        # The BM25 index contains, in pre-order, the nodes that have text outside their subsections.
        held = (table.line_starts > 0) & (table.line_ends >= table.line_starts)
        own[:-1][held] = self.index.bm25_nodes.scores(query)
        if filters:
            admitted = self.admitted_sources(filters)
            for source in set(self.index.sources) - admitted:
                own[table.in_source(source)] = 0
        bounds = np.column_stack([np.arange(len(ends)), ends]).ravel()
        best: np.ndarray[tuple[int], np.dtype[np.float64]] = np.maximum.reduceat(own, bounds)[::2]
        return best


@dataclass(frozen=True, eq=False)
class TokenVectorSource:
    """Provides the token vectors of queries and candidates, for late interaction, from one index.

    The token vectors of a candidate are read from the index, or computed when a query first retrieves the
    candidate. Computed vectors are rounded to the precision of stored vectors, so that both give the same
    scores.

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
        self,
        query: str,
        chunks: Sequence[str],
        trace: Trace,
        store: Callable[[Vectors, Sequence[str]], Mapping[str, float]] | None = None,
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
