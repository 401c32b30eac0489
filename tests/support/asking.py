"""Rerank candidates and search trees without an engine, and read the result off the trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest
from support.scripted_llm import Script, ScriptedLLM
from support.trees import subtree_best

from branchrank.core.records import LLMCall, Node, Scored
from branchrank.core.settings import LLMSettings
from branchrank.core.spec import Branch, Rerank, System, TreeSearch
from branchrank.documents.tree_nodes import Tree
from branchrank.search.llm.gateway import Gateway
from branchrank.search.llm.request import CallContext
from branchrank.search.llm.session import LLMSession
from branchrank.search.systems.branches.tree import TreeStep, tree_search
from branchrank.search.systems.query import Asked, Query, Trace
from branchrank.search.systems.rerank import RerankCandidate, rerank

Serve = Callable[..., tuple[ScriptedLLM, Gateway]]
CONTEXT = CallContext(question_id="q0", predictor="hybrid")


class Reranked(NamedTuple):
    order: tuple[str, ...]
    fallback: str | None
    shown: tuple[tuple[str, ...], ...]
    calls: tuple[LLMCall, ...]


class Searched(NamedTuple):
    ranking: tuple[Scored, ...]
    steps: tuple[TreeStep, ...]
    calls: tuple[LLMCall, ...]
    fallbacks: tuple[str, ...]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts scripted LLMs, each with a gateway without retries."""
    with ExitStack() as opened:

        def start(script: Script, **options: Any) -> tuple[ScriptedLLM, Gateway]:
            server = opened.enter_context(ScriptedLLM(script))
            chosen = LLMSettings(**({"deadline_s": 5.0, "retries": 0} | options))
            session = opened.enter_context(LLMSession(chosen, environment={}))
            return server, session.gateway(server.base_url, "")

        yield start


def _asked(rerank: Rerank, query: str, gateway: Gateway | None, context: CallContext) -> Asked:
    system = System(name="s", branches=(Branch(kind="bm25", unit="node"),), rerank=rerank)
    return Asked(system, Query(text=query), 10, gateway, context, Trace())


def reranked(
    candidates: Sequence[RerankCandidate],
    query: str,
    settings: Rerank,
    gateway: Gateway | None = None,
    context: CallContext = CONTEXT,
) -> Reranked:
    asked = _asked(settings, query, gateway, context)
    order, fallback = rerank(candidates, asked)
    shown = tuple(stage.keys for stage in asked.trace.stages)
    assert asked.trace.fallbacks == ([f"rerank: {fallback}"] if fallback else [])
    return Reranked(tuple(order), fallback, shown, tuple(asked.trace.calls))


def searched(
    tree: Tree, settings: TreeSearch, own: Mapping[str, float], gateway: Gateway | None = None
) -> Searched:
    """The tree search with these lexical scores of the nodes' own texts."""
    asked = _asked(Rerank(), "where is it?", gateway, CONTEXT)

    def best(nodes: Sequence[Node]) -> dict[str, float]:
        return {node.id: subtree_best(tree, own, node.id) for node in nodes}

    def own_scores(nodes: Sequence[Node]) -> dict[str, float]:
        return {node.id: own[node.id] for node in nodes if node.id in own}

    ranking, steps = tree_search(tree, asked, settings, subtree_scores=best, own_scores=own_scores)
    trace = asked.trace
    return Searched(tuple(ranking), tuple(steps), tuple(trace.calls), tuple(trace.fallbacks))
