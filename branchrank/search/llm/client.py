"""The LLM client, which uses the ``openai`` package to call any OpenAI-compatible endpoint.

1. A call's deadline covers the connections, all retries, the waits between retries and the downloads.
2. For a request with a schema, the client tries three reply formats in order: JSON that conforms to the
   schema, JSON without a schema, and plain text. For a request with tools, the client first tries the API's
   tools (not with ``json_tools``), and then a plain chat (:mod:`branchrank.search.llm.request`) in the
   three formats. The first format that the server accepts is used for all later calls. A parameter that an
   error with the status 400 or 422 names is renamed or left out of all later calls. ``notify`` is called with
   a message if a parameter or the API's tools are refused.
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
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from branchrank.core.errors import LLMError, Remedy
from branchrank.core.io import Closing
from branchrank.core.io.files import NOT_JSON
from branchrank.core.io.keys import Endpoint
from branchrank.core.io.printable import Redactor, guard_logs
from branchrank.core.io.progress import Notify, no_notice
from branchrank.core.settings import LLMSettings
from branchrank.core.settings.systems import MODEL_FLAGS, NO_LLM_FLAGS, URL_FLAGS
from branchrank.search.llm.completion import Response, failed, read_completion
from branchrank.search.llm.ledger import Budget
from branchrank.search.llm.prompts import Shown, rerank_messages
from branchrank.search.llm.request import (
    INTERRUPTED,
    BudgetError,
    CallResult,
    LLMRequest,
    Usage,
    as_chat,
    step_schema,
    with_tools,
)

Format = Literal["tools", "schema", "object", "plain"]

_FORMATS: tuple[Format, ...] = ("tools", "schema", "object", "plain")
_RETRIED = {"connection", *(f"http {code}" for code in (408, 409, 425, 429, 500, 502, 503, 504, 529))}
#: The failures that can mean that the server does not support the requested reply format.
_UNSUPPORTED = {f"http {code}" for code in (400, 404, 415, 422, 501)}
#: The other failures that can mean that the server does not support tools, if the server's error names them.
_WITHOUT_TOOLS = ("http 500", "server error")
#: The parameters that a server may refuse, with the names under which they are sent, in order.
_FORMS = (("max_tokens", "max_completion_tokens"), ("temperature",), ("seed",))
_LARGEST_BODY = 8 << 20
_PROBE_S = 5.0

#: The results of a call to a URL that is not one of the API. The first two are never temporary.
_MISSING = ("http 404", "http 405", "malformed response", "server error")
#: The call that checks an endpoint, a small ranking. The run's budget does not count it.
CHECK = LLMRequest(
    stage="check",
    messages=rerank_messages(
        "hello", [Shown(label="s01", heading="Greet"), Shown(label="s02", heading="Leave")]
    ),
    max_tokens=16,
)


class UnreachableError(LLMError):
    """Error for an LLM endpoint that does not answer."""


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
        notify: Notify = no_notice,
    ) -> None:
        from branchrank.core.io.http_client import BoundedTransport, open_sdk

        self.endpoint = endpoint
        self.model = model
        self.settings = settings
        self.budget = budget or Budget(settings)
        self._redact = redact or Redactor(endpoint.secrets)
        self._first_wait_s = first_wait_s
        #: For the first format of a request, the format that the server accepts.
        self._accepted: dict[Format, Format] = {}
        self._refused: set[str] = set()
        self._notify = notify
        self._lock = threading.Lock()
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
                    Remedy("give another endpoint ({})", URL_FLAGS),
                    Remedy("run without an LLM, which an agent cannot ({})", NO_LLM_FLAGS),
                    Remedy("let each call use its fallback ({})", "--on-llm-failure"),
                ),
            )
        try:
            listed = msgspec.json.decode(response.body)["data"]
            return tuple(self._redact(str(model["id"])) for model in listed)
        except (KeyError, TypeError, IndexError, *NOT_JSON):
            return ()

    def check(self) -> None:
        """Make one short call, and use the path ``/v1`` below the URL if only this path has the API.

        Without a model, the only model of the endpoint is used from now on. Raises :class:`LLMError` if
        neither URL has the API, if the server does not have the model, and in the cases of :meth:`probe`.
        """
        given = self.endpoint.url
        listed, found = self._tried()
        if found.outcome in _MISSING and not given.endswith("/v1"):
            self._use(f"{given}/v1")
            names, below = self._tried()
            if below.outcome in _MISSING and not names:
                self._use(given)
            else:
                listed, found = names, below
                self._notify(f"{given} is not the base URL of the API, so {given}/v1 is used")
        unlisted = bool(listed) and self.model not in listed
        if found.outcome in _MISSING[:2] or (unlisted and found.outcome in _UNSUPPORTED):
            model = self.model or only_model(listed, self.endpoint.url)
            why = ": ".join(filter(None, (found.outcome, found.detail)))
            shown = ", ".join(sorted(listed)[:10])
            other = Remedy("use a chat model that the server lists ({})", MODEL_FLAGS, shown)
            url = Remedy("use the base URL of an OpenAI-compatible API ({})", URL_FLAGS)
            raise LLMError(
                f"the model {model!r} at {self.endpoint.url} does not answer: {why}",
                remedy=other if listed else url,
            )

    def _tried(self) -> tuple[tuple[str, ...], CallResult]:
        """Return the models that the server lists, and the result of one call."""
        listed = self.probe()
        if listed and not self.model:
            self.model = only_model(listed, self.endpoint.url)
        return listed, self.complete(CHECK) if self.model else failed(_MISSING[0])

    def _use(self, url: str) -> None:
        self.endpoint.url = self._sdk.base_url = url

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
        first: Format = "plain" if request.schema is None else "schema"
        if request.tools:
            first = "schema" if request.json_tools else "tools"
        asked = self._accepted.get(first, first)
        failure: CallResult | None = None
        attempt = retries = 0
        budget = Budget(LLMSettings()) if request is CHECK else self.budget
        while True:
            try:
                budget.reserve(request.prompt_tokens)
            except BudgetError:
                # If the budget does not allow a retry, return the previous failure, so that the run
                # continues.
                if failure is None:
                    raise
                return failure
            attempt += 1
            left = max(0.001, deadline - time.monotonic())
            body = self._body(request, asked)
            response = self._sent(self._sdk.post, "/chat/completions", left, body=body)
            if interrupted.is_set():
                return failed(INTERRUPTED)
            if response.fault == "timeout":
                # The server may have read the prompt, so the prompt's estimated tokens count as spent.
                usage = Usage(prompt_tokens=request.prompt_tokens)
                return failed("timeout", usage=usage, attempt=attempt)
            found = read_completion(response, request, attempt, self._redact)
            usage = found.reply.usage
            budget.settle(request.prompt_tokens, usage.prompt_tokens + usage.completion_tokens)
            if found.outcome == "ok":
                self._accepts(first, asked)
                return found
            failure = found
            if failure.outcome in ("http 400", "http 422") and self._adapts(response, body):
                continue
            known = self._accepted.get(first)
            if asked not in ("plain", known) and _unsupported(failure, response, asked):
                asked = known or _FORMATS[_FORMATS.index(asked) + 1]
                continue
            wait = self._first_wait_s * 2**retries if response.retry_after is None else response.retry_after
            lost = failure.outcome in _RETRIED
            in_time = time.monotonic() + wait < deadline
            if not (lost and in_time and retries < self.settings.retries and budget.take_retry()):
                return failure
            retries += 1
            if interrupted.wait(wait):
                return failed(INTERRUPTED)

    def _accepts(self, first: Format, asked: Format) -> None:
        """Remember the format that the server accepted for a request with the format ``first``."""
        with self._lock:
            known = first in self._accepted
            self._accepted.setdefault(first, asked)
        if first == "tools" != asked and not known:
            self._notify(
                f"{self.model} at {self.endpoint.url} refuses tools; each tool call is asked for as JSON"
            )

    def _adapts(self, response: Response, sent: dict[str, Any]) -> bool:
        """Rename or leave out a refused parameter from now on. Return whether to send the request again."""
        refused = response.refused_parameter(sent.keys() - {"model", "messages"})
        forms = next((forms for forms in _FORMS if refused in forms), ())
        if refused is None or not forms:
            return False
        if refused not in self._refused:
            self._refused.add(refused)
            other = "".join(f"; {name} is sent instead" for name in forms if name not in self._refused)
            self._notify(f"{self.model} at {self.endpoint.url} refuses the parameter {refused}{other}")
        return True

    def _body(self, request: LLMRequest, asked: Format) -> dict[str, Any]:
        """Return the parameters of a request for a chat completion."""
        body: dict[str, Any] = {"model": self.model, "messages": msgspec.to_builtins(as_chat(request))}
        seed = request.context.seed + request.context.repeat
        values = {"max_tokens": request.max_tokens, "temperature": 0, "seed": seed}
        for forms in _FORMS:
            accepted = [form for form in forms if form not in self._refused]
            body |= dict.fromkeys(accepted[:1], values[forms[0]])
        if asked == "tools":
            body |= with_tools(request)
        elif asked == "schema":
            wanted = step_schema(request) if request.tools else request.schema
            schema = {"name": "reply", "strict": True, "schema": wanted}
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


def _unsupported(failure: CallResult, response: Response, asked: Format) -> bool:
    """Return whether a failure can mean that the server does not support the requested reply format."""
    named = response.refused_parameter(("tools", "tool_choice")) if asked == "tools" else None
    return failure.outcome in _UNSUPPORTED or (named is not None and failure.outcome in _WITHOUT_TOOLS)


def only_model(models: Sequence[str], where: str) -> str:
    """Return the only model. Raises :class:`LLMError` if there is none, or more than one."""
    if len(models) == 1:
        return models[0]
    shown = ", ".join(sorted(models)[:10]) or "none listed"
    raise LLMError(
        f"no LLM model was given, and {where} has {len(models)} models: {shown}",
        remedy=Remedy("give one with {}", MODEL_FLAGS),
    )
