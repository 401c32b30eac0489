"""The LLM client, which uses the ``openai`` package to call any OpenAI-compatible endpoint.

1. A call's deadline covers the connections, all retries, the waits between retries and the downloads.
2. For a request with a schema, the client tries three reply formats in order: JSON that conforms to the
   schema, JSON without a schema, and plain text. The first format that the server accepts is used for all
   later calls.
3. A call is retried after a lost connection and after the HTTP statuses 408, 409, 425, 429, 500, 502, 503,
   504 and 529. Before a retry, the client waits for the time in the ``Retry-After`` header. Without this
   header, the wait starts at 0.5 seconds and doubles with each retry. Retries are limited per call, per run
   and by the deadline. The ``openai`` package makes no retries of its own, so every attempt is counted.
4. Redirects are not followed. API keys are removed from all text that the server returns.
5. A call fails if the body of a completion or a model list is larger than 8 MiB, or is compressed
   (:mod:`branchrank.core.io.http_client`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from branchrank.core.errors import LLMError, Remedy
from branchrank.core.io import Closing
from branchrank.core.io.files import NOT_JSON
from branchrank.core.io.keys import Endpoint
from branchrank.core.io.printable import Redactor, guard_logs
from branchrank.core.settings import LLMSettings
from branchrank.search.llm.ledger import Budget
from branchrank.search.llm.request import (
    INTERRUPTED,
    BudgetError,
    CallResult,
    LLMReply,
    LLMRequest,
    Usage,
    estimate_tokens,
)

Format = Literal["schema", "object", "plain"]

_FORMATS: tuple[Format, ...] = ("schema", "object", "plain")
_RETRIED = {408, 409, 425, 429, 500, 502, 503, 504, 529}
_LARGEST_BODY = 8 << 20
#: Token counts and log-probabilities beyond this size are invalid.
_LARGEST = 1_000_000_000
_PROBE_S = 5.0
_OVERFLOW_SIGNS = ("context_length", "context length", "context size", "exceed_context", "maximum context")
_DETAIL_CHARS = 200


class UnreachableError(LLMError):
    """Error for an LLM endpoint that does not answer."""


class LLM(Protocol):
    """An object that answers an :class:`LLMRequest`, such as :class:`ChatClient`."""

    model: str

    def complete(self, request: LLMRequest) -> CallResult:
        """Answer one request. Raises :class:`BudgetError` if the budget is spent."""
        ...


class Response(NamedTuple):
    """One HTTP response. If there was no response, ``status`` is 0 and ``fault`` gives the reason."""

    status: int
    body: bytes = b""
    retry_after: float | None = None
    fault: str = ""


class ChatClient(Closing):
    """Calls one model at one endpoint. Thread-safe. Call :meth:`close` after the last call."""

    def __init__(
        self,
        endpoint: Endpoint,
        model: str,
        settings: LLMSettings,
        *,
        budget: Budget | None = None,
        redact: Callable[[str], str] | None = None,
        first_wait_s: float = 0.5,
    ) -> None:
        from branchrank.core.io.http_client import BoundedTransport, open_sdk

        self.endpoint = endpoint
        self.model = model
        self.settings = settings
        self.budget = budget or Budget(settings)
        self._redact = redact or Redactor(endpoint.secrets)
        self._first_wait_s = first_wait_s
        self._format: Format = "schema"
        self._format_known = False
        self._slots = threading.BoundedSemaphore(settings.concurrency)
        self._running: set[threading.Event] = set()
        self._transport = BoundedTransport(endpoint.url, limit_bytes=_LARGEST_BODY)
        self._sdk = open_sdk(endpoint, self._transport)
        self._end_guard = guard_logs(self._redact)

    def complete(self, request: LLMRequest) -> CallResult:
        """Answer one request within the deadline.

        Raises :class:`BudgetError` if the budget is spent before the first attempt.
        """
        interrupted = threading.Event()
        with self._slots:
            started = time.monotonic()
            self._running.add(interrupted)
            try:
                found = self._attempts(request, started + self.settings.deadline_s, interrupted)
            finally:
                self._running.discard(interrupted)
            latency_ms = round((time.monotonic() - started) * 1000, 3)
        reply = msgspec.structs.replace(found.reply, latency_ms=latency_ms)
        return msgspec.structs.replace(found, reply=reply)

    def probe(self) -> tuple[str, ...]:
        """Return the names of the endpoint's models, or an empty tuple if the endpoint lists no models.

        Raises :class:`UnreachableError` if the endpoint doesn't answer within five seconds. Raises
        :class:`LLMError` if the endpoint rejects the key.
        """
        response = self._sent(self._sdk.get, "/models", _PROBE_S)
        if response.status in (401, 403):
            raise LLMError(
                f"the LLM endpoint {self.endpoint.url} rejects the key with HTTP {response.status}",
                remedy="set BRANCHRANK_LLM_KEY and BRANCHRANK_LLM_KEY_HOST",
            )
        if response.status == 0 or response.status == 503:
            faults = {"timeout": f"no answer within {_PROBE_S:g} s", "connection": "no connection"}
            why = faults.get(response.fault, response.fault) or "HTTP 503"
            raise UnreachableError(
                f"no LLM answers at {self.endpoint.url}: {why}",
                remedy=(
                    "start the server",
                    Remedy("give another endpoint ({})", "--hybrid-base-url --pageindex-base-url"),
                    Remedy("run without an LLM ({})", "--hybrid-no-llm --pageindex-no-llm"),
                    Remedy("let each call use its fallback ({})", "--on-llm-failure"),
                ),
            )
        try:
            listed = msgspec.json.decode(response.body)["data"]
            return tuple(self._redact(str(model["id"])) for model in listed)
        except (KeyError, TypeError, IndexError, *NOT_JSON):
            return ()

    def cancel(self) -> None:
        """Cancel all running calls. A canceled call fails with the reason ``"interrupted"``."""
        for interrupted in list(self._running):
            interrupted.set()
        self._transport.interrupt()

    def close(self) -> None:
        """Cancel all running calls and close the connections."""
        self.cancel()
        self._sdk.close()
        self._end_guard()

    def _attempts(self, request: LLMRequest, deadline: float, interrupted: threading.Event) -> CallResult:
        """Return the reply, or the failure if the call fails or exceeds the deadline."""
        asked = self._format if request.schema is not None else "plain"
        failure: CallResult | None = None
        attempt = retries = 0
        while True:
            try:
                self.budget.reserve(request.prompt_tokens)
            except BudgetError:
                # If the budget does not allow a retry, return the previous failure, so that the run
                # continues.
                if failure is None:
                    raise
                return failure
            attempt += 1
            left = max(0.001, deadline - time.monotonic())
            response = self._sent(self._sdk.post, "/chat/completions", left, body=self._body(request, asked))
            if interrupted.is_set():
                return _failed(INTERRUPTED)
            if response.fault == "timeout":
                # The server may have read the prompt, so the prompt's estimated tokens count as spent.
                usage = Usage(prompt_tokens=request.prompt_tokens)
                return _failed("timeout", usage=usage, attempt=attempt)
            found = read_completion(response, request, attempt, self._redact)
            usage = found.reply.usage
            self.budget.settle(request.prompt_tokens, usage.prompt_tokens + usage.completion_tokens)
            if found.outcome == "ok":
                if request.schema is not None:
                    self._format, self._format_known = asked, True
                return found
            failure = found
            if self._may_degrade(response.status, failure.outcome) and asked != "plain":
                asked = _FORMATS[_FORMATS.index(asked) + 1]
                continue
            wait = self._first_wait_s * 2**retries if response.retry_after is None else response.retry_after
            lost = response.status in _RETRIED or failure.outcome == "connection"
            in_time = time.monotonic() + wait < deadline
            if not (lost and in_time and retries < self.settings.retries and self.budget.take_retry()):
                return failure
            retries += 1
            if interrupted.wait(wait):
                return _failed(INTERRUPTED)

    def _may_degrade(self, status: int, reason: str) -> bool:
        """Return whether an error can mean that the server does not support the requested reply format."""
        return status in (400, 404, 415, 422, 501) and reason != "context overflow" and not self._format_known

    def _body(self, request: LLMRequest, asked: Format) -> dict[str, Any]:
        """Return the parameters of a request for a chat completion."""
        body: dict[str, Any] = {
            "model": self.model,
            "messages": msgspec.to_builtins(request.messages),
            "max_tokens": request.max_tokens,
            "temperature": 0,
            "seed": request.context.seed + request.context.repeat,
        }
        if asked == "schema":
            schema = {"name": "reply", "strict": True, "schema": request.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif asked == "object":
            body["response_format"] = {"type": "json_object"}
        if request.logprobs:
            body |= {"logprobs": True, "top_logprobs": request.logprobs}
        return body

    def _sent(self, call: Callable[..., Any], path: str, timeout: float, **body: Any) -> Response:
        """Send one request and return the response, whatever its status."""
        import httpx2
        import openai

        from branchrank.core.io.http_client import OversizedError, retry_after

        try:
            # The raw response is read, because servers deviate from the types of the package.
            answer = call(path, cast_to=httpx2.Response, options={"timeout": timeout}, **body)
        except openai.APIStatusError as error:
            answer = error.response
        except openai.APITimeoutError:
            return Response(0, fault="timeout")
        except (openai.APIConnectionError, ValueError) as error:
            oversized = isinstance(error.__cause__, OversizedError)
            return Response(0, fault="oversized reply" if oversized else "connection")
        return Response(answer.status_code, answer.content, retry_after(answer.headers))


def read_completion(
    response: Response, request: LLMRequest, attempt: int, redact: Callable[[str], str]
) -> CallResult:
    """Convert an HTTP response, which may deviate from the API's format, to a reply or a failure."""
    status, body, _, fault = response
    if status != 200:
        text = redact(body.decode("utf-8", "replace"))
        overflow = status in (400, 413, 422, 500) and any(sign in text.lower() for sign in _OVERFLOW_SIGNS)
        reason = "context overflow" if overflow else fault or f"http {status}"
        return _failed(reason, _one_line(text), attempt=attempt)
    try:
        answer = msgspec.json.decode(body)
    except NOT_JSON:
        return _failed("malformed response", attempt=attempt)
    choices = _at(answer, "choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    text = _at(choice, "message", "content")
    text = redact(text) if isinstance(text, str) else ""
    usage = read_usage(_at(answer, "usage"), request, text)
    logprobs = _logprobs(_at(choice, "logprobs", "content"), redact)
    reason = _unusable(choice, "logprobs" if logprobs else text)
    if reason:
        return _failed(reason, usage=usage, attempt=attempt)
    model = _at(answer, "model")
    reply = LLMReply(
        text=text,
        usage=usage,
        model=redact(model) if isinstance(model, str) else "",
        logprobs=logprobs,
        attempt=attempt,
    )
    return CallResult(reply=reply)


def _failed(reason: str, detail: str = "", *, usage: Usage | None = None, attempt: int = 1) -> CallResult:
    message = f"the LLM call failed: {reason}" + (f" ({detail})" if detail else "")
    reply = LLMReply(text="", usage=usage or Usage(), attempt=attempt)
    return CallResult(reply=reply, outcome=reason, detail=message)


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
                if isinstance(token, str) and isinstance(logprob, int | float) and abs(logprob) <= _LARGEST
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
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST:
        return None
    return value


def _one_line(text: str) -> str:
    """Return the start of a server's message on one line, without control characters."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:_DETAIL_CHARS]).strip()
