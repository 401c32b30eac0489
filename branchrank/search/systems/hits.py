"""Turn candidates into hits.

1. If the system orders passages, the passages of all candidate sections are ranked in one list. The order
   ``rrf`` fuses the rank of a passage's section with the passage's rank in each branch's list of chunks. A
   branch that ranks sections ranks the chunks as well, for this list. The order ``scores`` adds 0.5 times
   the ratio of a passage's BM25 score to the best BM25 score to its cosine, on the scale that all models
   share. If no branch searches vectors, the cosine is omitted. If no branch searches words, the BM25 term is
   omitted. With a reranker, the passage with the best score of each section comes first, in the order of the
   reranker or of its fallback, and all other passages follow in the chosen order.
2. If the system returns passages, the hit for a node is the node's best chunk. If the system returns
   sections, the hit for a node consists of the node's lines before its first subsection.
3. A hit records its rank in each branch's list. For a branch with ``expand`` set, the rank and the score of a
   section are those of its best chunk in the branch's list of chunks. A section that has no chunk in the list
   has no rank, and a note explains how the expansion reached the section.
4. If the system extends passages, the hits are extended within their sections, best hit first. A hit that
   repeats the lines or the text of an earlier hit is dropped. A chunk that overlaps several sections is shown
   once, and is extended within all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec

from branchrank.core.ranked_lists import RankedList, ranked
from branchrank.core.records import Hit, Node, Placement, Scored, Span
from branchrank.core.spec import Fuse
from branchrank.index.stores.vectors import squared_distance
from branchrank.search.ranking.fusion import fuse
from branchrank.search.ranking.passages import Lines, best_passage, by_rrf, led_by_sections, placed
from branchrank.search.systems.branches import BranchResult, label
from branchrank.search.systems.query import Asked
from branchrank.search.systems.sources import Sources
from branchrank.search.systems.system_checks import passage_evidence


class BranchLists(NamedTuple):
    """The ranked lists to fuse and the results of the branches, keyed by branch name."""

    lists: dict[str, Sequence[Scored]]
    results: dict[str, BranchResult]


def ordered_passages(
    sources: Sources,
    asked: Asked,
    pools: tuple[Sequence[Scored], Sequence[Scored] | None],
    lists: Mapping[str, Sequence[Scored]],
) -> tuple[RankedList, dict[str, str]]:
    """Order the passages of the candidate sections.

    ``pools`` contains the sections before and after the reranker, or ``None`` if the system has no reranker.
    ``lists`` contains each branch's list of chunks, which the order ``rrf`` fuses. Return the chunks, best
    first, and a map from each chunk to its section.
    """
    pool, reranked = RankedList.of(pools[0]).ids, pools[1]
    banned = sources.banned("chunk", asked.query)
    section_of: dict[str, str] = {}
    for section in pool:
        for chunk in sources.index.chunks_of(section):
            if chunk.id not in banned:
                section_of.setdefault(chunk.id, section)
    evidence, query = passage_evidence(asked.system), asked.query.text
    chunks = tuple(sorted(section_of))

    def by_score() -> RankedList:
        lists: dict[str, RankedList] = {}
        if "vectors" in evidence:
            lists["vectors"] = sources.on_scale(ranked(sources.cosines(query, chunks)))
        if "words" in evidence:
            lists["words"] = ranked(sources.bm25_scores(query, chunks))
        return fuse(lists, Fuse(method="score"), {}, shares=("words",))

    def best() -> RankedList:
        return sources.memo.get(("passage scores", query, evidence, chunks), by_score)

    if asked.system.passages.order == "rrf":
        weights = {label(branch): branch.weight for branch in asked.system.searched}
        passages = by_rrf(section_of, pool, lists, asked.system.fuse.k, weights)
    else:
        passages = best()
    if reranked is None:
        return passages, section_of
    return led_by_sections(passages, best(), section_of, RankedList.of(reranked).ids), section_of


class HitMaker:
    """Builds the hits for one query from the candidates and the branches' lists."""

    def __init__(
        self, sources: Sources, asked: Asked, found: BranchLists, sections: Mapping[str, str]
    ) -> None:
        """``sections`` maps each candidate passage to its section, if the system orders passages."""
        self.sources = sources
        self.index = sources.index
        self.lines = cache(sources.lines)
        self.system = asked.system
        self.query = asked.query
        self.lists, self.results = found
        self.sections = sections
        self.banned = sources.banned("chunk", asked.query)
        self.evidence = passage_evidence(asked.system)
        self.expanded = frozenset(label(each) for each in self.system.searched if each.expand is not None)
        self.placed: dict[str, dict[str, Placement]] = {}
        self.reached: dict[str, dict[str, str]] = {}
        self.passages: dict[str, str | None] = {}
        self.distances: dict[str | None, float] = {}
        #: The lines of each document into which no passage is extended: excluded lines, and earlier hits.
        self._above: defaultdict[str, list[Lines]] = defaultdict(list)
        for span in asked.query.excluded:
            self._above[span.source].append((span.line_start, span.line_end))
        self._texts: set[str] = set()
        self._shown: set[str] = set()

    def hits(
        self, candidates: Sequence[Scored], k: int, members: Mapping[str, Sequence[Scored]]
    ) -> list[Hit]:
        """Return the first ``k`` hits. ``members`` maps each candidate to the members of its group."""
        if self.query.excluded and self.system.unit == "node" and self.system.returns == "section":
            nodes = self.index.tree.nodes
            candidates = [
                each
                for each in candidates
                if (span := nodes[each.key].own_span) is None or self.query.admits(span)
            ]
        found: list[Hit] = []
        start = 0
        while len(found) < k and start < len(candidates):
            batch = candidates[start : start + k - len(found)]
            found += filter(None, map(self._laid, self._made(batch, members)))
            start += len(batch)
        return found

    def _made(self, candidates: Sequence[Scored], groups: Mapping[str, Sequence[Scored]]) -> list[Hit]:
        """Return one hit for each candidate."""
        grouped = {each.key for candidate in candidates for each in groups.get(candidate.key, ())}
        shown = {self.sections.get(candidate.key, candidate.key) for candidate in candidates} | grouped
        self.placed = {name: self._placements(name, ranking, shown) for name, ranking in self.lists.items()}
        self.passages = {key: self._passage_of(key) for key in (*(each.key for each in candidates), *grouped)}
        chunks = [chunk for chunk in self.passages.values() if chunk is not None]
        if chunks and "vectors" in self.evidence:
            # Make one call for all hits, because each call costs as much as about a hundred cosines.
            cosines = self.sources.cosines(self.query.text, chunks)
            self.distances = {chunk: squared_distance(cosine) for chunk, cosine in cosines.items()}
        return [
            self._hit(candidate, tuple(self._hit(each) for each in groups.get(candidate.key, ())))
            for candidate in candidates
        ]

    def _placements(
        self, name: str, ranking: Sequence[Scored], shown: Collection[str]
    ) -> dict[str, Placement]:
        """Return the rank and score that each key in ``shown`` has in a branch's list. Ranks start at 1.

        If the branch has ``expand`` set, a node has the rank and score of its best chunk in the list before
        expansion.
        """
        if name not in self.expanded:
            columns = RankedList.of(ranking)
            return {
                key: Placement(rank=rank, score=columns.scores[rank - 1])
                for rank, key in enumerate(columns.ids, start=1)
                if key in shown
            }
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

    def _hit(self, candidate: Scored, members: tuple[Hit, ...] = ()) -> Hit:
        chunk_id = self.passages[candidate.key]
        key = self.sections.get(candidate.key, candidate.key)
        notes = {name: result.notes for name, result in self.results.items()} | self.reached
        matched = {line for result in self.results.values() for line in result.matched.get(key, ())}
        known: dict[str, Any] = {
            "score": candidate.score,
            "branches": {name: ranking[key] for name, ranking in self.placed.items() if key in ranking},
            "notes": {name: each[key] for name, each in notes.items() if key in each},
            "matched": tuple(sorted(matched)),
        }
        plain = ""
        if chunk_id is not None:
            chunk = self.index.chunks[chunk_id]
            key, span, plain, breadcrumb = chunk.id, chunk.span, chunk.text, chunk.breadcrumb
            if not breadcrumb and chunk.node_id in self.index.tree.nodes:
                breadcrumb = self.index.tree.node(chunk.node_id).breadcrumb
            known |= {"node_id": chunk.node_id, "breadcrumb": breadcrumb, "members": members}
            known["distance"] = self.distances.get(chunk_id)
        elif self.system.unit == "span":
            span = Span.of(key)
        else:
            node = self.index.tree.node(key)
            assert node.own_span is not None
            span, plain = node.own_span, node.text
            known |= {"node_id": node.id, "breadcrumb": node.breadcrumb}
        first, last = span.line_start, span.line_end
        hit = Hit(id=key, source=span.source, line_start=first, line_end=last, text=plain, **known)
        text = self._text(hit.span)
        if text is None:  # the document was deleted or is shorter now, so its lines can't be marked
            return msgspec.structs.replace(hit, matched=())
        plain = _plain(text) if self.system.unit == "span" else hit.plain
        return msgspec.structs.replace(hit, text=text, plain=plain)

    def _text(self, span: Span) -> str | None:
        """Return the lines of a span as they are in the file, or ``None`` if the file lacks them."""
        lines = self.lines(span.source)[span.line_start - 1 : span.line_end]
        return "\n".join(lines).removesuffix("\r") if len(lines) == span.lines else None

    def _laid(self, hit: Hit) -> Hit | None:
        """Return the extended hit, or ``None`` if earlier hits already show the same lines or text.

        If the system neither orders nor extends passages, only a chunk that an earlier hit shows is dropped:
        a chunk that overlaps several sections can be the best passage of each of them.
        """
        if hit.id in self._shown:
            return None
        self._shown.add(hit.id)
        if not self.system.passages.lines and not self.sections:
            return hit
        laid = self._grown(hit) if self.system.passages.lines else hit
        if laid is None:
            return None
        text = " ".join(laid.plain.split())
        if text in self._texts:
            return None
        self._texts.add(text)
        self._above[laid.source].append((laid.line_start, laid.line_end))
        return laid

    def _grown(self, hit: Hit) -> Hit | None:
        """Return the hit extended to the system's number of lines, without the lines of earlier hits."""
        passage = section = (hit.line_start, hit.line_end)
        node = self.index.tree.nodes.get(hit.node_id or "")
        if node is not None:
            section = self._around(node, hit.span)
        lines = placed(passage, section, self._above[hit.source], self.system.passages.lines)
        if lines is None or lines == passage:
            return hit if lines else None
        first, last = lines
        text = self._text(Span(source=hit.source, line_start=first, line_end=last))
        if text is None:
            return hit if first <= hit.line_start and hit.line_end <= last else None
        return msgspec.structs.replace(
            hit,
            line_start=first,
            line_end=last,
            text=text,
            plain=_plain(text),
            matched=tuple(line for line in hit.matched if first <= line <= last),
        )

    def _around(self, node: Node, span: Span) -> Lines:
        """Return the lines of a passage's section, or of all its sections if it is not inside one."""
        own = node.own_span
        is_inside = own is not None and own.overlap(span) == span.lines
        nodes = (node,) if is_inside else self.index.tree.overlapping(span)
        spans = [span, *(each.own_span for each in nodes if each.own_span is not None)]
        return min(each.line_start for each in spans), max(each.line_end for each in spans)


def _plain(text: str) -> str:
    """Return the plain text of raw lines that are not a whole chunk or section: the lines themselves."""
    return text.replace("\r\n", "\n")
