"""A request to an LLM, the reply, and the errors that a failed call raises.

A request with tools is sent in one of two forms: with the API's tools, or as a plain chat, for a server
without support for tools. In a plain chat, the system message describes the tools, a tool call is a JSON
object that the assistant wrote, and the answer of a tool is a message of the user.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from branchrank.core.errors import LLMError
from branchrank.core.io.files import NOT_JSON
from branchrank.core.records import SEED, Record, ServedBy

#: The assumed number of UTF-8 bytes per token. The number is low, so estimates are usually too high, and
#: prompts fit the model's context. For English documentation in RST, SmolLM2's tokenizer averages 3.8 to 4.3
#: bytes per token.
BYTES_PER_TOKEN = 3.0

#: The failure reason of a call that was interrupted by Ctrl-C. Interrupted calls are not cached.
INTERRUPTED = "interrupted"

#: The failure reason of a call whose reply the token limit cut before the answer.
TRUNCATED = "truncated: raise --llm-completion-tokens"

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_RULES = (
    "You work in steps. In each step, use one of the tools below. Answer with one JSON object and nothing "
    'else: {"tool": "NAME", "arguments": {...}}. The next message has the tool\'s answer. The tools, each '
    "with the JSON schema of its arguments:"
)


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens in a text. The estimate is the same for all models."""
    return math.ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)


class Tool(Record, frozen=True, kw_only=True):
    """A tool that a request offers to the model. ``parameters`` is the JSON schema of its arguments."""

    name: str
    description: str
    parameters: dict[str, Any]


class ToolCall(Record, frozen=True, kw_only=True):
    """One use of a tool that a model asks for. ``arguments`` is JSON as the model wrote it, unchecked."""

    id: str
    name: str
    arguments: str


class Message(Record, frozen=True, kw_only=True, omit_defaults=True):
    """One message of a chat.

    A message of the role ``assistant`` may have tool calls. A message of the role ``tool`` has the answer to
    the tool call with the ID ``tool_call_id``.
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""

    @property
    def tokens(self) -> int:
        """The estimated number of tokens that the message adds to a prompt."""
        calls = sum(estimate_tokens(call.name + call.arguments) + 4 for call in self.tool_calls)
        return estimate_tokens(self.content) + 4 + calls


class CallContext(Record, frozen=True, kw_only=True):
    """The question, predictor, repeat and seed of an LLM call.

    ``repeat`` is 0 when a run asks a question for the first time, 1 for the second time, and so on. ``seed``
    and ``repeat`` are part of a call's key. ``predictor`` and ``question_id`` are not part of a call's key.
    """

    question_id: str = ""
    predictor: str = ""
    repeat: int = 0
    seed: int = SEED


class LLMRequest(Record, frozen=True, kw_only=True):
    """One logical call. ``schema`` is the JSON schema of the reply, or ``None`` for free text.

    For each token of the reply, the server returns the log-probabilities of the ``logprobs`` most likely
    tokens. The temperature is always 0. If there are ``tools``, the reply may have tool calls. With
    ``json_tools``, the API's tools are not used: each reply is one tool call as JSON.
    """

    stage: str
    messages: tuple[Message, ...]
    schema: dict[str, Any] | None = None
    max_tokens: int = 512
    logprobs: int = 0
    tools: tuple[Tool, ...] = ()
    json_tools: bool = False
    context: CallContext = CallContext()

    @property
    def prompt_tokens(self) -> int:
        """The estimated number of tokens in the prompt."""
        tools = estimate_tokens(msgspec.json.encode(self.tools).decode()) if self.tools else 0
        return sum(message.tokens for message in self.messages) + tools

    def content(self, model: str) -> dict[str, Any]:
        """Return every value that the reply depends on."""
        tools = {"tools": msgspec.to_builtins(self.tools)} if self.tools else {}
        tools |= {"json_tools": True} if self.json_tools else {}
        return tools | {
            "model": model,
            "messages": msgspec.to_builtins(self.messages),
            "schema": self.schema,
            "max_tokens": self.max_tokens,
            "logprobs": self.logprobs,
            "temperature": 0,
            "seed": self.context.seed,
            "repeat": self.context.repeat,
        }


class Usage(Record, frozen=True, kw_only=True):
    """The token counts of one call.

    ``reported`` is true if the server reported the counts, and false if the counts are estimates.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reported: bool = False


