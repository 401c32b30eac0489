"""Lookups in one index that all systems share: query vectors, scores of given passages, lines of files.

Results are memoised by everything they depend on, so systems that share a stage share its work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from branchrank.corpus.lines import decode, split_lines
from branchrank.embedders.cache import EmbeddingCache, cached_query
from branchrank.index import Index
from branchrank.records import Node, Span
from branchrank.safe_open import read_beneath
from branchrank.spec import Unit
from branchrank.systems.memo import Memo
from branchrank.systems.query import Filter, Query
from branchrank.tree.navigate import Tree

Vector = np.ndarray[tuple[int], np.dtype[np.float32]]


def span_of(key: str) -> Span:
    """Parse a key ``source:first-last`` into a span. Raises ``ValueError`` for any other key."""
    source, _, lines = key.rpartition(":")
    first, _, last = lines.partition("-")
    return Span(source=source, line_start=int(first), line_end=int(last))


class Sources:
    """Shared lookups over one index. ``cache`` stores the vectors of queries across runs."""

    def __init__(
        self, index: Index, corpus_root: Path, memo: Memo, cache: EmbeddingCache | None = None
    ) -> None:
        self.index = index
        self.corpus_root = corpus_root
        self.memo = memo
        self.cache = cache

    def embedding(self, query: str) -> Vector:
        """The query's vector, shape ``(d,)``, computed once per distinct query."""
        return self.memo.get(("embed", query), lambda: cached_query(self.index.embedder, self.cache, query))

    def lines(self, source: str) -> list[str]:
        """Return a document's raw lines, without line ends; empty when the file was deleted."""
        try:
            text, _ = decode(read_beneath(self.corpus_root, source))
        except OSError:
            return []
        return split_lines(text)

    def admitted_sources(self, filters: tuple[Filter, ...]) -> frozenset[str]:
        """The indexed documents that pass every filter."""
        sources = (entry.source for entry in self.index.manifest.files)
        return frozenset(source for source in sources if all(each.admits(source) for each in filters))

    def banned(self, unit: Unit, query: Query) -> frozenset[str]:
        """The chunks that the query excludes, or the nodes whose chunks are all excluded."""
        if not query.restricted or unit == "span":
            return frozenset()
        inside = self._banned_nodes if unit == "node" else self._banned_chunks
        key = ("excluded", unit, query.excluded, query.filters)
        return self.memo.get(key, lambda: inside(query))

    def admits(self, unit: Unit, query: Query) -> Callable[[str], bool]:
        """Return a function that tells whether the query admits a key of this unit."""
        if unit == "span":
            return lambda key: query.admits(span_of(key))
        banned = self.banned(unit, query)
        return lambda key: key not in banned

    def _banned_chunks(self, query: Query) -> frozenset[str]:
        sources = {span.source for span in query.excluded}
        return frozenset(
            key
            for key, chunk in self.index.chunks.items()
            if (query.filters or chunk.source in sources) and not query.admits(chunk.span)
        )

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
        """The nodes of a chunk: its own node, else those that its lines overlap, else its file's node."""
        chunk = self.index.chunks[chunk_id]
        if chunk.node_id in self.index.tree.nodes:
            return (chunk.node_id,)
        overlapping = self.index.tree.overlapping(chunk.span)
        if overlapping:
            return tuple(node.id for node in overlapping)
        file = self.index.tree.file_node(chunk.source)
        return (file.id,) if file is not None else ()

    def bm25_scores(self, query: str, chunks: Sequence[str]) -> dict[str, float]:
        """BM25 scores of the given chunks."""
        bm25 = self.index.bm25_chunks
        scores = self.memo.get(("bm25 scores", query), lambda: bm25.scores(query))
        return {chunk: float(scores[bm25.ids.row(chunk)]) for chunk in chunks}

    @cached_property
    def hittable(self) -> frozenset[str]:
        """The nodes that can be hits: those with lines of their own."""
        return frozenset(self.index.bm25_nodes.ids)

    def cosines(self, query: str, chunks: Sequence[str]) -> dict[str, float]:
        """Cosine similarities of the query to the given chunks, equal to those of a vector search."""
        scores = self.index.vectors.scores(self.embedding(query), chunks)
        return dict(zip(chunks, scores.tolist(), strict=True))

    def own_scores(self, query: str) -> dict[str, float]:
        """BM25 scores of the nodes' own texts, for the nodes that score above 0."""
        return self.memo.get(("own scores", query), lambda: self._own_scores(query))

    def _own_scores(self, query: str) -> dict[str, float]:
        bm25 = self.index.bm25_nodes
        scores = bm25.scores(query)
        return {bm25.ids[row]: float(scores[row]) for row in np.flatnonzero(scores > 0).tolist()}

    def tree(self, filters: tuple[Filter, ...]) -> Tree:
        """The tree of the documents that pass every filter."""
        if not filters:
            return self.index.tree
        return self.memo.get(("tree", filters), lambda: self.index.tree.only(self.admitted_sources(filters)))

    def subtree_scores(
        self, query: str, filters: tuple[Filter, ...] = ()
    ) -> Callable[[Sequence[Node]], dict[str, float]]:
        """Return a scorer of nodes: the best BM25 score in each one's subtree, after the filters."""
        best = self.memo.get(("subtree scores", query, filters), lambda: self._subtree_best(query, filters))
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

    def _subtree_best(
        self, query: str, filters: tuple[Filter, ...]
    ) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        own = np.zeros(len(self._rows) + 1)
        own[self._bm25_rows] = self.index.bm25_nodes.scores(query)
        if filters:
            admitted = self.admitted_sources(filters)
            own[[self._rows[node.id] for node in self.index.tree.sections if node.source not in admitted]] = 0
        bounds = np.column_stack([np.arange(len(self._rows)), self._subtree_ends]).ravel()
        best: np.ndarray[tuple[int], np.dtype[np.float64]] = np.maximum.reduceat(own, bounds)[::2]
        return best
