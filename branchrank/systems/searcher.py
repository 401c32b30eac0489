"""Searches a workspace, using its index, its engine and the LLMs of its systems.

1. Resources are opened on first use, and stay open until the searcher is closed.
2. If ``rebuild`` is true, a missing or stale index is built. If ``rebuild`` is false, a missing or stale
   index is an error.
3. The engine stores only recent stage results, which limits the memory of a long-running process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Self, get_args

from branchrank.errors import UsageError
from branchrank.index.reader import Index, measured_distance, open_index, open_or_build
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.io.progress import Progress, shown_progress
from branchrank.records import Hit, Retrieval
from branchrank.settings import BenchmarkSettings, Resolved, RetrievalSettings, arguments
from branchrank.spec import Endpoint, System
from branchrank.systems.builtin import GROUPS, builtin_systems
from branchrank.systems.checks import check_embedder, problems
from branchrank.systems.document_systems import Mode, document_search
from branchrank.systems.engine import Engine
from branchrank.systems.llm_stages import LLMStages, open_llm
from branchrank.systems.memo import RecentMemo
from branchrank.systems.query import Query, read_filters

if TYPE_CHECKING:
    from branchrank.llm.gateway import Gateway
    from branchrank.systems.search_tools import SearchTools
    from branchrank.tree.navigate import Tree


class Searcher:
    """A workspace's index and engine, opened on first use. A thread-safe context manager."""

    def __init__(
        self, folder: WorkspaceFolder, *, rebuild: bool = False, progress: bool | Progress = False
    ) -> None:
        self._folder = folder
        self._rebuild = rebuild
        self._progress = progress
        self._resources = ExitStack()
        self._lock = RLock()
        self._gateways: dict[Endpoint, Callable[[Endpoint], Gateway]] = {}
        self._systems: dict[str, System] = {}
        # Don't use ``cached_property``, because its locks (one per property in Python 3.11) can deadlock.
        self._index: Index | None = None
        self._engine: Engine | None = None
        self._tools: SearchTools | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the index, the caches and the connections.

        A closed searcher can be used again. The next search reopens the resources.
        """
        with self._lock:
            self._resources.close()
            self._gateways.clear()
            self._index = self._engine = self._tools = None

    @property
    def data_dir(self) -> Path:
        """The workspace's folder."""
        return self._folder.data_dir

    @property
    def settings(self) -> Resolved:
        """Every setting with its value and the origin of the value (such as a flag or a file)."""
        return self._folder.settings

    @property
    def folder(self) -> WorkspaceFolder:
        """The paths of the workspace's corpus, questions, indexes and caches."""
        return self._folder

    @property
    def index(self) -> Index:
        """The opened index.

        Raises :class:`~branchrank.errors.ArtifactError` if the index is missing or stale.
        """
        with self._lock:
            if self._index is None:
                rebuild = self._rebuild
                index = open_or_build(self._folder, self._build) if rebuild else open_index(self._folder)
                self._index = self._resources.enter_context(index)
            return self._index

    @property
    def calibrated_distance(self) -> str:
        """A description of the index's calibrated distance threshold.

        If the index uses the default distance threshold, the description is an empty string.
        """
        return measured_distance(self._folder).words

    def build_index(self) -> Index:
        """Build or update the index, and open it."""
        with self._lock:
            self._index = self._resources.enter_context(self._build())
            return self._index

    def _build(self) -> Index:
        from branchrank.index.build import build_index

        with shown_progress(self._progress) as progress:
            return build_index(self._folder, progress=progress)

    @property
    def engine(self) -> Engine:
        """The engine that answers every query on this workspace."""
        with self._lock:
            if self._engine is None:
                index = self.index
                cache = self._folder.open_cache()
                self._resources.callback(cache.close)
                seed = self.settings.part(BenchmarkSettings).sample_seed
                self._engine = Engine(
                    index,
                    self._folder.corpus_root,
                    self.settings,
                    memo=RecentMemo(),
                    cache=cache,
                    open_token_cache=self._folder.open_token_cache,
                    llm_stages=LLMStages(self._gateway, seed=seed),
                )
                self._resources.callback(self._engine.close)
            return self._engine

    @property
    def tree(self) -> Tree:
        """The PageIndex tree of the index."""
        return self.index.tree

    def system(self, name: str | System) -> System:
        """Return the system called ``name``, with the workspace's settings.

        A ``System`` record is checked and returned.

        Raises :class:`~branchrank.errors.UsageError` for an unknown name or an invalid system.
        """
        if isinstance(name, str) and name in GROUPS:
            raise UsageError(
                f"{name!r} stands for several predictors", remedy=f"choose one of {', '.join(GROUPS[name])}"
            )
        if isinstance(name, System):
            system = name
        else:
            (system,) = builtin_systems((arguments.text("system", name, "hybrid"),), self.settings)
        found = problems(system)
        if found:
            raise UsageError("\n".join(found), remedy="correct these fields of the system")
        check_embedder(system, self._folder.index_settings.embedder)
        return system

    def predictor_names(self, names: Sequence[str] = ("all",)) -> tuple[str, ...]:
        """Replace ``all`` and ``family`` with the names of their predictors, and return each name once.

        Raises :class:`~branchrank.errors.UsageError` for an unknown name.
        """
        spelled = builtin_systems(arguments.texts("names", names, "local"), self.settings)
        return tuple(system.name for system in spelled)

    def search(
        self,
        query: str,
        system: str | System = "hybrid",
        k: int = 5,
        *,
        keywords: str = "",
        filters: str | Sequence[str] = (),
    ) -> list[Hit]:
        """Return the ``k`` best passages for a query, best first.

        ``system`` is a predictor's name (``local``, ``hybrid``, ``pageindex``, ``grep``, ...) or a
        ``System``. If ``keywords`` is given, the branches ``grep``, ``fts5`` and ``qdrant-sparse`` search for
        ``keywords`` instead of ``query``. Only documents that pass every filter in ``filters`` are searched.
        An example of a filter is ``"file_path=guide/*.md"``.

        Raises :class:`~branchrank.errors.UsageError` for an unknown system or filter. Opening the index or a
        branch can raise other errors.

        >>> from branchrank import Workspace
        >>> workspace = Workspace.open("data")
        >>> [hit.source for hit in workspace.search("remove stains", "local", k=1)]
        ['guide/cleaning.md']
        """
        return list(self.retrieve(query, system, k, keywords=keywords, filters=filters).hits)

    def retrieve(
        self,
        query: str,
        system: str | System = "hybrid",
        k: int = 5,
        *,
        keywords: str = "",
        filters: str | Sequence[str] = (),
    ) -> Retrieval:
        """Return the hits of :meth:`search`, the trace, the stage times, the LLM calls and the notices."""
        arguments.text("query", query)
        arguments.text("keywords", keywords, "max_retries")
        k = arguments.count("k", k)
        chosen = self.system(system)
        conditions = read_filters(filters)
        self._asked(chosen)
        return self.engine.retrieve(chosen, Query(text=query, keywords=keywords, filters=conditions), k)

    def search_documents(
        self,
        query: str,
        mode: Mode = "hybrid",
        limit: int | None = None,
        *,
        filters: str | Sequence[str] = (),
    ) -> list[Hit]:
        """Search whole documents. Return one hit per document, best first. Scores are in 0..1.

        ``mode`` is ``keyword`` (FTS5), ``semantic`` (vectors) or ``hybrid`` (both). Each hit is the best
        chunk of a document. The hit's ``members`` are the best chunks of that document, including the hit
        itself. ``limit`` defaults to ``[retrieval] final_limit``. ``filters`` restricts the search as in
        :meth:`search`. Raises :class:`~branchrank.errors.UsageError` if the mode needs embeddings, but
        ``[embedding]`` has no model.
        """
        arguments.text("query", query)
        arguments.one_of("mode", mode, get_args(Mode))
        k = self.settings.part(RetrievalSettings).final_limit
        if limit is not None:
            k = arguments.count("limit", limit)
        system = document_search(self.settings, mode)
        return list(self.engine.retrieve(system, Query(text=query, filters=read_filters(filters)), k).hits)

    def check_llm(self, system: str | System) -> None:
        """Check the LLM endpoint of a system, if the system uses an LLM.

        Raises :class:`~branchrank.errors.LLMError` if the endpoint does not answer or rejects the key.
        """
        chosen = self.system(system)
        self._asked(chosen)
        if chosen.asks_llm:
            self._gateway(chosen.llm)

    def warm_up(self, systems: Sequence[str | System]) -> None:
        """Open the resources of systems, and check their LLM endpoints, before the first query."""
        for name in systems:
            system = self.system(name)
            self.check_llm(system)
            self.engine.open(system)
            if not system.asks_llm:
                self.engine.retrieve(system, "warm up", 1)

    @property
    def tools(self) -> SearchTools:
        """The search tools (``grep_search``, ``vector_search``, ``hybrid_search`` and ``read_file``)."""
        from branchrank.systems.search_tools import SearchTools

        with self._lock:
            if self._tools is None:
                self._tools = SearchTools(self.engine)
            return self._tools

    def _asked(self, system: System) -> None:
        if system.asks_llm:
            self._systems[system.name] = system

    def _gateway(self, endpoint: Endpoint) -> Gateway:
        """Return the LLM gateway for an endpoint, opened on first use."""
        with self._lock:
            if endpoint not in self._gateways:
                asking = [system for system in self._systems.values() if system.llm == endpoint]
                stages = self._resources.enter_context(open_llm(self._folder, asking))
                assert stages.gateway_of is not None
                self._gateways[endpoint] = stages.gateway_of
            return self._gateways[endpoint](endpoint)
