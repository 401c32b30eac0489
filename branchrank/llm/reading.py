"""Parse responses from a chat completion endpoint, which may deviate from the API's format."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from time import time
from typing import Any

import msgspec

from branchrank.io.files import NOT_JSON
from branchrank.llm.request import CallFailedError, LLMReply, LLMRequest, Usage, estimate_tokens

_OVERFLOW_SIGNS = ("context_length", "context length", "context size", "exceed_context", "maximum context")
_DETAIL_CHARS = 200


def read_completion(
    status: int,
    body: bytes,
    request: LLMRequest,
    fault: str,
    attempt: int,
    redact: Callable[[str], str],
) -> LLMReply | CallFailedError:
    """Convert an HTTP response to a reply or a failure.

    A ``status`` of 0 means that there was no response, and ``fault`` gives the reason.
    """
    if status != 200:
        text = redact(body.decode("utf-8", "replace"))
        overflow = status in (400, 413, 422, 500) and any(sign in text.lower() for sign in _OVERFLOW_SIGNS)
        reason = "context overflow" if overflow else fault or f"http {status}"
        return CallFailedError(reason, _one_line(text), attempt=attempt)
    try:
        answer = msgspec.json.decode(body)
    except NOT_JSON:
        return CallFailedError("malformed response", attempt=attempt)
    choices = _at(answer, "choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    text = _at(choice, "message", "content")
    text = redact(text) if isinstance(text, str) else ""
    usage = read_usage(_at(answer, "usage"), request, text)
    logprobs = _logprobs(_at(choice, "logprobs", "content"), redact)
    reason = _unusable(choice, "logprobs" if logprobs else text)
    if reason:
        return CallFailedError(reason, usage=usage, attempt=attempt)
    model = _at(answer, "model")
    return LLMReply(
        text=text,
        usage=usage,
        model=redact(model) if isinstance(model, str) else "",
        logprobs=logprobs,
        attempt=attempt,
    )


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


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the wait in seconds from the Retry-After header (RFC 9110), or ``None`` if there is none."""
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time()
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _unusable(choice: object, text: str) -> str:
    """Return why a completion's choice is not a usable reply, or an empty string if it is usable."""
    if _at(choice, "message", "refusal"):
        return "refusal"
    if _at(choice, "finish_reason") == "content_filter":
        return "content filter"
    return "" if text.strip() else "empty reply"


def _logprobs(content: object, redact: Callable[[str], str]) -> tuple[dict[str, float], ...]:
    """Return the most likely tokens and their natural log-probabilities for each generated token."""
    if not isinstance(content, list):
        return ()
    tokens = []
    for position in content:
        top = _at(position, "top_logprobs")
        pairs = (
            [(_at(entry, "token"), _at(entry, "logprob")) for entry in top] if isinstance(top, list) else []
        )
        tokens.append(
            {
                redact(token): float(logprob)
                for token, logprob in pairs
                if isinstance(token, str) and isinstance(logprob, int | float) and math.isfinite(logprob)
            }
        )
    return tuple(tokens)


def _at(value: Any, *path: str) -> Any:
    """Return the value at a path of keys in nested objects, or ``None`` if the path doesn't exist."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def _count(value: object) -> int | None:
    """Return a token count from a server's response, or ``None`` if the count is not valid."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _one_line(text: str) -> str:
    """Return the start of a server's message on one line, without control characters."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:_DETAIL_CHARS]).strip()
