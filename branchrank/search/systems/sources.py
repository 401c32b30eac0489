"""The query vectors, scores, nodes and document lines that systems look up in an index.

Results are memoized, so that a result that several systems need is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from branchrank.core.io.files import read_beneath
from branchrank.core.ranked_lists import RankedList
from branchrank.core.records import Node, Scored, Span
from branchrank.core.spec import Unit
from branchrank.documents.reading import document_text
from branchrank.documents.tree_nodes import Tree
from branchrank.index.embedders.cache import EmbeddingCache, cached_query
from branchrank.index.manifest import COSINE_SCALE
from branchrank.index.reader import Index
from branchrank.index.stores.arrays import Kept
from branchrank.search.systems.memo import Memo, caches_are_off
from branchrank.search.systems.query import Filter, Query

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
