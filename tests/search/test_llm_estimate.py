"""The dry run's estimate is an upper bound of what the stages then do."""

from __future__ import annotations

import pytest
from support import scripted_llm as scripted
from support.asking import reranked
from support.scripted_llm import ScriptedLLM

from branchrank.core.settings import LLMSettings
from branchrank.core.spec import Branch, Fuse, LLMEndpoint, Rerank, System
from branchrank.search.llm.session import LLMSession
from branchrank.search.systems.llm_choice import estimate
from branchrank.search.systems.rerank import RerankCandidate

LLM = LLMEndpoint(base_url="http://x", model="m")
FULL = [RerankCandidate(id=f"n{place:02d}", heading="B " * 200, body="text " * 900) for place in range(30)]


@pytest.mark.parametrize(
    ("rerank_settings", "calls"),
    [
        (Rerank(method="llm"), 2),
        (Rerank(method="llm", context_tokens=20_000), 1),
        (Rerank(method="pointwise"), 30),
        (Rerank(), 0),
    ],
)
def test_the_estimate_is_an_upper_bound_for_a_rerank(rerank_settings: Rerank, calls: int) -> None:
    system = System(
        name="s",
        branches=(Branch(kind="bm25", unit="node"),),
        fuse=Fuse(cap=30),
        rerank=rerank_settings,
        llm=LLM,
    )
    bound = estimate(system, 7)
    assert bound.calls == 7 * calls
    if not calls:
        assert bound.tokens == 0
        return
    script = lambda chat, n: scripted.ids(chat.entries, logprobs={"Yes": -0.1})  # noqa: E731
    with ScriptedLLM(script) as server, LLMSession(LLMSettings(), environment={}) as session:
        result = reranked(FULL, "how " * 50, rerank_settings, session.gateway(server.base_url, ""))
        sent = sum(sum(len(m["content"].encode()) for m in chat.body["messages"]) for chat in server.requests)
    assert result.fallback is None
    assert len(result.calls) == calls
    assert sent / 3 <= bound.prompt_tokens / 7 <= 2 * sent / 3
