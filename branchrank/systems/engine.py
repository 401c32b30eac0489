"""The engine runs a system over an index.

1. Each branch gives a ranked list: chunks, or nodes where the branch expands over the tree or walks it. A
   branch of weight 0 isn't run.
2. The lists are fused and cut to the candidate cap.
3. Hits are grouped by document, where the system says so.
4. The reranker reorders the candidates, where there is one; its fallback is the fused order.
5. The first k become hits: a chunk is its own passage, a node returns its best chunk or its own span.

Nothing before step 5 depends on k (but for ``doubled`` branches, whose definition it is), so the top k
is a prefix of the top k + n. Every stage leaves its list in the trace.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from branchrank.embedders.cache import EmbeddingCache
from branchrank.index import Index
from branchrank.ranking.evidence import evidence
from branchrank.ranking.expansion import expand
from branchrank.ranking.fusion import convex, dbsf, rrf
from branchrank.ranking.grouping import group
from branchrank.ranking.lists import RankedList
from branchrank.records import Retrieval, Scored, Span
from branchrank.systems.hits import make_hits
from branchrank.systems.llm_stages import BoundStages, LLMStages
from branchrank.systems.memo import Memo
from branchrank.systems.sources import BranchSearch, Sources
from branchrank.systems.spec import Branch, Expand, Fuse, System
from branchrank.systems.tracing import Trace

#: Branches that wait for a process or a server, and so run side by side.
WAITING = frozenset({"grep", "qdrant-dense", "qdrant-sparse"})


class Engine:
    """Runs systems over one index. Not thread-safe for one trace; safe for several queries at once."""

    def __init__(
        self,
        index: Index,
        *,
        memo: Memo | None = None,
        further: Mapping[str, BranchSearch] | None = None,
        cache: EmbeddingCache | None = None,
        llm_stages: LLMStages | None = None,
    ) -> None:
        self.index = index
        self.memo = memo if memo is not None else Memo()
        self.sources = Sources(index, self.memo, further, cache)
        self.llm_stages = llm_stages or LLMStages()

    def retrieve(
        self,
        system: System,
        query: str,
        k: int,
        *,
        question_id: str = "",
        excluded: tuple[Span, ...] = (),
        repeat: int = 0,
    ) -> Retrieval:
        """Run one query. Returns at most ``k`` hits, best first, with the trace of every stage."""
        self.memo.begin_query()
        trace = Trace()
        stages = self.llm_stages.bound(system, question_id=question_id, repeat=repeat, trace=trace)
        lists = self._branches(system, query, k, excluded, stages, trace)
        with trace.timed("fuse"):
            candidates: Sequence[Scored] = fuse(
                lists, system.fuse, {branch.name: branch.weight for branch in system.searched}
            )
        trace.add("fusion", system.unit, candidates)
        if system.fuse.cap:
            candidates = candidates[: system.fuse.cap]
            trace.add("cap", system.unit, candidates)
        if system.group.by == "document":
            candidates = self._grouped(system, candidates)
            trace.add("group", system.unit, candidates)
        if system.rerank.method != "none":
            with trace.timed("rerank"):
                candidates = stages.rerank(self.index, self.sources, query, candidates, lists)
            trace.add("rerank", system.unit, candidates)
        with trace.timed("passages"):
            hits = make_hits(self.sources, system, query, candidates[:k], lists, excluded)
        trace.add("passages", "chunk", [Scored(hit.id, hit.score) for hit in hits])
        return Retrieval(
            hits=tuple(hits),
            trace=tuple(trace.stages),
            stage_ms=trace.stage_ms,
            calls=tuple(trace.calls),
            fallbacks=tuple(trace.fallbacks),
        )

    def _branches(
        self,
        system: System,
        query: str,
        k: int,
        excluded: tuple[Span, ...],
        stages: BoundStages,
        trace: Trace,
    ) -> dict[str, Sequence[Scored]]:
        """Every branch's list of what the fusion takes, by the branch's name."""
        branches = system.searched
        if any(branch.kind in ("dense", "qdrant-dense") for branch in branches):
            with trace.timed("embed"), trace.timed("embed cpu", time.process_time):
                self.sources.embedding(query)

        def search(branch: Branch) -> Sequence[Scored]:
            depth = 2 * k if branch.doubled else branch.top_n
            with trace.timed(branch.name):
                if branch.kind == "tree":
                    return stages.tree_search(self.index, self.sources, query, branch, excluded)
                return self.sources.search(branch, query, depth, excluded)

        if len(branches) > 1 and any(branch.kind in WAITING for branch in branches):
            with ThreadPoolExecutor(len(branches)) as pool:
                found = list(pool.map(search, branches))
        else:
            found = [search(branch) for branch in branches]
        lists = {}
        for branch, ranking in zip(branches, found, strict=True):
            trace.add(branch.name, branch.unit, ranking)
            if branch.expand is not None:
                ranking = self._expanded(branch, query, ranking, excluded, trace)
            lists[branch.name] = ranking
        return lists

    def _expanded(
        self,
        branch: Branch,
        query: str,
        shortlist: Sequence[Scored],
        excluded: tuple[Span, ...],
        trace: Trace,
    ) -> RankedList:
        """A chunk branch's nodes: mapped with evidence, then with their neighbours."""
        walk = branch.expand
        assert walk is not None
        key = (query, branch.name, branch.top_n, branch.threshold, excluded)
        with trace.timed("mapping"):
            seeds = self.memo.get(("mapping", *key), lambda: evidence(shortlist, self.sources.nodes_of))
        trace.add("mapping", "node", seeds)
        with trace.timed("expansion"):
            reached = self.memo.get(("expansion", walk, *key), lambda: self._reached(seeds, walk, excluded))
        trace.add("expansion", "node", reached)
        return reached

    def _reached(self, seeds: Sequence[Scored], walk: Expand, excluded: tuple[Span, ...]) -> RankedList:
        """Seeds and neighbours that can be hits: with lines of their own, some outside excluded spans."""
        nodes = expand(
            seeds, self.index.tree, depth=walk.depth, siblings=walk.siblings, file_roots=walk.file_roots
        )
        hittable = self.sources.hittable
        banned = self.sources.banned("node", excluded)
        return nodes.where([key in hittable and key not in banned for key in nodes.ids])

    def _grouped(self, system: System, candidates: Sequence[Scored]) -> Sequence[Scored]:
        groups = group(
            candidates,
            lambda key: self.index.chunks[key].source,
            aggregate=system.group.aggregate,
            members=system.group.members,
        )
        return [representative for representative, _ in groups]


def fuse(lists: Mapping[str, Sequence[Scored]], slot: Fuse, weights: Mapping[str, float]) -> RankedList:
    """Fuse the branches as the slot says. With ``unit_interval`` RRF scores are scaled to 0..1."""
    if slot.method == "convex":
        return convex(lists, weights)
    if slot.method == "dbsf":
        return dbsf(lists, weights)
    fused = rrf(lists, slot.k, weights)
    if not slot.unit_interval:
        return fused
    scale = (slot.k + 1) / (sum(weights.values()) or 1.0)
    # Rounding must not push a score past 1.
    return RankedList(fused.ids, tuple(min(1.0, score * scale) for score in fused.scores))
