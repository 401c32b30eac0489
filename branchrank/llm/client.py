"""The LLM client, which uses the openai package to call any OpenAI-compatible endpoint.

1. Calls run on an event loop in a separate thread. A call's deadline covers the connection, all retries, the
   waits between retries and the download of the body. The connection is closed after the deadline.
2. For a request with a schema, the client tries three reply formats in order: JSON that conforms to the
   schema, JSON without a schema, and plain text. The first format that the server accepts is used for all
   later calls.
3. A call is retried after a lost connection and after the HTTP statuses 408, 409, 425, 429, 500, 502, 503,
   504 and 529. Before a retry, the client waits for the time in the ``Retry-After`` header. Without this
   header, the wait starts at 0.5 seconds and doubles with each retry. Retries are limited per call, per run
   and by the deadline.
4. The client sends only the headers in ``_HEADERS_SENT`` and the ``Authorization`` header. Redirects are not
   followed. API keys are removed from all text that the server returns.
5. A call fails if the body of a completion or a model list is larger than 8 MiB. The body of an error
   response is cut off after 64 KiB. The two size limits apply to the decompressed body and are checked during
   the download.
"""

from __future__ import annotations

import asyncio
import threading
import time
import zlib
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import CancelledError, Future
from importlib import import_module
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import msgspec

from branchrank.errors import LLMError
from branchrank.io.environment import preserved_random_state
from branchrank.io.files import NOT_JSON
from branchrank.io.keys import Endpoint, is_loopback
from branchrank.io.printable import Redactor, guard_logs, split_url
from branchrank.llm.budget import Budget
from branchrank.llm.reading import read_completion, retry_after
from branchrank.llm.request import INTERRUPTED, BudgetError, CallFailedError, LLMReply, LLMRequest, Usage
from branchrank.settings import LLMSettings

T = TypeVar("T")
Format = Literal["schema", "object", "plain"]

_FORMATS: tuple[Format, ...] = ("schema", "object", "plain")
_RETRIED = {408, 409, 425, 429, 500, 502, 503, 504, 529}
_HEADERS_SENT = {"host", "content-type", "content-length", "accept", "user-agent", "connection"}
# The openai package adds this header to a request whose caller reads the raw response.
_HEADERS_SENT.add("x-stainless-raw-response")
_LARGEST_BODY = 8 << 20
_ERROR_BODY = 64 << 10
_PROBE_S = 5.0


class UnreachableError(LLMError):
    """Error for an LLM endpoint that does not answer."""


class LLM(Protocol):
    """An object that answers an :class:`LLMRequest`, such as :class:`ChatClient`."""

    model: str

    def complete(self, request: LLMRequest) -> LLMReply:
        """Answer one request.

        Raises :class:`CallFailedError` if there is no usable reply, and :class:`BudgetError` if the budget is
        spent.
        """
        ...


class _Response(NamedTuple):
    """One HTTP response. If there was no response, ``status`` is 0 and ``fault`` gives the reason."""

    status: int
    body: bytes
    retry_after: float | None = None
    fault: str = ""


