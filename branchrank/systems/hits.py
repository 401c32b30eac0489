"""From candidates to hits: a chunk is its own passage, a node returns its best chunk or its own span."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from branchrank.ranking.lists import RankedList
from branchrank.ranking.passage_choice import best_passage
from branchrank.records import Hit, Node, Placement, Scored, Span
from branchrank.systems.sources import Sources, squared_distance
from branchrank.systems.spec import System

Placements = Mapping[str, Mapping[str, Placement]]


def make_hits(
    sources: Sources,
    system: System,
    query: str,
    candidates: Sequence[Scored],
    lists: Mapping[str, Sequence[Scored]],
    excluded: tuple[Span, ...],
) -> list[Hit]:
    """One hit per candidate, in their order, with its rank in every branch."""
    shown = {candidate.key for candidate in candidates}
    placed = {name: placements(ranking, shown) for name, ranking in lists.items()}
    make = HitMaker(sources, system, query, placed, sources.banned("chunk", excluded))
    return [make.hit(candidate) for candidate in candidates]


def placements(ranking: Sequence[Scored], shown: Collection[str]) -> dict[str, Placement]:
    """The rank, from 1, and the score of each shown key in a ranked list of distinct keys."""
    columns = RankedList.of(ranking)
    return {
        key: Placement(rank=rank, score=columns.scores[rank - 1])
        for rank, key in enumerate(columns.ids, start=1)
        if key in shown
    }


class HitMaker:
    """Makes the hits of one query; chunks in ``banned`` are no node's passage."""

    def __init__(
        self,
        sources: Sources,
        system: System,
        query: str,
        placed: Placements,
        banned: frozenset[str],
    ) -> None:
        self.sources = sources
        self.index = sources.index
        self.system = system
        self.query = query
        self.placed = placed
        self.banned = banned
        self.kinds = frozenset(branch.kind for branch in system.searched)

    def hit(self, candidate: Scored) -> Hit:
        """The hit of a chunk or a node."""
        if self.system.unit == "chunk":
            return self._passage(candidate, candidate.key)
        if self.system.returns == "passage":
            key = ("passage", candidate.key, self.query, self.kinds, self.banned)
            chunk_id = self.sources.memo.get(key, lambda: self._best(candidate.key))
            if chunk_id is not None:
                return self._passage(candidate, chunk_id)
        return self._section(candidate, self.index.tree.node(candidate.key))

    def _best(self, node_id: str) -> str | None:
        """The node's chunk that answers best, by the kinds of evidence that the system itself uses."""
        chunks = [chunk.id for chunk in self.index.chunks_of(node_id) if chunk.id not in self.banned]
        if len(chunks) < 2:
            return chunks[0] if chunks else None
        signals = []
        if "dense" in self.kinds:
            signals.append(self.sources.similarities(self.query, chunks))
        if self.kinds & {"bm25", "tree"}:
            signals.append(self.sources.bm25_scores(self.query, chunks))
        return best_passage(chunks, *signals)

    def _passage(self, candidate: Scored, chunk_id: str) -> Hit:
        chunk = self.index.chunks[chunk_id]
        return Hit(
            id=chunk.id,
            source=chunk.source,
            line_start=chunk.line_start,
            line_end=chunk.line_end,
            text=chunk.text,
            score=candidate.score,
            node_id=chunk.node_id,
            breadcrumb=chunk.breadcrumb,
            distance=self._distance(chunk.id),
            branches=self._branches(candidate.key),
        )

    def _section(self, candidate: Scored, node: Node) -> Hit:
        span = node.own_span
        assert span is not None
        return Hit(
            id=node.id,
            source=span.source,
            line_start=span.line_start,
            line_end=span.line_end,
            text=node.text,
            score=candidate.score,
            node_id=node.id,
            breadcrumb=node.breadcrumb,
            branches=self._branches(candidate.key),
        )

    def _branches(self, key: str) -> dict[str, Placement]:
        return {name: ranking[key] for name, ranking in self.placed.items() if key in ranking}

    def _distance(self, chunk_id: str) -> float | None:
        if "dense" not in self.kinds:
            return None
        key = ("distance", chunk_id, self.query)
        return self.sources.memo.get(
            key, lambda: squared_distance(self.sources.similarities(self.query, [chunk_id])[chunk_id])
        )
