"""Turn candidates into hits.

If the system returns passages, the hit for a node is the node's best chunk. If the system returns sections,
the hit for a node consists of the node's lines before its first subsection.

A hit records its rank in each branch's list. For a branch with ``expand`` set, the rank and the score of a
section are those of its best chunk in the branch's list of chunks. A section that has no chunk in the list
has no rank, and a note explains how the expansion reached the section.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from branchrank.ranking.lists import RankedList
from branchrank.ranking.passage_choice import best_passage
from branchrank.records import Chunk, Hit, Node, Placement, Scored
from branchrank.spec import System
from branchrank.stores.vectors import squared_distance
from branchrank.systems.branches import BranchResult, label
from branchrank.systems.passage_layout import PassageLayout
from branchrank.systems.passage_order import passage_evidence
from branchrank.systems.query import Query
from branchrank.systems.sources import Sources, span_of

Lists = Mapping[str, Sequence[Scored]]


def placements(ranking: Sequence[Scored], shown: Collection[str]) -> dict[str, Placement]:
    """Return the rank and score of each key in ``shown`` that the ranked list contains. Ranks start at 1."""
    columns = RankedList.of(ranking)
    return {
        key: Placement(rank=rank, score=columns.scores[rank - 1])
        for rank, key in enumerate(columns.ids, start=1)
        if key in shown
    }


class HitMaker:
    """Builds the hits for one query.

    ``lists`` maps branch names to the ranked lists that were fused. ``results`` maps branch names to the
    results of the branches.
    """

    def __init__(
        self,
        sources: Sources,
        system: System,
        query: Query,
        lists: Lists,
        results: Mapping[str, BranchResult],
        sections: Mapping[str, str],
    ) -> None:
        """``sections`` maps each candidate passage to its section."""
        self.sources = sources
        self.index = sources.index
        self.system = system
        self.query = query
        self.lists = lists
        self.results = results
        self.sections = sections
        self.banned = sources.banned("chunk", query)
        self.evidence = passage_evidence(system)
        self.expanded = frozenset(label(branch) for branch in system.searched if branch.expand is not None)
        self.placed: dict[str, dict[str, Placement]] = {}
        self.reached: dict[str, dict[str, str]] = {}
        self.passages: dict[str, str | None] = {}
        self.distances: dict[str, float] = {}

    def hits(
        self, candidates: Sequence[Scored], k: int, members: Mapping[str, Sequence[Scored]]
    ) -> list[Hit]:
        """Return the first ``k`` hits. ``members`` maps each candidate to the members of its group."""
        lines = self.system.passages.lines
        if not lines and not self.sections:
            return self._made(candidates[:k], members)
        layout = PassageLayout(self.sources, lines)
        found: list[Hit] = []
        start = 0
        while len(found) < k and start < len(candidates):
            batch = candidates[start : start + k - len(found)]
            found += filter(None, map(layout.place, self._made(batch, members)))
            start += len(batch)
        return found

    def _made(self, candidates: Sequence[Scored], groups: Mapping[str, Sequence[Scored]]) -> list[Hit]:
        """Return one hit for each candidate."""
        shown = {self.sections.get(candidate.key, candidate.key) for candidate in candidates}
        grouped = {each.key for candidate in candidates for each in groups.get(candidate.key, ())}
        shown |= grouped
        self.placed = {name: self._placements(name, ranking, shown) for name, ranking in self.lists.items()}
        self.passages = {key: self._passage_of(key) for key in (*(each.key for each in candidates), *grouped)}
        self.distances = self._distances([chunk for chunk in self.passages.values() if chunk is not None])
        return [
            self._hit(candidate, tuple(self._hit(each) for each in groups.get(candidate.key, ())))
            for candidate in candidates
        ]

    def _placements(
        self, name: str, ranking: Sequence[Scored], shown: Collection[str]
    ) -> dict[str, Placement]:
        """Return the rank and score that each key in ``shown`` has in a branch's list.

        If the branch has ``expand`` set, a node has the rank and score of its best chunk in the list before
        expansion.
        """
        if name not in self.expanded:
            return placements(ranking, shown)
        reached = set(RankedList.of(ranking).ids).intersection(shown)
        placed: dict[str, Placement] = {}
        best_of_file: dict[str, int] = {}
        for rank, (chunk, score) in enumerate(self.results[name].ranking, start=1):
            best_of_file.setdefault(self.index.chunks[chunk].source, rank)
            for node in reached.intersection(self.sources.nodes_of(chunk)):
                placed.setdefault(node, Placement(rank=rank, score=score))
        for node in reached - placed.keys():
            near = best_of_file.get(self.index.tree.node(node).source)
            # In the tree, a page can be below a section of another page.
            came = f"its file's #{near}" if near else "a neighboring page"
            self.reached.setdefault(name, {})[node] = f"reached from {came}"
        return placed

    def _hit(self, candidate: Scored, members: tuple[Hit, ...] = ()) -> Hit:
        if self.system.unit == "span":
            return self._span(candidate)
        chunk_id = self.passages[candidate.key]
        if chunk_id is None:
            return self._section(candidate, self.index.tree.node(candidate.key))
        return self._passage(candidate, chunk_id, members)

    def _passage_of(self, key: str) -> str | None:
        """Return the chunk that a candidate's hit shows, or ``None`` if the hit shows a span or a section."""
        if self.system.unit == "span":
            return None
        if self.system.unit == "chunk" or key in self.sections:
            return key
        if self.system.returns != "passage":
            return None
        known = ("passage", key, self.query.text, self.evidence, self.banned)
        return self.sources.memo.get(known, lambda: self._best(key))

    def _best(self, node_id: str) -> str | None:
        """Return the node's best chunk by cosine similarity, BM25 or both, depending on the branches."""
        chunks = [chunk.id for chunk in self.index.chunks_of(node_id) if chunk.id not in self.banned]
        if len(chunks) < 2:
            return chunks[0] if chunks else None
        signals = []
        if "vectors" in self.evidence:
            signals.append(self.sources.cosines(self.query.text, chunks))
        if "words" in self.evidence:
            signals.append(self.sources.bm25_scores(self.query.text, chunks))
        return best_passage(chunks, *signals)

    def _passage(self, candidate: Scored, chunk_id: str, members: tuple[Hit, ...] = ()) -> Hit:
        chunk = self.index.chunks[chunk_id]
        found = self.sections.get(candidate.key, candidate.key)
        return chunk_hit(
            chunk,
            candidate.score,
            distance=self.distances.get(chunk_id),
            branches=self._branches(found),
            notes=self._notes(found),
            matched=self._matched(found),
            members=members,
        )

    def _span(self, candidate: Scored) -> Hit:
        span = span_of(candidate.key)
        lines = self.sources.lines(span.source)[span.line_start - 1 : span.line_end]
        return Hit(
            id=candidate.key,
            source=span.source,
            line_start=span.line_start,
            line_end=span.line_end,
            text="\n".join(lines),
            score=candidate.score,
            branches=self._branches(candidate.key),
            notes=self._notes(candidate.key),
            matched=self._matched(candidate.key),
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
            notes=self._notes(candidate.key),
        )

    def _branches(self, key: str) -> dict[str, Placement]:
        return {name: ranking[key] for name, ranking in self.placed.items() if key in ranking}

    def _notes(self, key: str) -> dict[str, str]:
        found = {name: result.notes for name, result in self.results.items()} | self.reached
        return {name: notes[key] for name, notes in found.items() if key in notes}

    def _matched(self, key: str) -> tuple[int, ...]:
        found = {line for result in self.results.values() for line in result.matched.get(key, ())}
        return tuple(sorted(found))

    def _distances(self, chunks: Sequence[str]) -> dict[str, float]:
        """Return each chunk's squared L2 distance to the query, or ``{}`` if the system uses no vectors."""
        if not chunks or "vectors" not in self.evidence:
            return {}
        # Make one call for all hits, because each call costs as much as about a hundred cosines.
        found = self.sources.cosines(self.query.text, chunks)
        return {chunk: squared_distance(cosine) for chunk, cosine in found.items()}


def chunk_hit(chunk: Chunk, score: float = 0.0, **more: object) -> Hit:
    """Return a hit with the lines of a chunk. ``more`` contains the hit's other fields."""
    return Hit(
        id=chunk.id,
        source=chunk.source,
        line_start=chunk.line_start,
        line_end=chunk.line_end,
        text=chunk.text,
        score=score,
        node_id=chunk.node_id,
        breadcrumb=chunk.breadcrumb,
        **more,  # type: ignore[arg-type]
    )
