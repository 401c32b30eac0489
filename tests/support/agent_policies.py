"""Policies of a scripted server that plays an agent: each turn's tool calls follow from the request."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from support import scripted_llm as scripted
from support.scripted_llm import Action, Chat

Policy = Callable[[Chat, int], Action]
_CITED = re.compile(r"\[([^\s\]]+):(\d+)-(\d+)")


def call(name: str, number: int = 1, /, **arguments: Any) -> dict[str, Any]:
    """One call of a tool, as a server writes it."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": f"call_{number}", "type": "function", "function": function}


def turn(*calls: dict[str, Any], text: str | None = None) -> Action:
    """A reply with these calls of tools."""
    return scripted.reply({"content": text, "tool_calls": list(calls)}, "tool_calls")


def answer(*citations: tuple[str, int, int], text: str = "So.") -> Action:
    """A reply that ends the question."""
    cited = [{"path": path, "line_start": first, "line_end": last} for path, first, last in citations]
    return turn(call("answer", citations=cited, text=text))


def question(chat: Chat) -> str:
    """The question of a conversation."""
    return str(chat.body["messages"][1]["content"]).split("\n")[0].removeprefix("Question: ")


def told(chat: Chat) -> list[str]:
    """The answers of tools so far."""
    return [each["content"] for each in chat.body["messages"] if each["role"] == "tool"]


def shown(chat: Chat) -> list[tuple[str, int, int]]:
    """The citations in the answers of tools so far."""
    found = _CITED.findall("\n".join(told(chat)))
    return [(path, int(first), int(last)) for path, first, last in found]


def greps(chat: Chat, number: int) -> Action:
    """Searches with grep, reads the first file that was found, and cites the first three passages."""
    if not told(chat):
        return turn(call("grep_search", query=question(chat)))
    if len(told(chat)) == 1 and shown(chat):
        return turn(call("read_file", path=shown(chat)[0][0]))
    found = _CITED.findall(told(chat)[0])
    return answer(*((path, int(first), int(last)) for path, first, last in found[:3]))


def loops(chat: Chat, number: int) -> Action:
    """Never answers."""
    return turn(call("grep_search", query=question(chat)))
