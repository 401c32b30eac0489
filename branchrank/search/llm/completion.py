"""Read the reply from a server's response to a request for a chat completion.

1. A response may deviate from the format of the API. A value is used only if it has the expected type.
2. A response with the status 200 that contains an error counts as a response with the status of the error.
3. The reply to a request without tools is the arguments of a tool call or the content of the message, which
   may be a list of parts.
4. The reply to a request with tools is the content and the tool calls. If there are no tool calls, the JSON
   that a model or server writes in the content instead is read.
5. Reasoning is never a part of the reply, whether the server marks it or the model writes it in tags.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from itertools import count, islice
from typing import Any, NamedTuple

import msgspec

from branchrank.core.io.files import NOT_JSON
from branchrank.search.llm.prompts import DECODER, read_json
from branchrank.search.llm.request import (
    TRUNCATED,
    CallResult,
    LLMReply,
    LLMRequest,
    ReplyError,
    ToolCall,
    Usage,
    arguments_of,
    estimate_tokens,
)

#: Token counts and log-probabilities beyond this size are invalid.
_LARGEST = 1_000_000_000
_OVERFLOW_SIGNS = ("context_length", "context length", "context size", "exceed_context", "maximum context")
_DETAIL_CHARS = 200
#: The HTTP statuses that the code or the type of an error object means.
_STATUSES: dict[Any, int] = {key: code for code in range(400, 600) for key in (code, str(code))}
_STATUSES |= dict.fromkeys(("rate_limit_exceeded", "rate_limit_error", "RESOURCE_EXHAUSTED"), 429)

_NAMES = r"(?:\w{1,20}[:_])?(?:think|thinking|thoughts?|reasoning|reflection|scratchpad)>"
#: The marks around reasoning of common models. The last group has marks that are not part of a reply either.
_MARK = re.compile(
    rf"(?=[<\[◁ah])(?:(?P<close></{_NAMES}|\[/THINK\]|◁/think▷|<\|end_of_thought\|>|<\|END_THINKING\|>|<unused95>|<channel\|>"
    r"|<\|channel\|>final\b[^<]{0,99}<\|message\|>|assistantfinal|^Here(?: is|'s) my response:)"
    rf"|(?P<open><{_NAMES}|\[THINK\]|◁think▷|<\|begin_of_thought\|>|<\|START_THINKING\|>|<unused94>|<\|channel>thought"
    r"|<\|channel\|>(?:analysis|commentary)\b[^<]{0,99}<\|message\|>|\Aanalysis(?-i:(?=[A-Z]))"
    r"|^Here(?: is|'s) my thought process:)"
    r"|</?answer>|<\|(?:end|return|start|(?:begin|end)_of_solution|(?:START|END)_RESPONSE)\|>(?:assistant)?)\s*",
    re.IGNORECASE | re.MULTILINE,
)
_MOST_MARKS = 1000
#: The most tool calls in one reply, and the most characters of their arguments and of their other fields.
_MOST_CALLS = 32
_MOST_ARGUMENTS = 64 << 10
_MOST_CHARS = 64
_NAMES_OF_TOOLS = ("tool", "name", "function")
_TOOL_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_WORD = re.compile(r"[a-z_]+")
_LIMIT = re.compile(r"too (?:large|high|big|low|small)|at (?:most|least)|exceed|(?:less|more) than|between")


class Response(NamedTuple):
    """One HTTP response. If there was no response, ``status`` is 0 and ``fault`` gives the reason."""

    status: int
    body: bytes = b""
    retry_after: float | None = None
    fault: str = ""

    def refused_parameter(self, sent: Collection[str]) -> str | None:
        """Return the first parameter of ``sent`` that the server's error names, or ``None``.

        An error about the size of a limit does not mean that the server lacks the parameter.
        """
        text = self.body.decode("utf-8", "replace")
        named = next((word for word in _WORD.findall(text) if word in sent), None)
        return None if named is not None and "tokens" in named and _LIMIT.search(text) else named


def read_completion(
    response: Response, request: LLMRequest, attempt: int, redact: Callable[[str], str]
) -> CallResult:
    """Convert an HTTP response, which may deviate from the API's format, to a reply or a failure."""
    status, body, _, fault = response
    try:
        answer = msgspec.json.decode(body)
    except NOT_JSON:
        answer, fault = None, fault or "malformed response"
    choice = next(iter(_list(_at(answer, "choices"))), None)
    error = _at(choice, "error") or (None if choice else _at(answer, "error"))
    if status == 200 and (error or _at(answer, "object") == "error"):
        codes = (_at(error, "code"), _at(error, "status"), _at(error, "type"), _at(answer, "code"))
        known = [_STATUSES[code] for code in codes if isinstance(code, str | int) and code in _STATUSES]
        status, fault = (known[0], "") if known else (0, "server error")
    if status != 200:
        text = redact(body.decode("utf-8", "replace"))
        overflow = status in (400, 413, 422, 500) and any(sign in text.lower() for sign in _OVERFLOW_SIGNS)
        reason = "context overflow" if overflow else f"http {status}" if status else fault
        return failed(reason, _one_line(redact(_error_text(answer, error)) or text), attempt=attempt)
    if fault:
        return failed(fault, attempt=attempt)
    message = _at(choice, "message")
    calls: tuple[ToolCall, ...] = ()
    if request.tools:
        text, calls = _read_calls(message, redact(_content(message)), request, redact)
    else:
        text = redact(_text(message))
    written = "".join((text, *(call.name + call.arguments for call in calls)))
    usage = read_usage(_at(answer, "usage"), request, written)
    logprobs = _logprobs(_at(choice, "logprobs", "content"), redact)
    truncated = _at(choice, "finish_reason") in ("length", "max_tokens") and not request.logprobs
    reason = _unusable(choice, "logprobs" if logprobs else written)
    cut = truncated and bool(request.tools) and (not calls or arguments_of(calls[-1]) is None)
    if reason or cut:
        reason = TRUNCATED if truncated and reason in ("", "empty reply") else reason
        return failed(reason, usage=usage, attempt=attempt)
    model = _at(answer, "model")
    reply = LLMReply(
        text=text,
        usage=usage,
        model=redact(model) if isinstance(model, str) else "",
        logprobs=logprobs,
        attempt=attempt,
        truncated=truncated,
        tool_calls=calls,
    )
    return CallResult(reply=reply)


