"""The tree search and the reranker, the two stages that can use an LLM.

Without an LLM, the tree search can use lexical scores, and the reranker can use a cross-encoder. The query's
trace records LLM calls, fallbacks and the order of the candidates in each prompt. The branch kind ``tree``
implements the tree search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from branchrank.index import Index
from branchrank.llm.gateway import Gateway
from branchrank.llm.request import CallContext
from branchrank.ranking.lists import rescore
from branchrank.records import LLMCall, Scored
from branchrank.spec import Endpoint, System
from branchrank.systems.branches import label
from branchrank.systems.rerank import RerankCandidate, rerank
from branchrank.systems.sources import Sources
from branchrank.systems.tracing import Trace

GatewayOf = Callable[[Endpoint], Gateway]


class LLMStages:
    """Creates the LLM stages for each query. ``gateway_of`` returns the gateway to an endpoint.

    Without ``gateway_of``, systems can't use an LLM. When an interrupted run is resumed, ``keep_failures`` is
    called with the LLM calls in the run's finished rows.
    """

    def __init__(
        self,
        gateway_of: GatewayOf | None = None,
        *,
        seed: int = 42,
        keep_failures: Callable[[Iterable[LLMCall]], None] = lambda calls: None,
    ) -> None:
        self.gateway_of = gateway_of
        self.seed = seed
        self.keep_failures = keep_failures

    def bound(self, system: System, *, question_id: str, repeat: int, trace: Trace) -> BoundStages:
        """Return the LLM stages for one query of one system."""
        gateway = None
        if system.asks_llm:
            if self.gateway_of is None:
                raise ValueError(f"system {system.name!r} uses an LLM, but the engine has no LLM gateway")
            gateway = self.gateway_of(system.llm)
        context = CallContext(question_id=question_id, predictor=system.name, repeat=repeat, seed=self.seed)
        return BoundStages(system, gateway, context, trace)


class BoundStages:
    """The LLM stages of one system, for one query."""

    def __init__(self, system: System, gateway: Gateway | None, context: CallContext, trace: Trace) -> None:
        self.system = system
        self.gateway = gateway
        self.context = context
        self.trace = trace

    def rerank(
        self,
        index: Index,
        sources: Sources,
        query: str,
        candidates: Sequence[Scored],
        lists: Mapping[str, Sequence[Scored]],
    ) -> tuple[Sequence[Scored], bool]:
        """Return the reranked candidates, and whether the reranker succeeded.

        If the reranker fails and a branch has ``expand`` set, the candidates are sorted by that branch's
        scores, then by lexical score. If the reranker fails and no branch has ``expand`` set, the order of
        the candidates does not change.
        """
        nodes = self.system.unit == "node"
        branches = self.system.branches
        gathering = [branch for branch in branches if branch.expand is not None]
        evidence = dict(lists.get(label((gathering or branches)[0]), ()))
        lexical = sources.own_scores(query) if nodes else {}
        pool = [
            self._candidate(index, entry, nodes, evidence.get(entry.key, 0.0), lexical.get(entry.key, 0.0))
            for entry in candidates
        ]
        result = rerank(pool, query, self.system.rerank, self.gateway, context=self.context)
        self.trace.calls += result.calls
        for shown in result.shown:
            self.trace.add("shown", self.system.unit, [Scored(key, 0.0) for key in shown])
        if result.fallback:
            self.trace.fallbacks.append(f"rerank: {result.fallback}")
            if not gathering:
                return candidates, False
        return rescore(candidates, result.order), result.fallback is None

    @staticmethod
    def _candidate(
        index: Index, entry: Scored, nodes: bool, evidence: float, lexical: float
    ) -> RerankCandidate:
        if nodes:
            node = index.tree.node(entry.key)
            title, breadcrumb, text = node.title, node.breadcrumb, node.text
        else:
            chunk = index.chunks[entry.key]
            title = index.tree.node(chunk.node_id).title if chunk.node_id in index.tree.nodes else ""
            breadcrumb, text = chunk.breadcrumb, chunk.text
        return RerankCandidate(
            id=entry.key,
            title=title,
            breadcrumb=breadcrumb,
            text=text,
            fused_score=entry.score,
            evidence=evidence,
            lexical_score=lexical,
        )
