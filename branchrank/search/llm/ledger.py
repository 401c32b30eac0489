"""The ledger of LLM calls, their totals and costs, and the budget of a run.

The ledger has one row per logical call. A logical call is one request to the model, including its retries.
Calls that the decision cache or a cassette answers also have rows in the ledger. The budget counts only
attempts that are sent to servers.
"""

from __future__ import annotations

import threading
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from branchrank.core.errors import Remedy, UsageError
from branchrank.core.io.progress import no_notice
from branchrank.core.io.text_files import read_text
from branchrank.core.records import LLMCall, Record
from branchrank.core.settings import LLMSettings
from branchrank.search.llm.request import BudgetError

_RAISE = "raise {} and run the command again; finished calls are kept"
Price = Annotated[float, Meta(ge=0)]


class ModelPrice(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prices per million tokens. ``cached`` is the price of prompt tokens that the server had cached."""

    prompt: Price
    completion: Price
    cached: Price | None = None


class PriceTable(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prices by model name, as of ``date`` (ISO, ``YYYY-MM-DD``)."""

    date: Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    currency: str = "USD"
    models: dict[str, ModelPrice] = msgspec.field(default_factory=dict)

    def cost(self, call: LLMCall) -> float | None:
        """Return the cost of one call, or ``None`` if the table does not list the call's model."""
        return self.cost_of(call.model, call.prompt_tokens, call.completion_tokens, call.cached_tokens)

    def cost_of(self, model: str, prompt: int, completion: int, cached: int = 0) -> float | None:
        """Return the cost of a number of tokens, or ``None`` if the table does not list the model.

        ``cached`` of the ``prompt`` tokens are cached.
        """
        price = self.models.get(model)
        if price is None:
            return None
        cached_price = price.prompt if price.cached is None else price.cached
        spent = (prompt - cached) * price.prompt + cached * cached_price + completion * price.completion
        return spent / 1_000_000


def read_prices(path: Path) -> PriceTable:
    """Read a price table from a TOML file.

    Raises :class:`UsageError` if the file can't be read or is not a valid price table.
    """
    remedy = (
        f"correct {path}: it needs a date and, for each model, a [models.NAME] table with the keys prompt "
        "and completion (prices per million tokens); the keys currency and cached are optional"
    )
    try:
        table = tomllib.loads(read_text(path, error=UsageError, remedy=remedy))
        if hasattr(table.get("date"), "isoformat"):
            table["date"] = table["date"].isoformat()
        return msgspec.convert(table, PriceTable)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", remedy=remedy) from None
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise UsageError(f"{path} is not a price table: {error}", remedy=remedy) from None


class Totals(Record, frozen=True, kw_only=True):
    """The total calls, tokens, latency and cost of a set of ledger rows.

    ``cached_calls`` is the number of calls answered by the decision cache or a cassette. ``cost`` and the
    token counts include cached calls as if a server had answered these calls, although cached calls are free.
    ``cost`` is ``None`` if a call's model has no price.
    """

    calls: int
    cached_calls: int
    failed_calls: int
    estimated_calls: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    latency_ms: float
    cost: float | None

    @property
    def tokens(self) -> int:
        """The sum of prompt and completion tokens."""
        return self.prompt_tokens + self.completion_tokens


def totals(calls: Iterable[LLMCall], prices: PriceTable | None = None) -> Totals:
    """Add up the calls, tokens, latencies and costs of the ledger rows ``calls``."""
    rows = tuple(calls)
    costs = [prices.cost(row) for row in rows] if prices else [None]
    return Totals(
        calls=len(rows),
        cached_calls=sum(row.served_by != "server" for row in rows),
        failed_calls=sum(row.outcome != "ok" for row in rows),
        estimated_calls=sum(not row.reported for row in rows),
        prompt_tokens=sum(row.prompt_tokens for row in rows),
        completion_tokens=sum(row.completion_tokens for row in rows),
        cached_tokens=sum(row.cached_tokens for row in rows),
        latency_ms=round(sum(row.latency_ms for row in rows), 3),
        cost=None if None in costs else round(sum(cost for cost in costs if cost is not None), 9),
    )


def totals_by(
    calls: Iterable[LLMCall], key: Callable[[LLMCall], str], prices: PriceTable | None = None
) -> dict[str, Totals]:
    """Return the totals for each value of ``key`` (such as predictor, stage or model), sorted by ``key``."""
    groups: dict[str, list[LLMCall]] = {}
    for call in calls:
        groups.setdefault(key(call), []).append(call)
    return {name: totals(groups[name], prices) for name in sorted(groups)}


class Ledger:
    """Collects the ledger rows of a run. Thread-safe."""

    def __init__(self) -> None:
        self._rows: list[LLMCall] = []

    @property
    def rows(self) -> tuple[LLMCall, ...]:
        """The rows so far, in the order in which the calls ended."""
        return tuple(self._rows)

    def add(self, call: LLMCall) -> None:
        """Add one row."""
        self._rows.append(call)


class LLMMeter(Ledger):
    """Counts LLM calls, tokens and costs. After each call, ``show`` is called with the totals as one line.

    The totals include the number of calls that a cache or a cassette answered. A meter that is ``closed``
    counts no more calls. No rows are kept: a benchmark run stores the calls itself, and a server's memory
    must not grow.
    """

    def __init__(self, show: Callable[[str], None] = no_notice) -> None:
        super().__init__()
        self.show = show
        self.closed = False
        self.prices: PriceTable | None = None
        self.calls = self.tokens = self.cached = self.replayed = 0
        self.cost = 0.0

    def add(self, call: LLMCall) -> None:
        """Count one call and show the totals."""
        if self.closed:
            return
        self.calls += 1
        self.tokens += call.prompt_tokens + call.completion_tokens
        self.replayed += call.replayed
        self.cached += call.served_by == "cache" and not call.replayed
        if self.prices is not None:
            self.cost += self.prices.cost(call) or 0.0
        self.show(self.text)

    @property
    def text(self) -> str:
        """The totals as one line of text."""
        sources = {"the cache": self.cached, "the cassette": self.replayed}
        unasked = ", ".join(f"{count:,} from {source}" for source, count in sources.items() if count)
        calls = "1 call" if self.calls == 1 else f"{self.calls:,} calls"
        text = f"LLM: {calls}{unasked and f' ({unasked})'}, {self.tokens:,} tokens"
        return text if self.prices is None else f"{text}, {self.cost:.4f} {self.prices.currency}"


def spent_line(calls: Iterable[LLMCall]) -> str:
    """Return one line of text with the numbers of LLM calls, cache hits, replayed calls and tokens."""
    meter = LLMMeter()
    for call in calls:
        meter.add(call)
    return meter.text


class Budget:
    """Counts the calls and tokens sent to LLM servers, and refuses a call that would exceed a limit.

    Thread-safe. The limits are ``max_calls``, ``max_tokens`` (0: no limit) and ``retry_budget`` in
    ``settings``.
    """

    def __init__(self, settings: LLMSettings) -> None:
        self._settings = settings
        self.calls = 0
        self.tokens = 0
        self.retries_left = settings.retry_budget
        self._lock = threading.Lock()

    def reserve(self, tokens: int) -> None:
        """Count one attempt and its estimated tokens before the attempt is sent.

        Raises :class:`BudgetError` if the attempt would exceed ``max_calls`` or ``max_tokens``.
        """
        with self._lock:
            most_calls, most_tokens = self._settings.max_calls, self._settings.max_tokens
            if most_calls and self.calls >= most_calls:
                text = f"all {most_calls} LLM calls have been used"
                raise BudgetError(text, remedy=Remedy(_RAISE, "--max-calls"))
            if most_tokens and self.tokens + tokens > most_tokens:
                text = f"{self.tokens} of {most_tokens} LLM tokens have been used, and the next call needs "
                raise BudgetError(f"{text}about {tokens} tokens", remedy=Remedy(_RAISE, "--max-tokens"))
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


class Spent(Record, frozen=True, kw_only=True):
    """The number and cost of LLM calls, and the price table used for the cost (if any)."""

    totals: Totals
    prices: PriceTable | None
