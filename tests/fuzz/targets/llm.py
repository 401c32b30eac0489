"""What a server of an LLM sends, and what its model writes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import msgspec

from branchrank.core.io.http_client import retry_after
from branchrank.questions.generation import _read as read_drafts
from branchrank.questions.labels import CHOICES, read_label
from branchrank.search.llm.completion import Response, read_completion
from branchrank.search.llm.prompts import read_json, read_labels, read_text, yes_log_odds
from branchrank.search.llm.request import (
    CallResult,
    LLMReply,
    LLMRequest,
    Message,
    ReplyError,
    Tool,
    as_chat,
    with_tools,
)
from fuzz.target import Target, require, seeds

LABELS = ("S1", "S2", "S10", "s3")
REQUEST = LLMRequest(stage="rerank", messages=(Message(role="user", content="which?"),), logprobs=20)
WITH_TOOLS = LLMRequest(
    stage="agent",
    messages=REQUEST.messages,
    tools=(Tool(name="grep", description="Search.", parameters={"type": "object"}),),
)
COMPLETION = msgspec.json.encode(
    {
        "id": "x",
        "model": "scripted",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": '["S1"]', "refusal": None},
                "finish_reason": "stop",
                "logprobs": {
                    "content": [
                        {
                            "token": "yes",
                            "logprob": -0.1,
                            "top_logprobs": [
                                {"token": "yes", "logprob": -0.1},
                                {"token": " No", "logprob": -2.5},
                            ],
                        }
                    ]
                },
            }
        ],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
    }
)


def completion(content: bytes) -> None:
    """An answer of the endpoint is a reply or a failure, and a reply can be stored and read back."""
    for status, request in itertools.product((200, 429, 500), (REQUEST, WITH_TOOLS)):
        recorded = read_completion(Response(status, content), request, 1, lambda text: text)
        if recorded.outcome != "ok":
            continue
        found = recorded.reply
        require(found.usage.cached_tokens <= found.usage.prompt_tokens, "more cached tokens than tokens")
        stored = msgspec.json.encode(recorded)
        require(msgspec.json.decode(stored, type=CallResult) == recorded, "the reply changed")
        names = [call.id for call in found.tool_calls]
        require(len(set(names)) == len(names) and all(names), f"{names} are not IDs")
        require(not names or request is WITH_TOOLS, "a tool call without a tool")
        msgspec.json.encode(with_tools(_after(found)))
        reply(found.text.encode("utf-8", "surrogatepass"))
        if found.logprobs and found.logprobs[0]:
            require(math.isfinite(_probability(found)), "a probability that is not finite")


def _after(found: LLMReply) -> LLMRequest:
    """The request that follows a reply with tool calls."""
    said = Message(role="assistant", content=found.text, tool_calls=found.tool_calls)
    answers = [Message(role="tool", content="none", tool_call_id=call.id) for call in found.tool_calls]
    following = msgspec.structs.replace(WITH_TOOLS, messages=(*WITH_TOOLS.messages, said, *answers))
    msgspec.json.encode(as_chat(following))
    return following


def _probability(found: LLMReply) -> float:
    try:
        return yes_log_odds(found.logprobs[0])
    except ReplyError:
        return 0.0


def reply(content: bytes) -> None:
    """What a model writes: only labels that it was shown, once each; a JSON value; a choice; a line."""
    text = content.decode("utf-8", "surrogateescape")
    for may_be_empty in (False, True):
        named = (
            _unless_refused(lambda empty=may_be_empty: read_labels(text, LABELS, may_be_empty=empty)) or []
        )
        require(set(named) <= set(LABELS), f"{named} are not labels")
        require(len(set(named)) == len(named), f"{named} repeats a label")
    value = _unless_refused(lambda: read_json(text))
    require(value is None or isinstance(value, dict | list), f"{value!r:.100} is no object or array")
    line = _unless_refused(lambda: read_text(text))
    require(line is None or (line.isprintable() and line != ""), f"{line!r:.100} is not one line")
    answer = LLMReply(text=text)
    label = _unless_refused(lambda: read_label(answer))
    require(label is None or label in CHOICES, f"{label!r} is no choice")
    _unless_refused(lambda: read_drafts(answer))


def _unless_refused(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except ReplyError:
        return None


def header(content: bytes) -> None:
    """``Retry-After``: seconds that can be waited, or nothing."""
    seconds = retry_after({"retry-after": content.decode("latin-1")})
    require(seconds is None or 0 <= seconds < math.inf, f"wait {seconds} seconds")


CALL = b'{"name": "grep", "arguments": {"pattern": "x"}}'
CALLS = msgspec.json.encode(
    {
        "choices": [
            {
                "message": {
                    "content": None,
                    "tool_calls": [
                        {"id": "a", "type": "function", "function": {"name": "grep", "arguments": "{}"}},
                        {"function": {"name": "grep", "arguments": {"pattern": "x"}}},
                    ],
                },
                "finish_reason": "tool_calls",
            }
        ]
    }
)
WRITTEN = COMPLETION.replace(b'[\\"S1\\"]', b"<tool_call>" + CALL.replace(b'"', b'\\"') + b"</tool_call>")

REPLIES = (
    b'["S1", "S10"]',
    b'Here is it:\n```json\n{"ids": ["S2", "S1"], "why": "x"}\n```\nbye',
    b'{"questions": [{"question": "how?", "quote": "as \\"said\\""}]}',
    b'{"label": "partly"}',
    b"Sections S1 and s3 help.",
    b'{"a": [1, {"b": "S1',
    b"Yes.",
)

TARGETS = (
    Target("llm-completion", completion, seeds(COMPLETION, CALLS, WRITTEN)),
    Target("llm-reply", reply, seeds(*REPLIES)),
    Target("retry-after", header, seeds(b"120", b"Wed, 21 Oct 2026 07:28:00 GMT", b"1.5")),
)
