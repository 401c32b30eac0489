"""A request to an LLM, the reply, and the errors that a failed call raises."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from branchrank.core.errors import LLMError
from branchrank.core.records import SEED, Record, ServedBy

#: The assumed number of UTF-8 bytes per token. The number is low, so estimates are usually too high, and
#: prompts fit the model's context. For English documentation in RST, SmolLM2's tokenizer averages 3.8 to 4.3
#: bytes per token.
BYTES_PER_TOKEN = 3.0

#: The failure reason of a call that was interrupted by Ctrl-C. Interrupted calls are not cached.
INTERRUPTED = "interrupted"

#: The failure reason of a call whose reply the token limit cut before the answer.
TRUNCATED = "truncated: raise --llm-completion-tokens"


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens in a text. The estimate is the same for all models."""
    return math.ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)


class Message(Record, frozen=True, kw_only=True):
    """One message of a chat."""

    role: Literal["system", "user"]
    content: str


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
    tokens. The temperature is always 0.
    """

    stage: str
    messages: tuple[Message, ...]
    schema: dict[str, Any] | None = None
    max_tokens: int = 512
    logprobs: int = 0
    context: CallContext = CallContext()

    @property
    def prompt_tokens(self) -> int:
        """The estimated number of tokens in the prompt."""
        return sum(estimate_tokens(message.content) + 4 for message in self.messages)

    def content(self, model: str) -> dict[str, Any]:
        """Return every value that the reply depends on."""
        return {
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
    at 1. ``text`` has no reasoning. ``truncated`` is true if the token limit ended the reply.
    """

    text: str
    usage: Usage = Usage()
    latency_ms: float = 0.0
    served_by: ServedBy = "server"
    model: str = ""
    logprobs: tuple[Mapping[str, float], ...] = ()
    attempt: int = 1
    truncated: bool = False


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