class LLMReply(Record, frozen=True, kw_only=True):
    """The reply to one call.

    For each generated token, ``logprobs`` contains a mapping from the most likely tokens to their
    log-probabilities. ``latency_ms`` is the duration of the whole call, including retries and waits. A cached
    call keeps the latency of the original call. ``attempt`` is the number of the successful attempt, starting
    at 1. ``text`` has no reasoning. It may be empty if there are ``tool_calls``. ``truncated`` is true if the
    token limit ended the reply.
    """

    text: str
    usage: Usage = Usage()
    latency_ms: float = 0.0
    served_by: ServedBy = "server"
    model: str = ""
    logprobs: tuple[Mapping[str, float], ...] = ()
    attempt: int = 1
    truncated: bool = False
    tool_calls: tuple[ToolCall, ...] = ()


class CallResult(Record, frozen=True, kw_only=True):
    """The reply to a call. ``outcome`` is ``"ok"`` or the reason why the call failed.

    The reason is a short fixed text, such as ``"timeout"``, ``"http 500"`` or ``"malformed reply"``, that is
    stored in the ledger. The reply of a failed call is empty. ``detail`` is the start of the server's error
    message, with all API keys removed.
    """

    reply: LLMReply
    outcome: str = "ok"
    detail: str = ""


class ReplyError(LLMError):
    """Error for an LLM reply that is not usable. ``reason`` is stored in the ledger."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the LLM's reply is unusable: {reason}")
        self.reason = reason


class BudgetError(LLMError):
    """Error for an LLM call that would exceed the ``--max-calls`` or ``--max-tokens`` limit."""


def with_tools(request: LLMRequest) -> dict[str, Any]:
    """Return the messages and tools of a request in the form of the API."""
    tools = [{"type": "function", "function": tool} for tool in msgspec.to_builtins(request.tools)]
    return {"messages": [_sent(each) for each in request.messages], "tools": tools, "tool_choice": "auto"}


def as_chat(request: LLMRequest) -> list[Message]:
    """Return the messages of a request as a plain chat. Messages without tools are returned unchanged."""
    names: dict[str, str] = {}
    chat: list[Message] = []
    for message in request.messages:
        role, content = message.role, message.content
        for call in message.tool_calls:
            names[call.id] = call.name
            step = {"tool": call.name, "arguments": arguments_of(call)}
            content = f"{content}\n{msgspec.json.encode(step).decode()}".strip()
        if role == "tool":
            role, content = "user", f"The tool {names.get(message.tool_call_id, '')} answered:\n{content}"
        if names and role == "user" == chat[-1].role:
            # Many chat templates refuse two messages of the user in a row.
            content = f"{chat.pop().content}\n\n{content}"
        chat.append(Message(role=role, content=content))
    if request.tools:
        listed = [_RULES, *(msgspec.json.encode(tool).decode() for tool in request.tools)]
        first = [chat.pop(0).content] if chat and chat[0].role == "system" else []
        chat.insert(0, Message(role="system", content="\n".join(first + listed)))
    return chat


def step_schema(request: LLMRequest) -> dict[str, Any]:
    """Return the JSON schema of one tool call that is written as the reply of a plain chat."""
    call: dict[str, Any] = {
        "type": "object",
        "required": ["tool", "arguments"],
        "additionalProperties": False,
    }
    name, choices = {"type": "string"}, []
    for tool in request.tools:
        named: dict[str, Any] = name | {"enum": [tool.name]}
        choices.append(call | {"properties": {"tool": named, "arguments": _shape(tool.parameters)}})
    every: dict[str, Any] = name | {"enum": [tool.name for tool in request.tools]}
    return call | {"properties": {"tool": every, "arguments": {"type": "object"}}, "anyOf": choices}


def _shape(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON schema without the limits of texts and numbers, which many servers can't enforce."""
    shape: dict[str, Any] = {
        key: schema[key] for key in ("type", "enum", "required", "maxItems") if key in schema
    }
    if "properties" in schema:
        fields = {name: _shape(each) for name, each in schema["properties"].items()}
        shape |= {"properties": fields, "additionalProperties": False}
    if "items" in schema:
        shape["items"] = _shape(schema["items"])
    if "anyOf" in schema:
        shape["anyOf"] = [_shape(each) for each in schema["anyOf"]]
    return shape


def arguments_of(call: ToolCall) -> dict[str, Any] | None:
    """Return the arguments of a tool call, or ``None`` if they are not a JSON object."""
    try:
        return msgspec.json.decode(call.arguments, type=dict[str, Any])
    except NOT_JSON:
        return None


def _sent(message: Message) -> dict[str, Any]:
    """Return a message in the form of the API. Servers refuse names and arguments that are not valid."""
    sent: dict[str, Any] = msgspec.to_builtins(message)
    if message.tool_calls:
        sent["content"] = message.content or None
        sent["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": _NOT_IN_NAMES.sub("_", call.name) or "unknown",
                    "arguments": "{}" if arguments_of(call) is None else call.arguments,
                },
            }
            for call in message.tool_calls
        ]
    return sent
