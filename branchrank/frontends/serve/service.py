"""The predictors that a server offers for one open workspace, and the threads that run the queries.

1. The index, the embedding model and the predictors' branches are loaded before the first request.
2. A predictor that can't run is listed with the reason, and requests for it are refused.
3. The queries run in a small thread pool. If the pool's queue is full, work is refused immediately.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from branchrank.core.errors import LLMError, MissingDependencyError, UsageError
from branchrank.core.records import Retrieval
from branchrank.search.systems.branches import branch_kind
from branchrank.search.systems.query import read_filters
from branchrank.search.systems.search_tools import ToolAnswer
from branchrank.workspace import Workspace

T = TypeVar("T")


class RequestRefused(Exception):
    """Error for a predictor or a filter that can't be used, with a message that a client may read.

    ``code`` is ``predictor`` or ``filter``.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def check_filters(filters: Sequence[str]) -> None:
    """Raise :class:`RequestRefused` if a filter has an unknown key or no value."""
    try:
        read_filters(filters)
    except UsageError as error:
        raise RequestRefused("filter", f"{error.message}; {error.remedy}") from None


class Service:
    """A thread-safe service that answers queries on one workspace with the chosen predictors."""

    def __init__(self, workspace: Workspace, predictors: Sequence[str]) -> None:
        """Check the predictors, the packages that they need, and their LLM endpoints.

        Raises :class:`UsageError` if no predictor can run.
        """
        self.workspace = workspace
        self.refused: dict[str, str] = {}
        ready = []
        for name in workspace.predictor_names(predictors):
            try:
                for branch in workspace.system(name).searched:
                    branch_kind(branch.kind).require(workspace.settings)
                workspace.check_llm(name)
            except (UsageError, LLMError) as error:
                self.refused[name] = error.message
            except MissingDependencyError as error:
                self.refused[name] = f"{error.message}; {error.remedy}"
            else:
                ready.append(name)
        if not ready:
            raise UsageError(
                f"no predictor can be served: {'; '.join(self.refused.values())}",
                remedy="choose other predictors with --predictor",
            )
        self.predictors = tuple(ready)

    def warm_up(self) -> None:
        """Load the index, the model and the branches before the first request, without calling an LLM."""
        self.workspace.warm_up(self.predictors)

    def retrieve(
        self, query: str, k: int, predictor: str = "", filters: Sequence[str] = ()
    ) -> tuple[str, Retrieval]:
        """Run a query, and return the name and the result of the predictor.

        Raises :class:`RequestRefused` for a predictor that can't be used or an invalid filter.
        """
        name = self._served(predictor)
        check_filters(filters)
        return name, self.workspace.retrieve(query, name, k, filters=filters)

    def tool_search(self, query: str, predictor: str, limit: int, filters: Sequence[str] = ()) -> ToolAnswer:
        """Run a query with a predictor, and return the result in the form that the search tools use."""
        system = self.workspace.system(self._served(predictor))
        return self.workspace.tools.predictor_search(system, query, limit=limit, filters=filters)

    def _served(self, predictor: str) -> str:
        name = predictor or self.predictors[0]
        if name in self.refused:
            raise RequestRefused("predictor", self.refused[name])
        if name not in self.predictors:
            served = ", ".join(self.predictors)
            raise RequestRefused("predictor", f"the predictor {name!r} is not served; choose from {served}")
        return name


class QueueFullError(Exception):
    """Error for work that is refused because all threads are busy and the queue is full."""


class Workers:
    """Runs up to ``threads`` functions in parallel and queues up to ``waiting`` more."""

    def __init__(self, threads: int, waiting: int) -> None:
        self._limiter = CapacityLimiter(threads)
        self._waiting = waiting

    async def run(self, work: Callable[[], T]) -> T:
        """Run ``work`` in a thread and return its result.

        Raises :class:`QueueFullError` if the queue is full.
        """
        busy = self._limiter.statistics()
        if busy.borrowed_tokens == busy.total_tokens and busy.tasks_waiting >= self._waiting:
            raise QueueFullError
        return await to_thread.run_sync(work, limiter=self._limiter)
