"""Opening the LLMs that systems ask for: one session, one gateway per endpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from branchrank.llm.gateway import Gateway
from branchrank.llm.ledger import Ledger, PriceTable
from branchrank.progress import Notify
from branchrank.records import LLMCall
from branchrank.settings import BenchmarkSettings, CacheSettings, LLMSettings, Resolved
from branchrank.systems.llm_stages import LLMStages
from branchrank.systems.spec import Endpoint, System


class LLMMeter:
    """Counts the calls, tokens and cost of some work as they come, and shows them."""

    def __init__(self, show: Callable[[str], None] = lambda text: None) -> None:
        self.show = show
        self.prices: PriceTable | None = None
        self.calls = self.tokens = 0
        self.cost = 0.0

    def add(self, call: LLMCall) -> None:
        """Count one call and show the totals."""
        self.calls += 1
        self.tokens += call.prompt_tokens + call.completion_tokens
        text = f"LLM: {self.calls:,} calls, {self.tokens:,} tokens"
        if self.prices is not None:
            self.cost += self.prices.cost(call) or 0.0
            text += f", {self.cost:.4f} {self.prices.currency}"
        self.show(text)


@contextmanager
def open_llm(
    data_dir: Path,
    settings: Resolved,
    systems: Sequence[System],
    *,
    notify: Notify = lambda line: None,
    meter: LLMMeter | None = None,
) -> Iterator[LLMStages]:
    """The LLM side of some systems. Their endpoints are checked first; without an LLM nothing is opened.

    Raises :class:`~branchrank.errors.LLMError` for an endpoint that cannot be reached.
    """
    seed = settings.part(BenchmarkSettings).sample_seed
    asking = [system for system in systems if system.asks_llm]
    if not asking:
        yield LLMStages(seed=seed)
        return
    from branchrank.llm.session import LLMSession

    meter = meter or LLMMeter()
    cache = data_dir / "hybrid" / "cache" / "decisions.sqlite"
    # Rows of a benchmark hold their calls themselves, and a server that runs for months needs none.
    ledger = Ledger(meter.add, limit=0)
    redis_url = settings.part(CacheSettings).redis_url
    with LLMSession(
        settings.part(LLMSettings), cache_path=cache, redis_url=redis_url, notify=notify, ledger=ledger
    ) as session:
        meter.prices = session.prices

        def gateway_of(endpoint: Endpoint) -> Gateway:
            section = next(system for system in asking if system.llm == endpoint).name
            origin = settings.origins.get(f"{section}.base_url", "default")
            explicit = origin.startswith(("flag", "environment"))
            return session.gateway(endpoint.base_url, endpoint.model, explicit=explicit)

        for system in asking:
            gateway_of(system.llm)
        yield LLMStages(gateway_of, seed=seed)