def failed(reason: str, detail: str = "", *, usage: Usage = Usage(), attempt: int = 1) -> CallResult:  # noqa: B008
    """Return the result of a call that failed."""
    return CallResult(reply=LLMReply(text="", usage=usage, attempt=attempt), outcome=reason, detail=detail)


def without_reasoning(text: str) -> str:
    """Return what a model wrote outside of its reasoning. A text that is JSON is returned unchanged.

    The first mark of a text can be the end of the reasoning, because the prompt can contain the beginning.
    Reasoning without an end is the rest of the text. A mark in quotes is text.

    >>> without_reasoning("Maybe s2. </think> The best is s1.")
    'The best is s1.'
    """
    text = text.strip()
    if _is_json(text, 0):
        return text
    kept: list[str] = []
    end, reasons = 0, False
    for mark in islice(_MARK.finditer(text), _MOST_MARKS):
        around = text[max(0, mark.start() - 1) : mark.start()] + text[mark.end() : mark.end() + 1]
        if around in ("``", '""', "''"):
            continue
        if not reasons:
            kept.append(text[end : mark.start()])
        end = mark.end()
        if mark["open"]:
            reasons = True
        elif mark["close"]:
            if not reasons:
                kept.clear()
            reasons = False
            if _is_json(text, end):
                return text[end:]
    return "".join(kept) + ("" if reasons else text[end:])


def _is_json(text: str, start: int) -> bool:
    """Return whether the rest of a text, which has no spaces around it, is one JSON object or array."""
    try:
        return text[start : start + 1] in ("{", "[") and DECODER.raw_decode(text, start)[1] == len(text)
    except (ValueError, RecursionError):
        return False


def _text(message: object) -> str:
    """Return the arguments of the first tool call or, if there are none, the text of the content."""
    for _, function in _functions(message):
        if arguments := _at(function, "arguments"):
            return _as_json(arguments)
    return _content(message)


def _functions(message: object) -> list[tuple[object, object]]:
    """Return the ID and the function of each tool call in a message."""
    listed = [(_at(call, "id"), _at(call, "function")) for call in _list(_at(message, "tool_calls"))]
    return [*listed, (None, _at(message, "function_call"))]