class ChatClient:
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
        with preserved_random_state():
            import openai

        self.endpoint = endpoint
        self.model = model
        self.settings = settings
        self.budget = budget or Budget(
            max_calls=settings.max_calls, max_tokens=settings.max_tokens, retries=settings.retry_budget
        )
        self._redact = redact or Redactor(endpoint.secrets)
        self._first_wait_s = first_wait_s
        self._format: Format = "schema"
        self._format_known = False
        self._slots = threading.BoundedSemaphore(settings.concurrency)
        self._running: set[Future[Any]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="llm-client", daemon=True)
        self._thread.start()
        loopback = is_loopback(split_url(endpoint.url).hostname or "")
        self._http = openai.DefaultAsyncHttpxClient(
            follow_redirects=False,
            trust_env=not loopback,
            timeout=settings.deadline_s,
            event_hooks={"request": [self._set_headers], "response": [_bound]},
        )
        self._openai = openai.AsyncOpenAI(
            api_key="unused",  # never sent, because ``_set_headers`` sets the real key
            base_url=endpoint.url,
            default_query=endpoint.query,
            http_client=self._http,
            max_retries=0,
        )
        self._end_guard = guard_logs(self._redact)

    def __repr__(self) -> str:
        return f"ChatClient({self.endpoint!r}, model={self.model!r})"

    def __enter__(self) -> ChatClient:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def complete(self, request: LLMRequest) -> LLMReply:
        """Answer one request within the deadline.

        Raises :class:`CallFailedError` if there is no usable reply, and :class:`BudgetError` if the budget is
        spent before the first attempt.
        """
        with self._slots:
            started = time.monotonic()
            outcome = self._run(self._within_deadline(request))
            latency_ms = round((time.monotonic() - started) * 1000, 3)
        if isinstance(outcome, LLMReply):
            return msgspec.structs.replace(outcome, latency_ms=latency_ms)
        if isinstance(outcome, CallFailedError):
            outcome.latency_ms = latency_ms
        raise outcome

    def probe(self) -> tuple[str, ...]:
        """Return the names of the endpoint's models, or an empty tuple if the endpoint lists no models.

        Raises :class:`UnreachableError` if the endpoint doesn't answer within five seconds. Raises
        :class:`LLMError` if the endpoint rejects the key.
        """
        response = self._run(self._probed())
        if response.status in (401, 403):
            raise LLMError(
                f"the LLM endpoint {self.endpoint.url} rejects the key with HTTP {response.status}",
                remedy="set BRANCHRANK_LLM_KEY and BRANCHRANK_LLM_KEY_HOST",
            )
        if response.status == 0 or response.status == 503:
            why = response.fault or "HTTP 503"
            raise UnreachableError(
                f"no LLM answers at {self.endpoint.url}: {why}",
                remedy="start the server, give another endpoint (--hybrid-base-url, --pageindex-base-url), "
                "run without an LLM (--hybrid-no-llm, --pageindex-no-llm), "
                "or let each call use its fallback (--on-llm-failure)",
            )
        try:
            listed = msgspec.json.decode(response.body)["data"]
            return tuple(self._redact(str(model["id"])) for model in listed)
        except (KeyError, TypeError, IndexError, *NOT_JSON):
            return ()

    def cancel(self) -> None:
        """Cancel all running calls. A canceled call fails with the reason ``"interrupted"``."""
        for future in list(self._running):
            future.cancel()

    def close(self) -> None:
        """Cancel all running calls and stop the event loop's thread."""
        if self._loop.is_closed():
            return
        self.cancel()
        self._run(self._http.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._end_guard()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop and wait for its result. Ctrl-C cancels the coroutine."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        self._running.add(future)
        try:
            return future.result()
        except CancelledError:
            raise CallFailedError(INTERRUPTED) from None
        except BaseException:
            future.cancel()
            raise
        finally:
            self._running.discard(future)

    async def _set_headers(self, request: Any) -> None:
        """Remove all headers that are not in ``_HEADERS_SENT``, and set the ``Authorization`` header."""
        # The openai package adds its own headers, and headers from environment variables.
        for name in [name for name in request.headers if name.lower() not in _HEADERS_SENT]:
            del request.headers[name]
        if self.endpoint.authorization:
            request.headers["Authorization"] = self.endpoint.authorization

    async def _within_deadline(self, request: LLMRequest) -> LLMReply | CallFailedError | BudgetError:
        """Return the reply, or the error if the call fails or exceeds the deadline."""
        # Errors are returned, not raised, because a raised error would be chained to the original exception,
        # which could contain an API key.
        progress = {"attempt": 0}
        try:
            async with asyncio.timeout(self.settings.deadline_s):
                return await self._attempts(request, progress)
        except TimeoutError:
            # The server may have read the prompt, so the prompt's estimated tokens count as spent.
            usage = Usage(prompt_tokens=request.prompt_tokens)
            return CallFailedError("timeout", usage=usage, attempt=max(1, progress["attempt"]))

    async def _attempts(
        self, request: LLMRequest, progress: dict[str, int]
    ) -> LLMReply | CallFailedError | BudgetError:
        asked = self._format if request.schema is not None else "plain"
        deadline = self._loop.time() + self.settings.deadline_s
        failure: CallFailedError | None = None
        retries = 0
        while True:
            try:
                self.budget.reserve(request.prompt_tokens)
            except BudgetError as spent:
                # If the budget does not allow a retry, return the previous failure, so that the run
                # continues.
                return failure or spent
            progress["attempt"] += 1
            response = await self._post(self._body(request, asked))
            outcome = read_completion(
                response.status, response.body, request, response.fault, progress["attempt"], self._redact
            )
            self._settle(request, outcome)
            if isinstance(outcome, LLMReply):
                if request.schema is not None:
                    self._format, self._format_known = asked, True
                return outcome
            failure = outcome
            if self._may_degrade(response.status, failure.reason) and asked != "plain":
                asked = _FORMATS[_FORMATS.index(asked) + 1]
                continue
            wait = self._first_wait_s * 2**retries if response.retry_after is None else response.retry_after
            lost = response.status in _RETRIED or failure.reason == "connection"
            in_time = self._loop.time() + wait < deadline
            if not (lost and in_time and retries < self.settings.retries and self.budget.take_retry()):
                return failure
            retries += 1
            await asyncio.sleep(wait)

    def _may_degrade(self, status: int, reason: str) -> bool:
        """Return whether an error can mean that the server does not support the requested reply format."""
        return status in (400, 404, 415, 422, 501) and reason != "context overflow" and not self._format_known

    def _settle(self, request: LLMRequest, outcome: LLMReply | CallFailedError) -> None:
        spent = outcome.usage.prompt_tokens + outcome.usage.completion_tokens
        self.budget.settle(request.prompt_tokens, spent)

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

    async def _post(self, body: dict[str, Any]) -> _Response:
        """Send one request and read the response, whatever its status."""
        import openai

        try:
            async with self._openai.chat.completions.with_streaming_response.create(**body) as response:
                return _Response(response.status_code, await _read(response.iter_bytes()))
        except openai.APIStatusError as error:
            headers = error.response.headers
            return _Response(error.status_code, error.response.content, retry_after(headers))
        except _OversizedError:
            return _Response(0, b"", fault="oversized reply")
        except openai.OpenAIError:
            return _Response(0, b"", fault="connection")
        except Exception as error:
            # The openai package does not wrap errors that the HTTP library raises while a body is read.
            if not _of_http_library(error):
                raise
            return _Response(0, b"", fault="connection")

    async def _probed(self) -> _Response:
        import openai

        try:
            async with asyncio.timeout(_PROBE_S):
                async with self._openai.models.with_streaming_response.list() as response:
                    return _Response(response.status_code, await _read(response.iter_bytes()))
        except TimeoutError:
            return _Response(0, b"", fault="no answer within 5 s")
        except openai.APIStatusError as error:
            return _Response(error.status_code, b"")
        except _OversizedError:
            return _Response(0, b"", fault="oversized reply")
        except openai.OpenAIError:
            return _Response(0, b"", fault="no connection")
        except Exception as error:
            if not _of_http_library(error):
                raise
            return _Response(0, b"", fault="no connection")


class _OversizedError(Exception):
    """Error for a response whose body is larger than the limit."""


def _of_http_library(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] in ("httpx", "httpx2", "httpcore", "httpcore2")


async def _bound(response: Any) -> None:
    """Replace a response's stream with one that decompresses the body and limits its size."""
    # The limit is needed because the openai package reads the whole body of an error response.
    encoding = response.headers.pop("content-encoding", "identity").lower()
    limit, cut = (_LARGEST_BODY, False) if response.is_success else (_ERROR_BODY, True)
    source = response.stream
    library = import_module(type(response).__module__.partition(".")[0])

    class Bounded(library.AsyncByteStream):  # type: ignore[name-defined, misc]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            left = limit
            unpacker = zlib.decompressobj(wbits=47) if encoding in ("gzip", "x-gzip", "deflate") else None
            async for chunk in source:
                try:
                    piece = unpacker.decompress(chunk, left + 1) if unpacker else chunk
                except zlib.error:
                    return  # incomplete data, which can't be parsed as a reply
                yield piece[:left]
                left -= len(piece)
                if left < 0 and cut:
                    return
                if left < 0:
                    raise _OversizedError

        async def aclose(self) -> None:
            await source.aclose()

    response.stream = Bounded()


async def _read(chunks: Any) -> bytes:
    return b"".join([chunk async for chunk in chunks])
