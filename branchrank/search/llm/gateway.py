"""The gateway for all LLM calls, which caches, counts and replays the calls.

1. The gateway looks for a call in the cassette, then in the decision cache.
2. If neither the cassette nor the decision cache contains the call, the gateway sends the call to the server.
   If two identical calls are made at the same time, the second call waits for the first.
3. The gateway parses the reply. A call whose reply can't be parsed counts as failed and is not stored in the
   decision cache.
4. The gateway adds a row to the ledger. A replayed call gets the token counts and latency of the original
   call.

A failed call does not raise an exception. The answer to a failed call contains the reason for the failure, so
that the stage that made the call can use its fallback. An LLM call ends the run only if the budget is spent,
or if a replay's cassette does not contain the call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, NamedTuple, TypeVar

import msgspec

from branchrank.core.errors import Remedy, ReplayError
from branchrank.core.records import LLMCall
from branchrank.core.settings import LLMSettings
from branchrank.search.llm.cassette import Cassette, DecisionCache, call_key
from branchrank.search.llm.client import ChatClient
from branchrank.search.llm.ledger import Ledger
from branchrank.search.llm.request import (
    INTERRUPTED,
    TRUNCATED,
    CallResult,
    LLMReply,
    LLMRequest,
    ReplyError,
    Usage,
)

T = TypeVar("T")


class GatewayReply(NamedTuple, Generic[T]):
    """The value parsed from the reply to a call, and the call's row in the ledger.

    If the call failed, ``value`` is ``None``.
    """

    value: T | None
    call: LLMCall

    @property
    def fault(self) -> str | None:
        """The reason for the failure, or ``None`` if the call succeeded."""
        return None if self.call.outcome == "ok" else self.call.outcome


class Gateway:
    """Calls one model through the caches and the ledger.

    ``llm`` is the client, or ``None`` in a replay. ``cassette`` is the cassette in which calls are recorded,
    or from which calls are replayed. ``cache`` is the decision cache. ``endpoint`` is the URL that is part of
    each key in the decision cache. A stage may request at most ``max_tokens`` completion tokens.
    """

    def __init__(
        self,
        model: str,
        llm: ChatClient | None,
        *,
        ledger: Ledger | None = None,
        cassette: Cassette | None = None,
        cache: DecisionCache | None = None,
        endpoint: str = "",
        settings: LLMSettings = LLMSettings(),  # noqa: B008  (a frozen record)
    ) -> None:
        self.model = model
        self.ledger = ledger or Ledger()
        self.concurrency = settings.concurrency
        self.max_tokens = settings.completion_tokens
        self._llm = llm
        self._cassette = cassette
        self._cache = cache
        self._endpoint = endpoint
        self._turns: dict[str, threading.Lock] = {}
        self._failures: dict[tuple[object, ...], LLMCall] = {}

    def ask(self, request: LLMRequest, read: Callable[[LLMReply], T]) -> GatewayReply[T]:
        """Make one logical call and parse its reply with ``read``.

        ``read`` must raise :class:`ReplyError` if the reply is not usable. Raises :class:`BudgetError` if the
        budget is spent, and :class:`ReplayError` if a replay's cassette does not contain the call.
        """
        value: T | None = None
        # The second of two identical calls waits, so that the cache can answer it.
        with self._turns.setdefault(call_key(request, self.model), threading.Lock()):
            recorded = self._replayed(request)
            replayed = recorded is not None
            recorded = recorded or self._cached(request)
            known = recorded is not None
            if recorded is None:
                assert self._llm is not None  # in a replay, a missing call is an error
                recorded = self._failed_before(request) or self._llm.complete(request)
            if recorded.outcome == "ok":
                try:
                    value = read(recorded.reply)
                except ReplyError as error:
                    reason = TRUNCATED if recorded.reply.truncated else error.reason
                    recorded = msgspec.structs.replace(recorded, outcome=reason)
            if not known:
                self._remember(request, recorded)
        call = _row(request, self.model, recorded, replayed=replayed)
        self.ledger.add(call)
        return GatewayReply(value, call)

    def ask_all(self, calls: Sequence[tuple[LLMRequest, Callable[[LLMReply], T]]]) -> list[GatewayReply[T]]:
        """Make independent calls concurrently. Return the answers in the order of the calls."""
        if len(calls) < 2 or self.concurrency == 1:
            return [self.ask(request, read) for request, read in calls]
        pool = ThreadPoolExecutor(min(self.concurrency, len(calls)), thread_name_prefix="llm")
        try:
            futures = [pool.submit(self.ask, request, read) for request, read in calls]
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            self.cancel()
            raise
        finally:
            pool.shutdown()

    def keep_failures(self, calls: Iterable[LLMCall]) -> None:
        """Do not make the failed ``calls`` again: the same predictor, question, stage and repeat fails."""
        for call in calls:
            self._failures[call.predictor, call.question_id, call.stage, call.repeat] = call

    def cancel(self) -> None:
        """Cancel the running calls."""
        if self._llm is not None:
            self._llm.cancel()

    def _replayed(self, request: LLMRequest) -> CallResult | None:
        """Return the call's outcome from the cassette, or ``None`` if the call must be made."""
        if self._cassette is None:
            return None
        found = self._cassette.get(request, self.model)
        if self._llm is None:
            return found or self._missing(request, self._cassette)
        # A call that failed in this run is not retried, so that a replay contains the same failures.
        if found is not None and (
            found.outcome == "ok" or call_key(request, self.model) in self._cassette.failed
        ):
            return found
        return None

    def _cached(self, request: LLMRequest) -> CallResult | None:
        """Return a cached successful outcome, or ``None``. The outcome is also written to the cassette."""
        found = self._cache.get(request, self.model, self._endpoint) if self._cache is not None else None
        if found is None or found.outcome != "ok":
            return None
        found = msgspec.structs.replace(found, reply=msgspec.structs.replace(found.reply, served_by="cache"))
        if self._cassette is not None:
            self._cassette.put(request, self.model, found)
        return found

    def _failed_before(self, request: LLMRequest) -> CallResult | None:
        """Return the outcome of a failed call that :meth:`keep_failures` was given, or ``None``."""
        context = request.context
        call = self._failures.get((context.predictor, context.question_id, request.stage, context.repeat))
        if call is None:
            return None
        usage = Usage(**{name: getattr(call, name) for name in Usage.__struct_fields__})
        reply = LLMReply(
            text="", usage=usage, latency_ms=call.latency_ms, served_by="cache", attempt=call.attempt
        )
        return CallResult(reply=reply, outcome=call.outcome, detail=call.detail)

    def _remember(self, request: LLMRequest, recorded: CallResult) -> None:
        """Store the outcome of a call to the server. A failure is stored only in the cassette."""
        if recorded.outcome == INTERRUPTED:
            return
        if self._cassette is not None:
            self._cassette.put(request, self.model, recorded)
            if recorded.outcome != "ok":
                self._cassette.failed.add(call_key(request, self.model))
        if self._cache is not None and recorded.outcome == "ok":
            self._cache.put(request, self.model, recorded, self._endpoint)

    def _missing(self, request: LLMRequest, cassette: Cassette) -> CallResult:
        context = request.context
        raise ReplayError(
            f"the cassette {cassette.path} has no call for question {context.question_id or '(none)'!r}, "
            f"stage {request.stage!r}, predictor {context.predictor!r}, repeat {context.repeat}: "
            f"{cassette.difference(request, self.model)}",
            remedy=(
                "run the recorded command unchanged",
                Remedy("record again with {}", "--llm-record", str(cassette.path)),
            ),
        )


def _row(request: LLMRequest, model: str, recorded: CallResult, *, replayed: bool) -> LLMCall:
    reply, context = recorded.reply, request.context
    return LLMCall(
        predictor=context.predictor,
        question_id=context.question_id,
        stage=request.stage,
        attempt=reply.attempt,
        repeat=context.repeat,
        model=model,
        **msgspec.structs.asdict(reply.usage),
        latency_ms=reply.latency_ms,
        served_by=reply.served_by,
        outcome=recorded.outcome,
        replayed=replayed,
        detail=recorded.detail,
    )
