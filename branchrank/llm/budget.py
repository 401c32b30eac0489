"""Limits on the number of LLM calls, tokens and retries in a run."""

from __future__ import annotations

import threading

from branchrank.llm.request import BudgetError


class Budget:
    """Counts the calls and tokens sent to LLM servers, and refuses a call that would exceed a limit.

    Thread-safe. A ``max_calls`` or ``max_tokens`` of 0 means that there is no limit. A ``retries`` of 0 means
    that no call is retried.
    """

    def __init__(self, *, max_calls: int = 0, max_tokens: int = 0, retries: int = 100) -> None:
        self.max_calls = max_calls
        self.max_tokens = max_tokens
        self.calls = 0
        self.tokens = 0
        self.retries_left = retries
        self._lock = threading.Lock()

    def reserve(self, tokens: int) -> None:
        """Count one attempt and its estimated tokens before the attempt is sent.

        Raises :class:`BudgetError` if the attempt would exceed ``max_calls`` or ``max_tokens``.
        """
        with self._lock:
            if self.max_calls and self.calls >= self.max_calls:
                raise BudgetError(
                    f"all {self.max_calls} LLM calls have been used",
                    remedy="raise --max-calls and run the command again; finished calls are kept",
                )
            if self.max_tokens and self.tokens + tokens > self.max_tokens:
                raise BudgetError(
                    f"{self.tokens} of {self.max_tokens} LLM tokens have been used, and the next call needs "
                    f"about {tokens} tokens",
                    remedy="raise --max-tokens and run the command again; finished calls are kept",
                )
            self.calls += 1
            self.tokens += tokens

    def settle(self, reserved: int, spent: int) -> None:
        """Replace the reserved estimate for an attempt with the number of tokens that the attempt used."""
        with self._lock:
            self.tokens += spent - reserved

    def take_retry(self) -> bool:
        """Use one of the run's retries. Return ``False`` if no retries were left."""
        with self._lock:
            if self.retries_left <= 0:
                return False
            self.retries_left -= 1
            return True
