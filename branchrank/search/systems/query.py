"""A query to the engine, the LLM that its system uses, and what the stages record while they answer it.

``open_llm`` checks every endpoint before a search or a benchmark run starts any work.
"""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from branchrank.core.errors import UsageError, or_else
from branchrank.core.io.progress import Notify, no_notice
from branchrank.core.ranked_lists import RankedList
from branchrank.core.records import SEED, AgentLog, LLMCall, Record, Scored, Span, StageTrace
from branchrank.core.settings import BenchmarkSettings, CacheSettings, LLMSettings, Resolved
from branchrank.core.spec import LLMEndpoint, System, Unit
from branchrank.search.llm.ledger import LLMMeter
from branchrank.search.llm.request import CallContext

if TYPE_CHECKING:
    from branchrank.index.workspace_folder import WorkspaceFolder
    from branchrank.search.llm.gateway import Gateway

#: Maps each possible filter key to the document field that is compared with the filter's value.
FILTER_KEYS = {"file_path": "source", "source": "source"}


class Filter(Record, frozen=True, kw_only=True):
    """Admits documents whose path equals ``pattern``, or matches it as a glob such as ``guide/*.md``."""

    key: str
    pattern: str

    def admits(self, source: str) -> bool:
        """Return whether a document passes the filter."""
        return source == self.pattern or fnmatch.fnmatchcase(source, self.pattern)


class Query(Record, frozen=True, kw_only=True):
    """One query, with its text and its restrictions.

    If ``keywords`` is given, ``grep``, ``fts5`` and ``qdrant-sparse`` search for ``keywords`` instead of
    ``text``. Passages that overlap an excluded span or are rejected by a filter are not ranked.
    ``question_id`` and ``repeat`` identify the query in LLM calls.
    """

    text: str
    keywords: str = ""
    excluded: tuple[Span, ...] = ()
    filters: tuple[Filter, ...] = ()
    question_id: str = ""
    repeat: int = 0

    @property
    def words(self) -> str:
        """The text that branches search for words: the keywords, or else the query's text."""
        return self.keywords.strip() or self.text

    @property
    def restricted(self) -> bool:
        """Whether the query has filters or excluded spans."""
        return bool(self.excluded or self.filters)

    def admits(self, span: Span) -> bool:
        """Return whether a passage passes every filter and does not overlap an excluded span."""
        if not all(each.admits(span.source) for each in self.filters):
            return False
        return not any(map(span.overlap, self.excluded))


def read_filters(texts: str | Sequence[str]) -> tuple[Filter, ...]:
    """Parse one or more filters of the form ``KEY=VALUE``. A document must pass every filter.

    Raises :class:`UsageError` for an unknown key or an empty value.

    >>> [each.pattern for each in read_filters(["file_path=guide/*", "source=*.md"])]
    ['guide/*', '*.md']
    """
    return tuple(map(_read, (texts,) if isinstance(texts, str) else texts))


def _read(text: str) -> Filter:
    key, equals, pattern = text.partition("=")
    if key not in FILTER_KEYS:
        raise UsageError(
            f"the filter {text!r} has no known key{or_else(key, FILTER_KEYS)}",
            remedy=f"write {' or '.join(FILTER_KEYS)}=PATH",
        )
    if not equals or not pattern:
        raise UsageError(f"the filter {text!r} has no value", remedy=f"write {key}=PATH")
    return Filter(key=key, pattern=pattern)


class Trace:
    """Collects the stages of one query, in the order in which they ran. Durations are in milliseconds."""

    def __init__(self) -> None:
        self.stages: list[StageTrace] = []
        self.stage_ms: dict[str, float] = {}
        self.calls: list[LLMCall] = []
        self.fallbacks: list[str] = []
        self.agent: AgentLog | None = None
        #: Called with a status line after each call of a tool.
        self.notify: Notify = no_notice

    @contextmanager
    def timed(self, stage: str, clock: Callable[[], float] = time.perf_counter) -> Iterator[None]:
        """Add the duration of the ``with`` block to the time of ``stage``. ``clock`` returns seconds."""
        started = clock()
        try:
            yield
        finally:
            self.stage_ms[stage] = self.stage_ms.get(stage, 0.0) + 1000.0 * (clock() - started)

    def add(self, stage: str, unit: Unit, ranking: Sequence[Scored]) -> None:
        """Add the ranked list that ``stage`` returned."""
        columns = RankedList.of(ranking)
        self.stages.append(StageTrace(stage=stage, unit=unit, keys=columns.ids, scores=columns.scores))


class Asked(NamedTuple):
    """A system's query for ``k`` hits, with the LLM that the system asks and the trace of the stages.

    ``gateway`` is ``None`` if the system does not use an LLM.
    """

    system: System
    query: Query
    k: int
    gateway: Gateway | None
    context: CallContext
    trace: Trace


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
