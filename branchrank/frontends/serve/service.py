"""The predictors that a server offers for one open workspace, and the threads that run the queries.

1. The index, the embedding model and the predictors' branches are loaded before the first request.
2. A predictor that can't run is listed with the reason, and requests for it are refused.
3. The queries run in a small thread pool. If the pool's queue is full, work is refused immediately.

In the terminal UI, each search tool and each available predictor is a mode (:class:`Searches`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from branchrank.core.errors import LLMError, MissingDependencyError, UsageError
from branchrank.core.records import Hit, Record, Retrieval
from branchrank.runs.words import plural
from branchrank.search.files.read_file import FileRefused
from branchrank.search.systems.branches import branch_kind
from branchrank.search.systems.query import read_filters
from branchrank.search.systems.search_tools import Found, ToolAnswer
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


TOP = 10
SHOWN_LINES = 3


class Mode(Record, frozen=True, kw_only=True):
    """A search mode.

    ``search`` is a function that takes a query and exact keywords and returns results, best first.
    """

    name: str
    label: str
    search: Callable[[str, str], ToolAnswer]
    takes_keywords: bool = False


class Searches:
    """All search modes of one workspace. Only one search runs at a time, so that no index is opened twice."""

    def __init__(self, service: Service) -> None:
        self._workspace = service.workspace
        self.tools = tools = service.workspace.tools
        self._lock = Lock()
        manifest = service.workspace.index.manifest
        root = service.workspace.folder.corpus_root
        size = f"{plural(manifest.documents, 'document')}, {plural(manifest.chunks, 'chunk')}"
        self.title = f"{root.name}  {size}"

        def predictor(name: str) -> Mode:
            return Mode(
                name=f"predictor-{name}",
                label=f"Predictor {name}",
                search=lambda query, _: service.tool_search(query, name, TOP),
            )

        modes = (
            Mode(name="grep", label="Grep", search=lambda query, _: tools.grep_search(query)),
            Mode(name="vector", label="Vector", search=lambda query, _: tools.vector_search(query)),
            Mode(name="hybrid", label="Grep + vector", search=tools.hybrid_search, takes_keywords=True),
            *map(predictor, service.predictors),
        )
        self.modes = {mode.name: mode for mode in modes}

    @property
    def best(self) -> str:
        """The name of the search mode in which the app starts.

        The app prefers late-interaction to hybrid, and hybrid to local. Late-interaction is chosen only if
        the index has token vectors, because late-interaction is slow without them. Hybrid is chosen only if
        its LLM is configured. If late-interaction, hybrid and local are all unavailable, the app starts in
        the last mode in :attr:`modes`.
        """
        wanted = ["predictor-local"]
        if self._workspace.system("hybrid").asks_llm:
            wanted.insert(0, "predictor-hybrid")
        if self._workspace.index.token_vectors is not None:
            wanted.insert(0, "predictor-late-interaction")
        return next((name for name in wanted if name in self.modes), [*self.modes][-1])

    def search(self, mode: str, query: str, keywords: str = "") -> ToolAnswer:
        """Run a query in a search mode.

        Modes without a keyword box ignore ``keywords``.
        """
        with self._lock:
            return self.modes[mode].search(query, keywords)

    def source(self, hit: Hit) -> list[str]:
        """Return the lines of the file that contains a hit, or the reason why the file can't be read."""
        try:
            text = self.tools.reader.text(hit.source)
        except FileRefused as refusal:
            return [str(refusal)]
        return [line.removesuffix("\r") for line in text.split("\n")]


def why(found: Found) -> str:
    """Return one line that shows a result's rank in each branch, the score and the distance."""
    distance = [] if found.hit.distance is None else [f"distance {found.hit.distance:.3f}"]
    return "  ".join([*found.hit.reasons, f"score {found.hit.score:.4f}", *distance])


def preview(found: Found) -> list[tuple[int | None, str]]:
    """Return a few lines of a result's text for the list of results.

    For a result with matched lines, the first matched lines are returned with their line numbers. For a
    result without matched lines, the first non-blank lines are returned, with ``None`` in place of line
    numbers.
    """
    matched = found.hit.matched
    if matched:
        lines = found.hit.text.split("\n")
        first = found.hit.line_start
        return [(number, lines[number - first].strip()) for number in matched[:SHOWN_LINES]]
    telling = [line.strip() for line in found.hit.plain.splitlines() if line.strip()]
    return [(None, line) for line in telling[:SHOWN_LINES]]
