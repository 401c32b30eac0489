"""The two forms in which a request with tools is sent: with the API's tools, and as a plain chat.

A server without support for tools gets the same conversation as a plain chat: the system message describes
the tools, a tool call is a JSON object that the assistant wrote, and the answer of a tool is a message of the
user.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from branchrank.core.io.files import NOT_JSON
from branchrank.search.llm.request import LLMRequest, Message, ToolCall

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_RULES = (
    "You work in steps. In each step, use one of the tools below. Answer with one JSON object and nothing "
    'else: {"tool": "NAME", "arguments": {...}}. The next message has the tool\'s answer. The tools, each '
    "with the JSON schema of its arguments:"
)


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
