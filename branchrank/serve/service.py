"""Retrieval for a server: one warm engine, asked from several threads, with bounded memory.

1. Everything that a predictor needs is opened before the first request: index, model, derived searches.
2. A predictor that asks for an LLM and names none is listed with that reason and refused.
3. What queries share is remembered for the latest ones only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from branchrank.errors import UsageError
from branchrank.index import Index
from branchrank.records import Record, Retrieval
from branchrank.systems.engine import Engine
from branchrank.systems.llm_stages import LLMStages
from branchrank.systems.memo import RecentMemo
from branchrank.systems.sources import BranchSearch
from branchrank.systems.spec import System, problems


class PredictorRefused(Exception):
    """A predictor that isn't served, or can't run; the message says which are."""


class Offer(Record, frozen=True, kw_only=True):
    """The systems that can run, in the order asked for, and why the others can't."""

    ready: tuple[System, ...]
    refused: dict[str, str]


def offer(systems: Sequence[System]) -> Offer:
    """Sort systems by whether they can run. Raises :class:`UsageError` when none can."""
    faults = {system.name: problems(system) for system in systems}
    ready = tuple(system for system in systems if not faults[system.name])
    refused = {name: "; ".join(found) for name, found in faults.items() if found}
    if not ready:
        raise UsageError(
            f"no predictor can be served: {'; '.join(refused.values())}",
            remedy="name an LLM with --hybrid-base-url and --hybrid-model (or --pageindex-...), "
            "or do without: --hybrid-no-llm, --pageindex-no-llm",
        )
    return Offer(ready=ready, refused=refused)


class Service:
    """Answers queries over one index. Safe for several threads."""

    def __init__(
        self,
        index: Index,
        offered: Offer,
        *,
        further: Mapping[str, BranchSearch] | None = None,
        llm_stages: LLMStages | None = None,
    ) -> None:
        self.index = index
        self.offered = offered
        self._systems = {system.name: system for system in offered.ready}
        self._engine = Engine(index, memo=RecentMemo(), further=further, llm_stages=llm_stages)

    @property
    def predictors(self) -> tuple[str, ...]:
        """The predictors that can be asked; the first is the default."""
        return tuple(self._systems)

    def warm_up(self) -> None:
        """Open what is opened on first use, so that no two threads do it at once. No LLM is asked."""
        sources = self._engine.sources
        if any(branch.kind == "dense" for system in self._systems.values() for branch in system.searched):
            sources.similarities("warm up", list(self.index.chunks)[:1])
        sources.own_scores("warm up")
        sources.subtree_scores("warm up")
        sources.bm25_scores("warm up", list(self.index.chunks)[:1])
        for system in self._systems.values():
            if not system.asks_llm:
                self._engine.retrieve(system, "warm up", 1)

    def retrieve(self, query: str, k: int, predictor: str = "") -> tuple[str, Retrieval]:
        """The predictor that answered and what it found. Raises :class:`PredictorRefused`."""
        name = predictor or self.predictors[0]
        if name in self.offered.refused:
            raise PredictorRefused(self.offered.refused[name])
        system = self._systems.get(name)
        if system is None:
            raise PredictorRefused(f"choose a predictor from {', '.join(self.predictors)}")
        return name, self._engine.retrieve(system, query, k)
