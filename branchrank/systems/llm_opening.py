"""Open and check the LLM endpoints for a search or a benchmark run before any work starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from branchrank.io.progress import Notify, no_notice
from branchrank.llm.gateway import Gateway
from branchrank.llm.ledger import Ledger, PriceTable
from branchrank.records import LLMCall
from branchrank.settings import BenchmarkSettings, CacheSettings, LLMSettings, Resolved
from branchrank.spec import Endpoint, System
from branchrank.systems.llm_stages import LLMStages


class LLMMeter:
    """Counts LLM calls, tokens and costs. After each call, ``show`` is called with the totals as one line.

    The totals include the number of calls that a cache or a cassette answered.
    """

    def __init__(self, show: Callable[[str], None] = no_notice) -> None:
        self.show = show
        self.prices: PriceTable | None = None
        self.calls = self.tokens = self.cached = self.replayed = 0
        self.cost = 0.0

    def add(self, call: LLMCall) -> None:
        """Count one call and show the totals."""
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


@contextmanager
def open_llm(
    data_dir: Path,
    settings: Resolved,
    systems: Sequence[System],
    *,
    notify: Notify = no_notice,
    meter: LLMMeter | None = None,
) -> Iterator[LLMStages]:
    """Check every LLM endpoint of ``systems``, then open the LLM stages.

    LLM calls are cached in the workspace ``data_dir``, or in Redis if the settings have a Redis URL. Raises
    :class:`~branchrank.errors.UsageError` if an endpoint is missing. Raises
    :class:`~branchrank.errors.LLMError` if an endpoint rejects the key. If ``on_failure`` is ``refuse``, an
    endpoint that does not respond also raises :class:`~branchrank.errors.LLMError`.
    """
    seed = settings.part(BenchmarkSettings).sample_seed
    asking = [system for system in systems if system.asks_llm]
    if not asking:
        yield LLMStages(seed=seed)
        return
    from branchrank.llm.session import LLMSession

    meter = meter or LLMMeter()
    cache = data_dir / "hybrid" / "cache" / "decisions.sqlite"
    # Keep no ledger rows: a benchmark run stores the calls itself, and a server's memory must not grow.
    ledger = Ledger(meter.add, limit=0)
    redis_url = settings.part(CacheSettings).redis_url
    typed = typed_endpoints(settings)
    with LLMSession(
        settings.part(LLMSettings),
        cache_path=cache,
        redis_url=redis_url,
        notify=notify,
        ledger=ledger,
        may_fall_back=True,
    ) as session:
        meter.prices = session.prices

        def gateway_of(endpoint: Endpoint) -> Gateway:
            return session.gateway(endpoint.base_url, endpoint.model, explicit=endpoint.base_url in typed)

        for system in asking:
            gateway_of(system.llm)
        yield LLMStages(gateway_of, seed=seed, keep_failures=session.keep_failures)


def typed_endpoints(settings: Resolved) -> frozenset[str]:
    """Return the LLM endpoints that were set by flags or environment variables.

    If ``BRANCHRANK_LLM_KEY_HOST`` is not set, ``BRANCHRANK_LLM_KEY`` is sent only to endpoints that were set
    by flags or environment variables.
    """
    return frozenset(
        getattr(part, "base_url", "")
        for section, part in settings.parts.items()
        if settings.origins.get(f"{section}.base_url", "").startswith(("flag", "environment"))
    )
