"""The request to an LLM, its reply, and the errors of a failed call."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from branchrank.errors import LLMError
from branchrank.records import Record, ServedBy

#: Bytes of UTF-8 in one token. English documentation has 3.8 to 4.3 (RST, SmolLM2's tokenizer), other
#: languages fewer. This value is on the low side, so that a prompt measured with it fits the model's context.
BYTES_PER_TOKEN = 3.0

#: Reason of a call that was interrupted by Ctrl-C; such a call is not cached.
INTERRUPTED = "interrupted"


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens in a text, independently of the model."""
    return math.ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)


class Message(Record, frozen=True, kw_only=True):
    """One message of a chat."""

    role: Literal["system", "user"]
    content: str


class CallContext(Record, frozen=True, kw_only=True):
    """The context of a call: it labels the ledger's row and seeds every random draw.

    ``repeat`` counts the repeats of a predictor that asks an LLM, from 0. Contexts that differ in ``seed`` or
    ``repeat`` make different calls; ``predictor`` and ``question_id`` are only labels.
    """

    question_id: str = ""
    predictor: str = ""
    repeat: int = 0
    seed: int = 42


class LLMRequest(Record, frozen=True, kw_only=True):
    """One logical call. ``schema`` is the JSON schema of the reply, ``None`` for free text.

    ``logprobs`` is the number of log-probabilities to return for each token (0: do not return any). The
    temperature is always 0.
    """

    stage: str
    messages: tuple[Message, ...]
    schema: dict[str, Any] | None = None
    max_tokens: int = 512
    logprobs: int = 0
    context: CallContext = CallContext()

    @property
    def prompt_tokens(self) -> int:
        """Estimated tokens of the prompt."""
        return sum(estimate_tokens(message.content) + 4 for message in self.messages)

    def content(self, model: str) -> dict[str, Any]:
        """Everything that the reply depends on, without the labels."""
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
    """Tokens of one call.

    ``reported`` is false when the server reported no usage and the numbers are estimates.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reported: bool = False


class LLMReply(Record, frozen=True, kw_only=True):
    """The reply to one call. ``logprobs`` holds the most likely tokens for each generated token.

    ``latency_ms`` is the time of the whole call at the server, retries and waits included, even when a cache
    serves it. ``attempt`` is the number of the successful attempt, from 1.
    """

    text: str
    usage: Usage = Usage()
    latency_ms: float = 0.0
    served_by: ServedBy = "server"
    model: str = ""
    logprobs: tuple[Mapping[str, float], ...] = ()
    attempt: int = 1


class CallFailedError(LLMError):
    """A call gave no usable reply; the caller uses its fallback.

    ``reason`` is one of a few fixed words (``"timeout"``, ``"http 500"``, ``"malformed reply"``) and
    is stored in the row; the message may add the server's message, with all keys removed.
    """

    def __init__(
        self,
        reason: str,
        detail: str = "",
        *,
        usage: Usage = Usage(),  # noqa: B008  (a frozen record)
        attempt: int = 1,
        latency_ms: float = 0.0,
    ) -> None:
        super().__init__(f"the LLM call failed: {reason}" + (f" ({detail})" if detail else ""))
        self.reason = reason
        self.usage = usage
        self.attempt = attempt
        self.latency_ms = latency_ms


class ReplyError(LLMError):
    """A reply that is not usable; ``reason`` is stored in the row."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the LLM's reply is unusable: {reason}")
        self.reason = reason


class BudgetError(LLMError):
    """``--max-calls`` or ``--max-tokens`` is spent."""
