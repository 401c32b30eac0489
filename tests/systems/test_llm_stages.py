"""The LLM's part of a query on the engine: its order where it answers, the fused order where it fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from support import scripted_llm as scripted
from support.scripted_llm import Script, ScriptedLLM
from support.worlds import make_index

from branchrank.index.reader import Index
from branchrank.llm.session import LLMSession
from branchrank.records import Retrieval
from branchrank.settings import LLMSettings, Resolved
from branchrank.spec import Endpoint, Rerank
from branchrank.systems.builtin import builtin_systems
from branchrank.systems.engine import Engine
from branchrank.systems.llm_stages import LLMStages

QUERY = "tea temperature"
World = tuple[Index, Path, Resolved]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("stages")
    index, resolved = make_index(folder)
    with index:
        yield index, folder / "docs", resolved


def reranked(world: World, script: Script | None, name: str = "local") -> Retrieval:
    """The predictor with an LLM that follows the script, or without a reranker."""
    index, root, resolved = world
    (system,) = builtin_systems((name,), resolved)
    if script is None:
        with Engine(index, root, resolved) as engine:
            return engine.retrieve(system, QUERY, 5)
    with ScriptedLLM(script) as server, LLMSession(LLMSettings(retries=0), environment={}) as session:
        gateway = session.gateway(server.base_url, "")
        endpoint = Endpoint(base_url=server.base_url, model=gateway.model)
        system = msgspec.structs.replace(system, rerank=Rerank(method="llm"), llm=endpoint)
        with Engine(index, root, resolved, llm_stages=LLMStages(lambda _: gateway)) as engine:
            return engine.retrieve(system, QUERY, 5)


def test_a_failed_rerank_keeps_the_fused_order_and_says_why(world: World) -> None:
    fused = reranked(world, None)
    failed = reranked(world, lambda chat, number: scripted.fail(500))
    assert failed.fallbacks == ("rerank: http 500",)
    assert fused.fallbacks == ()
    assert {hit.fallback for hit in failed.hits} == {"rerank: http 500"}
    assert [msgspec.structs.replace(hit, fallback=None) for hit in failed.hits] == list(fused.hits)


def test_the_first_choice_of_the_llm_comes_first(world: World) -> None:
    found = reranked(world, scripted.oracle(lambda text: "Herbal tea" in text), "hybrid")
    assert found.fallbacks == ()
    assert found.hits[0].node_id == "guide/brewing.md#steeping-time/herbal-tea"
    assert [hit.score for hit in found.hits] == [1 / rank for rank in range(1, len(found.hits) + 1)]
