"""Branch sources: how each kind of branch turns a query into a ranked list.

1. A source searches ``n`` deep, more where spans are excluded, so that the pool keeps its size.
2. Entries inside an excluded span are removed before anything is ranked.
3. The memo keeps the list by branch, depth and query; systems that share a branch share the search.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np

from branchrank.embedders.cache import EmbeddingCache, cached_query
from branchrank.index import Index
from branchrank.records import Node, Scored, Span
from branchrank.systems.memo import Memo
from branchrank.systems.spec import Branch, Unit

Vector = np.ndarray[tuple[int], np.dtype[np.float32]]

#: A branch's search: ``(sources, query, n)`` to a ranked list of at most ``n`` chunk ids.
BranchSearch = Callable[["Sources", str, int], Sequence[Scored]]


def squared_distance(similarity: float) -> float:
    """Squared L2 distance, in 0..4, of unit vectors with this cosine similarity."""
    return max(0.0, 2.0 - 2.0 * similarity)


class Sources:
    """Searches over one index.

    ``further`` maps branch kinds beyond vectors and BM25 to their search; ``cache`` remembers the vectors
    of queries from run to run.
    """

    def __init__(
        self,
        index: Index,
        memo: Memo,
        further: Mapping[str, BranchSearch] | None = None,
        cache: EmbeddingCache | None = None,
    ) -> None:
        self.index = index
        self.memo = memo
        self.further = further or {}
        self.cache = cache

    def embedding(self, query: str) -> Vector:
        """The query's vector, shape ``(d,)``, computed once per distinct query."""
        return self.memo.get(("embed", query), lambda: cached_query(self.index.embedder, self.cache, query))

    def search(self, branch: Branch, query: str, n: int, excluded: tuple[Span, ...] = ()) -> list[Scored]:
        """The branch's ranked list of at most ``n`` chunk or node ids, best first."""
        key = (branch.name, n, branch.threshold, query, excluded)
        return self.memo.get(key, lambda: self._searched(branch, query, n, excluded))

    def _searched(self, branch: Branch, query: str, n: int, excluded: tuple[Span, ...]) -> list[Scored]:
        banned = self.banned(branch.unit, excluded)
        depth = n + len(banned)
        found: Sequence[Scored]
        if branch.kind == "dense":
            found = self.index.vectors.search(self.embedding(query), depth)
            if branch.threshold is not None:
                found = [entry for entry in found if squared_distance(entry.score) < branch.threshold]
        elif branch.kind == "bm25":
            bm25 = self.index.bm25_chunks if branch.unit == "chunk" else self.index.bm25_nodes
            found = bm25.search(query, depth)
        else:
            found = self.further[branch.kind](self, query, depth)
        return [entry for entry in found if entry.key not in banned][:n]

    def banned(self, unit: Unit, excluded: tuple[Span, ...]) -> frozenset[str]:
        """The chunks whose lines lie inside an excluded span; the nodes that have no other chunk."""
        if not excluded:
            return frozenset()
        inside = self._banned_nodes if unit == "node" else self._banned_chunks
        return self.memo.get(("excluded", unit, excluded), lambda: inside(excluded))

    def _banned_chunks(self, excluded: tuple[Span, ...]) -> frozenset[str]:
        sources = {span.source for span in excluded}
        return frozenset(
            key
            for key, chunk in self.index.chunks.items()
            if chunk.source in sources
            and any(chunk.span.overlap(outer) == chunk.span.lines for outer in excluded)
        )

    def _banned_nodes(self, excluded: tuple[Span, ...]) -> frozenset[str]:
        chunks = self.banned("chunk", excluded)
        nodes = {node for chunk in chunks for node in self.nodes_of(chunk)}
        return frozenset(
            node for node in nodes if all(chunk.id in chunks for chunk in self.index.chunks_of(node))
        )

    def nodes_of(self, chunk_id: str) -> tuple[str, ...]:
        """The nodes that a chunk speaks for: by source and line overlap, else its file's node."""
        chunk = self.index.chunks[chunk_id]
        if chunk.node_id in self.index.tree.nodes:
            return (chunk.node_id,)
        overlapping = self.index.tree.overlapping(chunk.span)
        if overlapping:
            return tuple(node.id for node in overlapping)
        file = self.index.tree.file_node(chunk.source)
        return (file.id,) if file is not None else ()

    def bm25_scores(self, query: str, chunks: Sequence[str]) -> dict[str, float]:
        """BM25 of the named chunks."""
        bm25 = self.index.bm25_chunks
        scores = self.memo.get(("bm25 scores", query), lambda: bm25.scores(query))
        return {chunk: float(scores[self._chunk_rows[chunk]]) for chunk in chunks}

    @cached_property
    def hittable(self) -> frozenset[str]:
        """The nodes that can be hits: those with lines of their own."""
        return frozenset(self.index.bm25_nodes.ids)

    @cached_property
    def _chunk_rows(self) -> dict[str, int]:
        return {chunk: row for row, chunk in enumerate(self.index.bm25_chunks.ids)}

    def similarities(self, query: str, chunks: Sequence[str]) -> dict[str, float]:
        """Cosine similarity of the query to the named chunks."""
        vector = self.embedding(query)
        return {chunk: float(self.index.vectors.vector(chunk) @ vector) for chunk in chunks}

    def own_scores(self, query: str) -> dict[str, float]:
        """BM25 of every node's own text, those above 0."""
        return self.memo.get(("own scores", query), lambda: self._own_scores(query))

    def _own_scores(self, query: str) -> dict[str, float]:
        bm25 = self.index.bm25_nodes
        scores = bm25.scores(query)
        return {bm25.ids[row]: float(scores[row]) for row in np.flatnonzero(scores > 0)}

    def subtree_scores(self, query: str) -> Callable[[Sequence[Node]], dict[str, float]]:
        """A scorer of nodes: the largest BM25 score of any node in each one's subtree."""
        best = self.memo.get(("subtree scores", query), lambda: self._subtree_best(query))
        rows = self._rows
        return lambda nodes: {node.id: float(best[rows[node.id]]) for node in nodes}

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {node_id: row for row, node_id in enumerate(self.index.tree.nodes)}

    @cached_property
    def _bm25_rows(self) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        """The pre-order row of each node that the BM25 index holds."""
        return np.array([self._rows[node_id] for node_id in self.index.bm25_nodes.ids], dtype=np.intp)

    @cached_property
    def _subtree_ends(self) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        """For each pre-order row, one past the last row of its subtree."""
        ends = np.zeros(len(self._rows), dtype=np.intp)
        order = list(self.index.tree.nodes.values())
        for row in range(len(order) - 1, -1, -1):
            children = order[row].children
            ends[row] = ends[self._rows[children[-1]]] if children else row + 1
        return ends

    def _subtree_best(self, query: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        own = np.zeros(len(self._rows) + 1)
        own[self._bm25_rows] = self.index.bm25_nodes.scores(query)
        bounds = np.column_stack([np.arange(len(self._rows)), self._subtree_ends]).ravel()
        best: np.ndarray[tuple[int], np.dtype[np.float64]] = np.maximum.reduceat(own, bounds)[::2]
        return best
