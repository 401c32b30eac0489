"""The engine, which runs systems over an index for the commands, the library and the servers.

1. Each branch returns a ranked list of chunks, spans or nodes. The tree search returns nodes of the document
   tree, and so do branches with ``expand`` set. Branches with weight 0 are run only if no other branch is
   available: a Qdrant collection may have no sparse vectors. If one of a system's branches waits for a
   process or a server, the branches run in parallel.
2. Entries that the query's exclusions or filters reject are removed from the lists.
3. The lists are fused, and the fused list is truncated to the candidate cap.
4. If the system rescores its candidates, the weighted MaxSim of each top-ranked candidate is added to the
   candidate's score.
5. If the system groups its candidates by document, each document becomes one candidate.
6. If the system reranks with a weight above 0, the reranker reorders the candidates. If the reranker's LLM
   fails, the candidates are put in the reranker's fallback order.
7. If the system orders passages, the passages of all candidate sections are ranked in one list.
8. The first k candidates become hits. If the system returns passages, the hit for a node is the node's best
   chunk. If the system returns sections, the hit for a node consists of the node's lines before its first
   subsection. A hit may be extended within its section.

Steps 1 to 7 depend on k only if a branch has ``doubled`` set, because such a branch returns 2k results. If no
branch has ``doubled`` set, a larger k only appends hits to the list. Every stage adds its list to the trace.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from threading import Lock, RLock
from typing import Any

import msgspec

from branchrank.core.errors import UsageError
from branchrank.core.io import Closing
from branchrank.core.io.progress import Notify, no_notice
from branchrank.core.ranked_lists import RankedList, add_scores, group, ranked
from branchrank.core.records import Retrieval, Scored
from branchrank.core.settings import Resolved
from branchrank.core.spec import Branch, Expand, System
from branchrank.index.embedders.cache import EmbeddingCache, TokenCache
from branchrank.index.reader import Index
from branchrank.search.ranking.fusion import fuse
from branchrank.search.systems.branches import (
    BranchKind,
    BranchResult,
    Lookup,
    MaxSim,
    Opening,
    Search,
    branch_kind,
    label,
)
from branchrank.search.systems.hits import BranchLists, HitMaker, ordered_passages
from branchrank.search.systems.memo import Memo
from branchrank.search.systems.query import Asked, LLMStages, Query
from branchrank.search.systems.sources import Sources, TokenVectorSource
from branchrank.search.systems.system_checks import depth, orders_passages, scaled_branches, timed_together


class Engine(Closing):
    """Runs systems over one index. A context manager, thread-safe if the memo is thread-safe.

    ``corpus_root`` is the folder with the documents. ``cache`` keeps query vectors for later runs, and
    ``open_token_cache`` opens the cache for the candidates' token vectors. ``llm_stages`` creates the LLM
    stages for each query. Branches open their resources once, on first use.
    """

    def __init__(
        self,
        index: Index,
        corpus_root: Path,
        settings: Resolved,
        *,
        memo: Memo | None = None,
        cache: EmbeddingCache | None = None,
        llm_stages: LLMStages | None = None,
        open_token_cache: Callable[[], TokenCache] | None = None,
    ) -> None:
        self.index = index
        #: The engines of the indexes that a branch can name, which must have the same chunks as ``index``.
        self.others: Mapping[str, Engine] = {}
        self.settings = settings
        self.memo = memo if memo is not None else Memo()
        self.sources = Sources(index, corpus_root, self.memo, cache)
        self.llm_stages = llm_stages or LLMStages()
        self._resources = ExitStack()
        self._open_token_cache = open_token_cache
        self._opening = Opening(index, corpus_root, settings, self._resources)
        #: The functions of the branch kinds, by the name of the method that opened them and the kind.
        self._opened: dict[tuple[str, str], Any] = {}
        self._lock = RLock()

    @cached_property
    def token_vectors(self) -> TokenVectorSource:
        """The token vectors of the index and of queries."""
        return TokenVectorSource(self.index, self.memo, self._resources, self._open_token_cache)

    def close(self) -> None:
        """Close the resources of the branches, but not the index."""
        with self._lock:
            self._opened.clear()
            self._resources.close()

    def open(self, system: System) -> None:
        """Open the resources of the system's branches before the first query."""
        for branch in system.searched:
            self._on(branch)._function("open", branch.kind)
        if system.rescore.method == "maxsim":
            self.token_vectors.check()
            self._maxsim(system)

    def retrieve(self, system: System, query: str | Query, k: int, notify: Notify = no_notice) -> Retrieval:
        """Run one query. Return at most ``k`` hits, best first, with the trace of every stage.

        A string is a query without keywords, filters and excluded spans. ``notify`` is called with a line of
        text for each call of a tool by an agent. Raises any error of a branch, such as
        :class:`~branchrank.core.errors.MissingDependencyError`.
        """
        for engine in {self, *map(self._on, system.branches)}:
            engine.memo.begin_query()
        asked = self.llm_stages.asked(system, Query(text=query) if isinstance(query, str) else query, k)
        trace = asked.trace
        trace.notify = notify
        found = self._branches(asked)
        pool, members, reranked = self._ranked(asked, found.lists)
        candidates = pool if reranked is None else reranked
        sections: Mapping[str, str] = {}
        if orders_passages(system):
            with trace.timed("passage order"):
                lists = self._chunk_lists(asked, found)
                candidates, sections = ordered_passages(self.sources, asked, (pool, reranked), lists)
            trace.add("passage order", "chunk", candidates)
        with trace.timed("passages"):
            hits = HitMaker(self.sources, asked, found, sections).hits(candidates, k, members)
        if trace.fallbacks:
            reason = "; ".join(trace.fallbacks)
            hits = [msgspec.structs.replace(hit, fallback=reason) for hit in hits]
        trace.add("passages", "chunk", [Scored(hit.id, hit.score) for hit in hits])
        results = found.results
        return Retrieval(
            hits=tuple(hits),
            trace=tuple(trace.stages),
            stage_ms=trace.stage_ms,
            calls=tuple(trace.calls),
            fallbacks=tuple(trace.fallbacks),
            found={
                name: len(result.ranking) if result.found is None else result.found
                for name, result in results.items()
            },
            notices=tuple(notice for result in results.values() for notice in result.notices),
            incomplete="; ".join(result.incomplete for result in results.values() if result.incomplete),
            removed=len({key for result in results.values() for key in result.removed}),
            agent=trace.agent,
        )

    def _ranked(
        self, asked: Asked, lists: Mapping[str, Sequence[Scored]]
    ) -> tuple[Sequence[Scored], Mapping[str, Sequence[Scored]], Sequence[Scored] | None]:
        """Return the candidates, the members of each group, and the reranked candidates.

        A system without a reranker has no reranked candidates.
        """
        system, trace = asked.system, asked.trace
        with trace.timed("fuse"):
            if system.fuse.method == "score":
                lists = self._completed(asked, lists)
            if system.adds_scores:
                lists = dict(lists)
                for branch in scaled_branches(system, "cosine"):
                    lists[label(branch)] = self._on(branch).sources.on_scale(lists[label(branch)])
            weights = {label(branch): branch.weight for branch in system.searched}
            shares = {*map(label, scaled_branches(system, "open"))}
            candidates: Sequence[Scored] = fuse(lists, system.fuse, weights, shares)
        trace.add("fusion", system.unit, candidates)
        members: dict[str, Sequence[Scored]] = {}
        if system.fuse.cap:
            candidates = candidates[: system.fuse.cap]
            trace.add("cap", system.unit, candidates)
        if system.rescore.method == "maxsim":
            candidates = self._rescored(asked, candidates)
            trace.add("maxsim", system.unit, candidates)
        if system.group.by == "document":
            groups = group(
                candidates,
                lambda key: self.index.chunks[key].source,
                aggregate=system.group.aggregate,
                members=system.group.members,
            )
            candidates = [best for best, _ in groups]
            members = {best.key: chosen for best, chosen in groups}
            trace.add("group", system.unit, candidates)
        if not system.reranks:
            return candidates, members, None
        from branchrank.search.systems.rerank import rerank_stage

        with trace.timed("rerank"):
            reranked = rerank_stage(asked, self.sources, candidates, lists)
        trace.add("rerank", system.unit, reranked)
        return candidates, members, reranked

    def _rescored(self, asked: Asked, candidates: Sequence[Scored]) -> Sequence[Scored]:
        """Add the weighted MaxSim to the scores of the top candidates, and rank all candidates again."""
        query, slot, store = asked.query.text, asked.system.rescore, self._maxsim(asked.system)
        first = tuple(entry.key for entry in candidates[: slot.candidates])
        scores = self.memo.get(
            ("maxsim", query, first, store is not None),
            lambda: self.token_vectors.maxsim(query, first, asked.trace, store),
        )
        return add_scores(candidates, scores, slot.weight)

    def _branches(self, asked: Asked) -> BranchLists:
        """Run the branches, and return their results and the ranked lists to fuse."""
        branches, trace = asked.system.searched, asked.trace
        embedding = Lock()

        def search(branch: Branch) -> BranchResult:
            kind, engine = branch_kind(branch.kind), self._on(branch)
            if kind.needs_vector:
                with embedding:
                    engine._embed(asked, is_own=engine is self)
            with trace.timed(label(branch)):
                return engine._result(kind, engine._lookup(branch, asked))

        if timed_together(asked.system):
            with ThreadPoolExecutor(len(branches)) as pool:
                found = list(pool.map(search, branches))
        else:
            found = list(map(search, branches))
        if all(result.unavailable for result in found):
            others = tuple(branch for branch in asked.system.branches if branch not in branches)
            branches, found = (*branches, *others), [*found, *map(search, others)]
        fused = BranchLists({}, {})
        for branch, result in zip(branches, found, strict=True):
            name = label(branch)
            ranking = result.ranking
            trace.add(name, branch.unit, ranking)
            if branch.expand is not None:
                engine = self._on(branch)
                ranking = engine._expanded(engine._lookup(branch, asked), branch.expand, ranking)
            fused.lists[name] = ranking
            fused.results[name] = result
        return fused

    def _chunk_lists(self, asked: Asked, found: BranchLists) -> dict[str, Sequence[Scored]]:
        """Return each branch's list of chunks. Branches that rank sections search the chunks as well."""
        lists: dict[str, Sequence[Scored]] = {}
        for branch in asked.system.searched if asked.system.passages.order == "rrf" else ():
            kind = branch_kind(branch.kind)
            if branch.unit == "chunk":
                lists[label(branch)] = found.results[label(branch)].ranking
            elif "chunk" in kind.units:
                engine = self._on(branch)
                lookup = engine._lookup(msgspec.structs.replace(branch, unit="chunk"), asked)
                lists[label(branch)] = engine._result(kind, lookup).ranking
        return lists

    def _lookup(self, branch: Branch, asked: Asked) -> Lookup:
        return Lookup(asked.query, branch, depth(branch, asked.k), self.sources, asked)

    def _completed(self, asked: Asked, lists: Mapping[str, Sequence[Scored]]) -> dict[str, Sequence[Scored]]:
        """Add to each branch's list the candidates that only other branches found.

        The branch that owns the list also scores the added candidates. Lists of branches with ``expand`` set
        are not changed.
        """
        union = tuple(sorted({key for ranking in lists.values() for key in RankedList.of(ranking).ids}))
        completed = dict(lists)
        for branch in asked.system.searched:
            # A branch with ``expand`` set can score only the sections that the branch has found.
            if branch.expand is None:
                engine, ranking = self._on(branch), lists[label(branch)]
                completed[label(branch)] = engine._complete(engine._lookup(branch, asked), ranking, union)
        return completed

    def _complete(self, lookup: Lookup, ranking: Sequence[Scored], union: tuple[str, ...]) -> RankedList:
        def scores() -> RankedList:
            own = self._function("open_scores", lookup.branch.kind)(lookup, union)
            return ranked(dict.fromkeys(union, 0.0) | dict(ranking) | dict(own))

        return self.memo.get(("candidate scores", union, *_asked(lookup)), scores)

    def _maxsim(self, system: System) -> MaxSim | None:
        """Return the MaxSim function of a searched store, or ``None`` if no searched store has one."""
        stores = [self._function("open_maxsim", branch.kind) for branch in system.searched]
        found: MaxSim | None = next(filter(None, stores), None)
        if found is None and system.unit != "chunk":
            raise UsageError(
                f"system {system.name!r} rescores by maxsim, but the Qdrant collection has no token vectors",
                remedy="add a multivector with the model's token vectors to the collection, or remove "
                "`rescore` from the system",
            )
        return found

    def _on(self, branch: Branch) -> Engine:
        """Return the engine of the index that a branch searches."""
        if branch.index and branch.index not in self.others:
            raise UsageError(
                f"the branch {label(branch)} searches the index {branch.index!r}, which is not open here",
                remedy=f"define [indexes.{branch.index}] and the system in an experiment, and run that",
            )
        return self.others[branch.index] if branch.index else self

    def _function(self, method: str, kind: str) -> Any:
        """Return what a branch kind's method opens. The method is called on first use."""
        key = (method, kind)
        if key not in self._opened:
            with self._lock:
                if key not in self._opened:
                    self._opened[key] = getattr(branch_kind(kind), method)(self._opening)
        return self._opened[key]

    def _embed(self, asked: Asked, *, is_own: bool) -> None:
        """Compute the query's vector once for all branches that need it, and record the time.

        ``is_own`` is true for the index of the system, whose token vectors a system rescores by.
        """
        trace, rescores = asked.trace, is_own and asked.system.rescore.method == "maxsim"
        with trace.timed("embed"), trace.timed("embed cpu", time.process_time):
            self.sources.embedding(asked.query.text, self.token_vectors.embedding if rescores else None)

    def _result(self, kind: BranchKind, lookup: Lookup) -> BranchResult:
        """Return a branch's result for one lookup, from the memo if possible."""
        search = self._function("open", kind.name)
        if not kind.remembered:
            return self._searched(search, kind, lookup)
        return self.memo.get(_asked(lookup), lambda: self._searched(search, kind, lookup))

    def _searched(self, search: Search, kind: BranchKind, lookup: Lookup) -> BranchResult:
        query, unit = lookup.query, lookup.branch.unit
        limit = None if kind.own_depth else lookup.n
        if not query.restricted:
            result = search(lookup)
            return result._replace(ranking=result.ranking[:limit])
        admits = self.sources.admits(unit, query)
        # Excluded entries are removed below, so request extra entries to fill the list.
        removable = len(self.sources.banned(unit, query)) if unit != "span" else lookup.n
        result = search(lookup._replace(n=lookup.n + removable))
        allowed = self.sources.admits(unit, msgspec.structs.replace(query, filters=()))
        return result._replace(
            ranking=[entry for entry in result.ranking if admits(entry.key)][:limit],
            removed=tuple(each.key for each in result.ranking[: lookup.asked.k] if not allowed(each.key)),
        )

    def _expanded(self, lookup: Lookup, walk: Expand, shortlist: Sequence[Scored]) -> RankedList:
        """Map the chunks that a branch found to scored nodes, and add neighboring nodes."""
        from branchrank.search.ranking.expansion import evidence

        trace, kind = lookup.asked.trace, branch_kind(lookup.branch.kind)
        memo = self.memo if kind.remembered else Memo()
        if kind.scale == "cosine":
            shortlist = self.sources.on_scale(shortlist)
        key = _asked(lookup)
        with trace.timed("mapping"):
            seeds = memo.get(("mapping", *key), lambda: evidence(shortlist, self.sources.nodes_of))
        trace.add("mapping", "node", seeds)
        with trace.timed("expansion"):
            reached = memo.get(("expansion", walk, *key), lambda: self._reached(seeds, walk, lookup.query))
        trace.add("expansion", "node", reached)
        return reached

    def _reached(self, seeds: Sequence[Scored], walk: Expand, query: Query) -> RankedList:
        """Return the seeds and their neighbors, without nodes that the query excludes."""
        from branchrank.search.ranking.expansion import expand

        nodes = expand(
            seeds, self.index.tree, depth=walk.depth, siblings=walk.siblings, file_roots=walk.file_roots
        )
        banned = self.sources.banned("node", query)
        return nodes.where([key not in banned for key in nodes.ids]) if banned else nodes


def _asked(lookup: Lookup) -> tuple[Hashable, ...]:
    """Return the values that determine a branch's list. These values are used in memo keys."""
    branch, query = lookup.branch, lookup.query
    options = msgspec.json.encode(branch.options, order="deterministic")
    counted = lookup.asked.k if query.excluded else 0  # ``BranchResult.removed`` depends on k
    asked = (query.text, query.keywords, query.excluded, query.filters, counted)
    return (label(branch), branch.unit, lookup.n, branch.threshold, options, *asked)
