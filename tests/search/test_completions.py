"""What is read from a response that may deviate from the API."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from support.scripted_llm import tool_call

from branchrank.search.llm.cassette import call_key
from branchrank.search.llm.completion import Response, read_completion
from branchrank.search.llm.request import (
    TRUNCATED,
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


GREP = Tool(name="grep", description="Search.", parameters={"type": "object"})
WITH_TOOLS = LLMRequest(
    stage="test",
    messages=(
        Message(role="user", content="where?"),
        Message(role="assistant", content="", tool_calls=(ToolCall(id="c1", name="grep", arguments="{}"),)),
        Message(role="tool", content="nothing", tool_call_id="c1"),
    ),
    tools=(GREP, Tool(name="answer", description="End.", parameters={"type": "object"})),
)
STEP = '{"name": "grep", "arguments": {"pattern": "x"}}'
GREP_X = ("grep", '{"pattern":"x"}')


def with_tools(message: dict[str, Any], finish: str = "stop", **fields: Any) -> CallResult:
    choice = {"message": message, "finish_reason": finish}
    body = json.dumps({"choices": [choice]} | fields).encode()
    return read_completion(Response(200, body), WITH_TOOLS, 1, lambda text: text.replace("sk-1", "***"))


def used(*calls: tuple[object, object, object]) -> dict[str, Any]:
    return {"tool_calls": [tool_call(name, arguments, given) for given, name, arguments in calls]}


CALLS: dict[str, tuple[dict[str, Any], list[tuple[str, str, str]], str]] = {
    "several, in order": (
        {"content": None} | used(("a", "grep", '{"pattern": "x"}'), ("b", "answer", "{}")),
        [("a", "grep", '{"pattern": "x"}'), ("b", "answer", "{}")],
        "",
    ),
    "beside text and reasoning": (
        {"content": "<think>grep!</think>I search.", "reasoning_content": STEP}
        | used(("a", "grep", {"pattern": "x"})),
        [("a", *GREP_X)],
        "I search.",
    ),
    "missing, empty, other and repeated ids": (
        used(*((given, "grep", "{}") for given in ("c1", None, "", 7, "call00002", "b", "b"))),
        [
            (given, "grep", "{}")
            for given in (
                *("call00002", "call00003", "call00004", "call00005"),
                *("call00006", "b", "call00008"),
            )
        ],
        "",
    ),
    "no arguments, and arguments of other types": (
        used(("a", "grep", ""), ("b", "grep", None), ("c", "grep", [1]), ("d", "grep", '{"pattern')),
        [("a", "grep", "{}"), ("b", "grep", "{}"), ("c", "grep", "[1]"), ("d", "grep", '{"pattern')],
        "",
    ),
    "names that are unknown or no text": (
        used(("a", "rm -rf", "{}"), ("b", 7, "{}"), ("c", None, "{}")),
        [("a", "rm -rf", "{}"), ("b", "", "{}"), ("c", "", "{}")],
        "",
    ),
    "calls that are none": (
        {"content": "hi", "tool_calls": [7, {"function": "grep"}, {}]},
        [],
        "hi",
    ),
    "a list that is none": ({"content": "hi", "tool_calls": {"0": 1}}, [], "hi"),
    "the older form": (
        {"content": None, "function_call": {"name": "grep", "arguments": '{"pattern":"x"}'}},
        [("call00002", *GREP_X)],
        "",
    ),
    "both forms": (
        used(("a", "grep", "{}")) | {"function_call": {"name": "grep", "arguments": "{}"}},
        [("a", "grep", "{}")],
        "",
    ),
    "marked in the text": (
        {"content": f"I search.\n<tool_call>\n{STEP}\n</tool_call>\n<tool_call>{STEP}</tool_call>"},
        [("call00002", *GREP_X), ("call00003", *GREP_X)],
        "I search.",
    ),
    "marked without an end": ({"content": f"<tool_call>{STEP}"}, [("call00002", *GREP_X)], ""),
    "an object": ({"content": STEP}, [("call00002", *GREP_X)], ""),
    "an object in a fence after reasoning": (
        {"content": f"<think>hm {{}}</think>Sure:\n```json\n{STEP}\n```"},
        [("call00002", *GREP_X)],
        "",
    ),
    "a list of objects": (
        {"content": f"[{STEP}, {STEP}]"},
        [("call00002", *GREP_X), ("call00003", *GREP_X)],
        "",
    ),
    "an object with parameters": (
        {"content": '<|python_tag|>{"type": "function", "name": "grep", "parameters": {"pattern": "x"}}'},
        [("call00002", *GREP_X)],
        "",
    ),
    "an object in an object": (
        {"content": f'{{"type": "function", "function": {STEP}}}'},
        [("call00002", *GREP_X)],
        "",
    ),
    "a step": (
        {"content": '{"tool": "rm", "arguments": {"pattern": "x"}}'},
        [("call00002", "rm", '{"pattern":"x"}')],
        "",
    ),
    "text arguments": (
        {"content": '{"tool": "grep", "arguments": "{\\"pattern\\":\\"x\\"}"}'},
        [("call00002", *GREP_X)],
        "",
    ),
    "JSON of another kind": ({"content": '{"name": "Ann", "age": 3}'}, [], '{"name": "Ann", "age": 3}'),
    "a name of another type": ({"content": '{"name": ["grep"]}'}, [], '{"name": ["grep"]}'),
    "prose": ({"content": "It is in {a.md}."}, [], "It is in {a.md}."),
    "a call in the reasoning": ({"content": f"<think>{STEP}</think>done"}, [], "done"),
    "secrets": (
        {"content": "sk-1"} | used(("sk-1", "sk-1", '{"key": "sk-1"}')),
        [("***", "***", '{"key": "***"}')],
        "***",
    ),
}


@pytest.mark.parametrize("kind", CALLS)
def test_tool_calls_are_read_in_every_form(kind: str) -> None:
    message, calls, text = CALLS[kind]
    read = with_tools(message)
    assert (read.outcome, read.reply.text) == ("ok", text)
    assert [(call.id, call.name, call.arguments) for call in read.reply.tool_calls] == calls
    written = text + "".join(name + arguments for _, name, arguments in calls)
    assert read.reply.usage.completion_tokens == estimate_tokens(written)


@pytest.mark.parametrize(
    ("message", "finish", "outcome"),
    [
        (used(("a", "grep", '{"pattern": "x')), "length", TRUNCATED),
        (used(("a", "grep", "{}"), ("b", "grep", "{")), "max_tokens", TRUNCATED),
        ({"content": "<tool_call>" + STEP[:20]}, "length", TRUNCATED),
        ({"content": STEP[:20]}, "length", TRUNCATED),
        ({"content": None}, "length", TRUNCATED),
        ({"content": None, "tool_calls": []}, "tool_calls", "empty reply"),
        ({"refusal": "no"} | used(("a", "grep", "{}")), "stop", "refusal"),
        ({"content": [{"type": "refusal", "refusal": "no"}]}, "stop", "refusal"),
        (used(("a", "grep", "{}")), "content_filter", "content filter"),
    ],
)
def test_a_reply_with_tools_that_is_not_usable_is_named(
    message: dict[str, Any], finish: str, outcome: str
) -> None:
    read = with_tools(message, finish, usage={"prompt_tokens": 9, "completion_tokens": 4})
    assert (read.outcome, read.reply.text, read.reply.tool_calls) == (outcome, "", ())
    assert (read.reply.usage.prompt_tokens, read.reply.usage.completion_tokens) == (9, 4)


def test_whole_calls_of_a_reply_that_the_token_limit_ended_are_kept() -> None:
    read = with_tools(used(("a", "grep", '{"pattern": "x"}')), "length")
    assert (read.outcome, read.reply.truncated, len(read.reply.tool_calls)) == ("ok", True, 1)


def test_the_size_of_tool_calls_is_bounded() -> None:
    long = json.dumps({"pattern": "x" * 5_000_000})
    [call] = with_tools(used(("i" * 1000, "n" * 1000, long))).reply.tool_calls
    assert (len(call.id), len(call.name), len(call.arguments)) == (64, 64, 64 << 10)
    assert long.startswith(call.arguments)
    assert len(with_tools(used(*((None, "grep", "{}") for _ in range(99)))).reply.tool_calls) == 32
    marked = with_tools({"content": f"<tool_call>{STEP}</tool_call>" * 9999}).reply
    assert (len(marked.tool_calls), marked.text) == (32, "")


def test_tool_calls_in_the_reply_to_a_request_without_tools_are_its_text() -> None:
    found = completion(content=STEP, choice={"message": used(("a", "grep", '{"ids": []}'))})
    assert (found.reply.text, found.reply.tool_calls) == ('{"ids": []}', ())
    assert completion(content=STEP).reply.text == STEP


def test_tools_and_tool_calls_are_part_of_the_prompt() -> None:
    call = ToolCall(id="c1", name="grep", arguments='{"pattern": "x"}')
    messages = (
        Message(role="user", content="where?"),
        Message(role="assistant", content="", tool_calls=(call,)),
        Message(role="tool", content="a.md:3", tool_call_id="c1"),
    )
    tooled = LLMRequest(stage="test", messages=messages, tools=(GREP,))
    assert tooled.prompt_tokens == (2 + 4) + (4 + 7 + 4) + (2 + 4) + estimate_tokens(
        '[{"name":"grep","description":"Search.","parameters":{"type":"object"}}]'
    )
    content = tooled.content("m")
    assert msgspec.convert(content["tools"], tuple[Tool, ...]) == (GREP,)
    assert msgspec.convert(content["messages"], tuple[Message, ...]) == messages
    without = msgspec.structs.replace(tooled, tools=())
    others = [
        without,
        msgspec.structs.replace(tooled, messages=messages[:2]),
        msgspec.structs.replace(tooled, tools=(msgspec.structs.replace(GREP, description="Find."),)),
    ]
    assert len({call_key(each, "m") for each in (tooled, *others)}) == 4


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
