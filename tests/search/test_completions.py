"""What is read from a response that may deviate from the API."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from branchrank.search.llm.cassette import call_key
from branchrank.search.llm.completion import Response, read_completion
from branchrank.search.llm.request import (
    CallContext,
    CallResult,
    LLMReply,
    LLMRequest,
    Message,
    Tool,
    ToolCall,
    Usage,
    estimate_tokens,
)

REQUEST = LLMRequest(stage="test", messages=(Message(role="user", content="hello"),))
LARGEST = 1_000_000_000


def completion(status: int = 200, content: str | None = "two words", **fields: Any) -> CallResult:
    choice = {"message": {"content": content}, **fields.pop("choice", {})}
    body = json.dumps({"choices": [choice], "model": "m-1"} | fields).encode()
    return read_completion(Response(status, body), REQUEST, 3, lambda text: text.replace("sk-1", "***"))


def test_every_field_of_a_reply_is_read_without_its_secrets() -> None:
    reply = LLMReply(
        text="it is ***",
        usage=Usage(prompt_tokens=REQUEST.prompt_tokens, completion_tokens=3),
        model="m-***",
        attempt=3,
    )
    assert completion(content="it is sk-1", model="m-sk-1") == CallResult(reply=reply)
    assert completion(model=["m"]).reply.model == ""
    assert (LLMReply(text="").attempt, LLMReply(text="").latency_ms) == (1, 0)


@pytest.mark.parametrize(
    ("prompt", "generated", "cached", "counted"),
    [
        (LARGEST, 0, 7, (LARGEST, 0, 7)),
        (0, LARGEST, 0, (0, LARGEST, 0)),
        (10, 1, 40, (10, 1, 10)),
        (10, 1, -1, (10, 1, 0)),
        (10, 1, LARGEST + 1, (10, 1, 0)),
        (LARGEST + 1, 1, 0, None),
        (1, LARGEST + 1, 0, None),
        (True, 1, 0, None),
        (1, False, 0, None),
        (1.0, 1, 0, None),
        (-1, 1, 0, None),
    ],
)
def test_only_possible_token_counts_are_believed(
    prompt: object, generated: object, cached: int, counted: tuple[int, int, int] | None
) -> None:
    usage = completion(
        usage={
            "prompt_tokens": prompt,
            "completion_tokens": generated,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
    ).reply.usage
    assert usage.reported == (counted is not None)
    expected = counted or (REQUEST.prompt_tokens, estimate_tokens("two words"), 0)
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) == expected


def test_only_possible_log_probabilities_are_read() -> None:
    def top(**tokens: object) -> dict[str, object]:
        return {"top_logprobs": [{"token": token, "logprob": value} for token, value in tokens.items()]}

    listed = [
        top(Yes=-0.5, No="x", Far=-LARGEST - 1, Edge=-LARGEST),
        {"top_logprobs": [{"token": 3, "logprob": -1}, {"token": "sk-1", "logprob": -2}, 7]},
        {"top_logprobs": "none"},
        5,
    ]
    read = completion(content="", choice={"logprobs": {"content": listed}})
    assert read.outcome == "ok"
    assert read.reply.logprobs == ({"Yes": -0.5, "Edge": -LARGEST}, {"***": -2.0}, {}, {})
    for nothing in ({"content": "x"}, None, [1]):
        assert completion(choice={"logprobs": nothing}).reply.logprobs == ()


@pytest.mark.parametrize("status", [400, 413, 422, 500])
@pytest.mark.parametrize(
    "sign", ["context_length_exceeded", "Context length", "context size", "exceed_context", "MAXIMUM CONTEXT"]
)
def test_a_prompt_that_is_too_long_is_named_whatever_the_server_says(status: int, sign: str) -> None:
    assert completion(status, error=f"the {sign} is 10").outcome == "context overflow"


@pytest.mark.parametrize(("status", "why"), [(404, "context length"), (400, "a context"), (500, "busy")])
def test_another_error_is_named_by_its_status(status: int, why: str) -> None:
    found = completion(status, error=why)
    assert (found.outcome, found.reply) == (f"http {status}", LLMReply(text="", attempt=3))


def test_the_servers_message_is_told_on_one_line() -> None:
    body = b"\tno \x1b[31msk-1\n" + b"x" * 300
    read = read_completion(Response(503, body), REQUEST, 1, lambda text: text.replace("sk-1", "***"))
    shown = "no  [31m*** " + "x" * 187
    assert (read.outcome, read.detail) == ("http 503", shown)
    read = read_completion(Response(0, fault="connection"), REQUEST, 1, str)
    assert (read.outcome, read.detail) == ("connection", "")


def test_a_token_is_three_bytes_and_a_message_costs_four_tokens_more() -> None:
    assert [estimate_tokens(text) for text in ("", "a", "abc", "abcd", "ééé", "\ud800")] == [0, 1, 1, 2, 2, 1]
    two = LLMRequest(
        stage="test", messages=(Message(role="system", content="abcd"), Message(role="user", content=""))
    )
    assert two.prompt_tokens == 2 + 4 + 0 + 4


def test_tools_and_tool_calls_are_part_of_the_prompt() -> None:
    tool = Tool(name="grep", description="Search.", parameters={"type": "object"})
    call = ToolCall(id="c1", name="grep", arguments='{"pattern": "x"}')
    messages = (
        Message(role="user", content="where?"),
        Message(role="assistant", content="", tool_calls=(call,)),
        Message(role="tool", content="a.md:3", tool_call_id="c1"),
    )
    with_tools = LLMRequest(stage="test", messages=messages, tools=(tool,))
    assert with_tools.prompt_tokens == (2 + 4) + (4 + 7 + 4) + (2 + 4) + estimate_tokens(
        '[{"name":"grep","description":"Search.","parameters":{"type":"object"}}]'
    )
    content = with_tools.content("m")
    assert msgspec.convert(content["tools"], tuple[Tool, ...]) == (tool,)
    assert msgspec.convert(content["messages"], tuple[Message, ...]) == messages
    without = msgspec.structs.replace(with_tools, tools=())
    others = [
        without,
        msgspec.structs.replace(with_tools, messages=messages[:2]),
        msgspec.structs.replace(with_tools, tools=(msgspec.structs.replace(tool, description="Find."),)),
    ]
    assert len({call_key(each, "m") for each in (with_tools, *others)}) == 4


def test_the_key_of_a_request_without_tools_is_the_one_of_earlier_versions() -> None:
    plain = LLMRequest(
        stage="rerank",
        messages=(
            Message(role="system", content="You rank."),
            Message(role="user", content="first line\nsecond line"),
        ),
        schema={"type": "object"},
        max_tokens=64,
        logprobs=2,
        context=CallContext(question_id="q1", predictor="p", repeat=1),
    )
    assert call_key(plain, "m") == "b2e68c6d95a3c1f4e8f5620ab7f97ab6d29685f77f1a2be8593bb6abe6deba9c"
    with_endpoint = call_key(plain, "m", "http://h/v1")
    assert with_endpoint == "fbd2b741f0030a3eec6be5cbdf6713fb9bec166615793d9d8d10a23ab3f50bdf"


def test_the_content_of_a_request_is_all_that_its_reply_depends_on() -> None:
    assert REQUEST.content("m") == {
        "model": "m",
        "messages": ({"role": "user", "content": "hello"},),
        "schema": None,
        "max_tokens": 512,
        "logprobs": 0,
        "temperature": 0,
        "seed": 42,
        "repeat": 0,
    }
    assert CallContext() == CallContext(question_id="", predictor="", repeat=0, seed=42)
