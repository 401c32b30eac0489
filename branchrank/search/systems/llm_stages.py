"""The LLMs of systems: open and check their endpoints, and choose the endpoint for each query.

``open_llm`` checks every endpoint before a search or a benchmark run starts any work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from branchrank.core.io.progress import no_notice
from branchrank.core.records import SEED, LLMCall
from branchrank.core.settings import BenchmarkSettings, CacheSettings, LLMSettings, Resolved
from branchrank.core.spec import LLMEndpoint, System
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.search.llm.ledger import Ledger, PriceTable
from branchrank.search.llm.request import CallContext
from branchrank.search.systems.query import Asked, Query, Trace

if TYPE_CHECKING:
    from branchrank.search.llm.gateway import Gateway


@dataclass
class LLMStages:
    """Chooses the LLM for each query. ``gateway_of`` returns the gateway to an endpoint.

    Without ``gateway_of``, systems can't use an LLM. ``keep_failures`` is called with the LLM calls in a
    run's finished rows, when the run is resumed and before its latency pass. ``notes`` grows with each note
    of the session about its calls.
    """

    gateway_of: Callable[[LLMEndpoint], Gateway] | None = None
    seed: int = field(default=SEED, kw_only=True)
    keep_failures: Callable[[Iterable[LLMCall]], None] = field(default=lambda calls: None, kw_only=True)
    notes: Sequence[str] = field(default=(), kw_only=True)

    def asked(self, system: System, query: Query, k: int) -> Asked:
        """Return one query of one system, with the system's LLM and an empty trace."""
        gateway = None
        if system.asks_llm:
            if self.gateway_of is None:
                raise ValueError(f"system {system.name!r} uses an LLM, but the engine has no LLM gateway")
            gateway = self.gateway_of(system.llm)
        context = CallContext(
            question_id=query.question_id, predictor=system.name, repeat=query.repeat, seed=self.seed
        )
        return Asked(system, query, k, gateway, context, Trace())


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


@contextmanager
def open_llm(
    folder: WorkspaceFolder, endpoints: Sequence[LLMEndpoint], *, meter: LLMMeter | None = None
) -> Iterator[LLMStages]:
    """Check every endpoint, then open the LLM stages. Without endpoints, systems can't use an LLM.

    LLM calls are cached in the workspace, or in Redis if the settings have a Redis URL. Raises
    :class:`~branchrank.core.errors.UsageError` if an endpoint is missing. Raises
    :class:`~branchrank.core.errors.LLMError` if an endpoint rejects the key. If ``on_failure`` is
    ``refuse``, an endpoint that does not respond also raises :class:`~branchrank.core.errors.LLMError`.
    """
    settings = folder.settings
    seed = settings.part(BenchmarkSettings).sample_seed
    if not endpoints:
        yield LLMStages(seed=seed)
        return
    from branchrank.search.llm.session import LLMSession

    meter = meter or LLMMeter()
    typed = typed_endpoints(settings)
    with LLMSession(
        settings.part(LLMSettings),
        cache_path=folder.decisions_path,
        redis_url=settings.part(CacheSettings).redis_url,
        notify=folder.notify,
        ledger=meter,
        may_fall_back=True,
    ) as session:
        meter.prices = session.prices

        def gateway_of(endpoint: LLMEndpoint) -> Gateway:
            return session.gateway(endpoint.base_url, endpoint.model, explicit=endpoint.base_url in typed)

        for endpoint in endpoints:
            gateway_of(endpoint)
        yield LLMStages(gateway_of, seed=seed, keep_failures=session.keep_failures, notes=session.notes)


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