def _read_calls(
    message: object, text: str, request: LLMRequest, redact: Callable[[str], str]
) -> tuple[str, tuple[ToolCall, ...]]:
    """Return the text of a message without its tool calls, and the tool calls.

    An ID that is missing, or that an earlier tool call has, is replaced by a number. The number is written
    with nine letters and digits, because the chat templates of some models refuse other IDs.
    """
    *listed, legacy = _functions(message)
    found = [each for each in listed or [legacy] if isinstance(each[1], dict)]
    if not found:
        names = [tool.name for tool in request.tools]
        marked = [part[1] for part in islice(_TOOL_CALL.finditer(text), _MOST_CALLS)]
        found = [(None, each) for part in marked or [text] for each in _written_calls(part, names)]
        if found:
            text = _TOOL_CALL.sub("", text).strip() if marked else ""
    used = {call.id for message in request.messages for call in message.tool_calls}
    calls = []
    for given, function in found[:_MOST_CALLS]:
        identifier = redact(given)[:_MOST_CHARS] if isinstance(given, str) else ""
        if not identifier or identifier in used:
            identifier = next(new for n in count(len(used) + 1) if (new := f"call{n:05}") not in used)
        used.add(identifier)
        name = redact(_name(function))[:_MOST_CHARS]
        arguments = redact(_as_json(_at(function, "arguments") or _at(function, "parameters") or {}))
        calls.append(ToolCall(id=identifier, name=name, arguments=arguments[:_MOST_ARGUMENTS]))
    return text[:_MOST_ARGUMENTS], tuple(calls)


def _written_calls(text: str, names: Collection[str]) -> list[object]:
    """Return the tool calls in the first JSON value of a text, which may be a list of tool calls."""
    try:
        value = read_json(text)
    except ReplyError:
        return []
    found = []
    for each in _list(value) or [value]:
        function = _at(each, "function")
        function = function if isinstance(function, dict) else each
        if _name(function) in names or isinstance(_at(function, "tool"), str):
            found.append(function)
    return found


def _name(function: object) -> str:
    """Return the first text under the keys that servers and models write the name of a tool to."""
    return next((text for key in _NAMES_OF_TOOLS if isinstance(text := _at(function, key), str)), "")


def _as_json(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()


def _content(message: object) -> str:
    """Return the text of a message's content, without reasoning."""
    return without_reasoning("".join(map(_part_text, _parts(message))))


def _parts(message: object) -> list[Any]:
    content = _at(message, "content")
    return _list(content) or [content]


def _part_text(part: object) -> str:
    """Return the text of one part of a message's content. Reasoning and other kinds of parts have none."""
    if _at(part, "type") in (None, "text", "output_text") and not _at(part, "thought"):
        text = _at(part, "text")
        part = _at(text, "value") or text if isinstance(part, dict) else part
    return part if isinstance(part, str) else ""


def _error_text(answer: object, error: object) -> str:
    """Return the message of an error object, or an empty string if it has none."""
    texts = [_at(error, "message") or error or _at(answer, "message") or _at(answer, "detail")]
    texts.append(_at(error, "metadata", "raw"))
    return ": ".join(text for text in texts if isinstance(text, str))


def read_usage(usage: object, request: LLMRequest, text: str) -> Usage:
    """Return the token counts that the server reported. Return estimates if a count is missing or invalid."""
    prompt, completion = _count(_at(usage, "prompt_tokens")), _count(_at(usage, "completion_tokens"))
    if prompt is None or completion is None:
        return Usage(prompt_tokens=request.prompt_tokens, completion_tokens=estimate_tokens(text))
    cached = _count(_at(usage, "prompt_tokens_details", "cached_tokens")) or 0
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        cached_tokens=min(cached, prompt),
        reported=True,
    )


def _unusable(choice: object, text: str) -> str:
    """Return why a completion's choice is not a usable reply, or an empty string if it is usable."""
    message = _at(choice, "message")
    if _at(message, "refusal") or any(_at(part, "type") == "refusal" for part in _parts(message)):
        return "refusal"
    if _at(choice, "finish_reason") == "content_filter":
        return "content filter"
    return "" if text.strip() else "empty reply"


def _logprobs(content: object, redact: Callable[[str], str]) -> tuple[dict[str, float], ...]:
    """Return the most likely tokens and their natural log-probabilities for each generated token."""
    return tuple(
        {
            redact(token): float(logprob)
            for entry in _list(_at(position, "top_logprobs"))
            if isinstance(token := _at(entry, "token"), str)
            and isinstance(logprob := _at(entry, "logprob"), int | float)
            and abs(logprob) <= _LARGEST
        }
        for position in _list(content)
    )


def _list(value: object) -> list[Any]:
    """Return a value that is a list, or an empty list."""
    return value if isinstance(value, list) else []


def _at(value: Any, *path: str) -> Any:
    """Return the value at a path of keys in nested objects, or ``None`` if the path doesn't exist."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def _count(value: object) -> int | None:
    """Return a token count from a server's response, or ``None`` if the count is not valid."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST:
        return None
    return value


def _one_line(text: str) -> str:
    """Return the start of a server's message on one line, without control characters."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:_DETAIL_CHARS]).strip()
