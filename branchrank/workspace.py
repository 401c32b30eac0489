"""The library's main class, ``Workspace``, with which you search a corpus and run benchmarks.

1. The index, the engine and the LLMs of systems are opened on first use, and stay open until the workspace is
   closed.
2. If ``rebuild`` is true, a missing or stale index is built. If ``rebuild`` is false, a missing or stale
   index is an error.
3. The engine stores only recent stage results, which limits the memory of a long-running process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Self, get_args

import msgspec

from branchrank.core.errors import (
    ArtifactError,
    QuestionError,
    Remedy,
    UsageError,
    at_least_one,
    check_choice,
)
from branchrank.core.io import Closing
from branchrank.core.io.progress import Notify, Progress, no_notice, shown_progress
from branchrank.core.records import AgentAnswer, Hit, Retrieval
from branchrank.core.settings import (
    AnchoringSettings,
    BenchmarkSettings,
    GrepSettings,
    Resolved,
    RetrievalSettings,
)
from branchrank.core.spec import AGENT, LLMEndpoint, System
from branchrank.index.reader import Index, measured_distance, open_index, open_or_build
from branchrank.index.workspace_build import CorpusInputs, build_adopted, build_workspace
from branchrank.index.workspace_folder import AnyPath, WorkspaceFolder
from branchrank.questions.workspace_files import QuestionFiles
from branchrank.search.systems.builtin import (
    AGENTS,
    GROUPS,
    Mode,
    builtin_systems,
    document_search,
    predictor_names,
)
from branchrank.search.systems.engine import Engine
from branchrank.search.systems.memo import Memo
from branchrank.search.systems.query import LLMStages, Query, open_llm, read_filters
from branchrank.search.systems.system_checks import check_embedder, problems

if TYPE_CHECKING:
    from branchrank.documents.locating import Anchor, Locator
    from branchrank.documents.tree_nodes import Tree
    from branchrank.index.adoption import Adoption
    from branchrank.index.embedding import Calibration
    from branchrank.index.reader import CheckedIndex
    from branchrank.run import Run
    from branchrank.runs.passage_pools import Labeling
    from branchrank.search.llm.gateway import Gateway
    from branchrank.search.systems.search_tools import SearchTools
    from branchrank.search.systems.workspace_tree import WorkspaceTree

#: A name, a system, an object with a method ``retrieve(query, k)``, a function of query and k, a retriever of
#: another framework (whose types are not imported here), or a pair of a name and one of these.
PredictorLike = object


class WorkspaceQuestions(QuestionFiles):
    """The questions of one workspace. The ``path`` argument of a method selects another question file."""

    def label(
        self, run: Run, output: AnyPath, *, annotator: str, questions: AnyPath | None = None, **pool: int
    ) -> Labeling:
        """Return the first ``depth`` hits of each system in ``run``, for ``annotator`` to label.

        ``pool`` is the ``depth`` (default 5) and the ``seed`` of the order (default 42). Labels are written
        to the question file ``output``, which is created if it does not exist. ``questions`` is the question
        file of a run that does not store question texts. Raises :class:`~branchrank.core.errors.RunError` if
        the workspace's documents have changed since the run.
        """
        from branchrank.runs.passage_pools import Labeling

        asked = None if questions is None else Path(questions)
        return Labeling(run, Path(output), annotator=annotator, folder=self._folder, questions=asked, **pool)


class Workspace(Closing):
    """A corpus with its indexes, settings and caches, in one folder.

    Open an existing workspace with :meth:`open`, or create one with :meth:`build`. The index and the model
    are loaded on first use. Workspaces are thread-safe and print nothing. Close a workspace with
    :meth:`close`, or use it in a ``with`` statement.

    >>> import branchrank as br
    >>> with br.Workspace.open("data") as workspace:
    ...     hits = workspace.search("which temperature for green tea", system="hybrid", k=2)
    >>> hits[0].source, hits[0].line_start, hits[0].line_end
    ('guide/brewing.md', 5, 8)
    """

    def __init__(
        self, folder: WorkspaceFolder, *, rebuild: bool = False, progress: bool | Progress = False
    ) -> None:
        if not isinstance(folder, WorkspaceFolder):
            raise UsageError(
                f"Workspace({folder!r}): a workspace is not opened with its class",
                remedy=f"Workspace.open({str(folder)!r})",
            )
        self._folder = folder
        self._rebuild = rebuild
        self._progress = progress
        self._resources = ExitStack()
        self._lock = RLock()
        # Don't use ``cached_property``, because its locks (one per property in Python 3.11) can deadlock.
        self._index: Index | None = None
        self._engine: Engine | None = None
        self._advised = False
        self._tools: SearchTools | None = None
        self._locator: Locator | None = None
        self._llm: LLMStages | None = None

    def close(self) -> None:
        """Close the index, the caches and the connections.

        A closed workspace can be used again. The next search reopens the resources.
        """
        with self._lock:
            self._resources.close()
            self._index = self._engine = self._tools = self._llm = None

    @classmethod
    def open(
        cls,
        data_dir: AnyPath = "data",
        *,
        settings: Mapping[str, object] | None = None,
        rebuild: bool = False,
        notify: Notify | None = None,
        progress: bool | Progress = False,
    ) -> Workspace:
        """Open the workspace in ``data_dir``.

        ``settings`` maps setting names (such as ``"local.rrf_k"``) to values, which override
        ``branchrank.toml`` and environment variables. If ``rebuild`` is true, a missing or stale index is
        built on first use. If ``rebuild`` is false, a missing or stale index raises
        :class:`~branchrank.core.errors.ArtifactError`. ``notify`` is called with a one-line message when
        something is downloaded or built. ``progress`` is ``True`` to show progress bars, or a function that
        is called with stage, done and total.

        Raises :class:`~branchrank.core.errors.UsageError` for an invalid setting.
        """
        folder = WorkspaceFolder.open(Path(data_dir), flags=settings, notify=notify)
        return cls(folder, rebuild=rebuild, progress=progress)

    @classmethod
    def build(
        cls,
        corpus: AnyPath | None = None,
        data_dir: AnyPath = "data",
        *,
        embedder: str = "",
        exclude: Sequence[str] | None = None,
        code: bool | None = None,
        chunks: AnyPath | None = None,
        nodes: AnyPath | None = None,
        settings: Mapping[str, object] | None = None,
        notify: Notify | None = None,
        progress: bool | Progress = False,
    ) -> Workspace:
        """Index a folder of documents or a named corpus, and return the workspace in ``data_dir``.

        The corpus, the embedder and ``settings`` are written to the workspace's ``branchrank.toml``. If the
        build fails because of an invalid value, the previous ``branchrank.toml`` is restored. Unchanged
        documents are not embedded again, and an interrupted build is resumed. Without ``corpus``, the corpus
        in ``branchrank.toml`` is indexed again. ``chunks`` and ``nodes`` are files with your own chunks and
        nodes, which replace BranchRank's chunks and nodes. With ``code``, source code is indexed as well. If
        ``corpus`` is a BEIR folder, the BEIR documents are first written to files in the workspace.

        Raises :class:`~branchrank.core.errors.CorpusError` if there are no documents,
        :class:`~branchrank.core.errors.ModelError` if the embedder is not available,
        :class:`~branchrank.core.errors.UsageError` for an invalid setting, and
        :class:`~branchrank.core.errors.BusyError` if another process is building an index.

        >>> from branchrank import Workspace
        >>> with Workspace.build("docs", "data/mine", embedder="fake") as workspace:
        ...     workspace.index.manifest.documents
        5
        """
        kept = {**(settings or {}), **({"index.embedder": embedder} if embedder else {})}
        opened = WorkspaceFolder.open(Path(data_dir), flags=kept, notify=notify)
        inputs = CorpusInputs(
            corpus=corpus if corpus is None or isinstance(corpus, str) else Path(corpus),
            exclude=None if exclude is None else tuple(exclude),
            code=code,
            chunks=None if chunks is None else Path(chunks),
            nodes=None if nodes is None else Path(nodes),
        )
        return cls(opened, progress=progress)._holding(*build_workspace(opened, inputs, progress))

    @classmethod
    def adopt(
        cls,
        folder: AnyPath,
        data_dir: AnyPath,
        *,
        corpus: AnyPath | None = None,
        embedder: str = "",
        collection: str = "",
        settings: Mapping[str, object] | None = None,
        notify: Notify | None = None,
        progress: bool | Progress = False,
    ) -> Workspace:
        """Create and open a workspace in ``data_dir`` from another program's chunks, vectors and nodes.

        The files ``chunks.jsonl``, ``chroma/`` and ``pageindex/nodes.jsonl`` in ``folder`` are read and not
        changed. Chunks without line numbers are located in the documents by their text. If ``chroma/``
        contains several collections, ``collection`` is the name of the collection to use. To check the stored
        vectors, up to 20 chunks are embedded again with ``embedder``. The stored vectors are reused if, for
        each chunk that was embedded again, the cosine similarity between the stored vector and the new vector
        is at least 0.999. :attr:`adoption` lists what was used and what was skipped. ``corpus`` is the folder
        that contains the documents. The default is the corpus specified in ``branchrank.toml`` in
        ``data_dir`` or in ``folder``.

        Raises the same errors as :meth:`build`. Also raises :class:`~branchrank.core.errors.InputError` for
        an invalid file, and :class:`~branchrank.core.errors.ArtifactError` for an unsafe folder or vectors
        from another embedder. After an error, ``data_dir`` is unchanged.

        >>> from branchrank import Workspace
        >>> with Workspace.adopt("theirs", "data/adopted", corpus="docs", embedder="fake") as workspace:
        ...     workspace.adoption.chunks, workspace.adoption.reused
        (2, 2)
        """
        kept = {**(settings or {}), **({"index.embedder": embedder} if embedder else {})}
        opened = WorkspaceFolder.open(Path(data_dir), flags=kept, notify=notify)
        built = build_adopted(opened, Path(folder), corpus, collection, progress)
        return cls(opened, progress=progress)._holding(*built)

    def _holding(self, folder: WorkspaceFolder, index: Index) -> Self:
        """Use ``folder`` with its open index."""
        self._folder, self._index = folder, self._resources.enter_context(index)
        return self

    def __repr__(self) -> str:
        return f"Workspace({str(self.data_dir)!r})"

    @property
    def adoption(self) -> Adoption | None:
        """What :meth:`adopt` used and skipped, or ``None`` if :meth:`adopt` did not create the workspace."""
        from branchrank.index.adoption import Adoption
        from branchrank.index.manifest import read_record

        path = self._folder.given("adoption")
        return None if path is None else read_record(path, Adoption)

    @property
    def questions(self) -> WorkspaceQuestions:
        """Methods that add, import, label, check, re-anchor, mine, split and generate questions."""
        return WorkspaceQuestions(self._folder)

    @property
    def tree_tools(self) -> WorkspaceTree:
        """Methods that build, check, summarize, export and import PageIndex trees."""
        from branchrank.search.systems.workspace_tree import WorkspaceTree

        return WorkspaceTree(self._folder)

    def benchmark(
        self,
        predictors: PredictorLike | Sequence[PredictorLike] = ("all",),
        *,
        questions: AnyPath | None = None,
        primary: str = "",
        measures: str | Sequence[str] = (),
        baseline: str | Sequence[str] = "",
        sample_size: int | None = None,
        seed: int | None = None,
        top_k: int | None = None,
        latency_sample: int | None = None,
        repeats: int | None = None,
        experiment: str = "benchmark",
        name: str = "",
        split: str = "",
        filters: str | Sequence[str] = (),
        reports: AnyPath = "reports",
        settings: Mapping[str, object] | None = None,
        fresh: bool = False,
        progress: bool | Progress = False,
    ) -> Run:
        """Run predictors on the same questions, write the report, and return the finished run.

        A predictor is a name (``local``, ``all``, ``module:Class``), a ``System``, an object with a method
        ``retrieve(query, k)``, a retriever of another framework (:mod:`branchrank.adapters`), a function
        ``f(query, k)``, or a pair of a name and one of these. Methods and functions must return hits, best
        first. ``questions`` is a question file (by default the workspace's question file). ``primary`` is the
        measure that is tested (such as ``strict_hit@5``). ``measures`` are additional measures in the report.
        ``baseline`` is the predictor, or the list of predictors, with which all others are compared (by
        default the first predictor). The value ``"all-pairs"`` compares every pair of predictors.
        ``sample_size`` is the number of questions to draw at random (by default, all questions are used).
        ``seed`` is the random seed of the sample and of the statistical tests. ``name`` is the run's name in
        lists and in its report. With ``filters``, such as ``"file_path=guide/*"``, only matching documents
        are searched. ``settings`` contains settings that have no parameter of their own, such as
        ``"benchmark.delta"``.

        If the arguments are invalid, a single error with all problems is raised before any work starts. A
        failed query counts as a miss and is listed in the report.

        >>> from branchrank import Workspace
        >>> workspace = Workspace.open("data")
        >>> def nothing(query, k):
        ...     return []
        >>> run = workspace.benchmark(["local", nothing], measures=["nDCG@10"], latency_sample=0)
        >>> run.summary[["predictor", "questions", "strict_hit@1"]].round(2)
          predictor  questions  strict_hit@1
        0     local          8           1.0
        1   nothing          8           0.0
        """
        from branchrank.run import Run
        from branchrank.runs.bench.plan import Plan, plan_from_names
        from branchrank.runs.bench.running import BenchmarkOptions, run_plan

        given = {
            "benchmark.primary": primary,
            "benchmark.measures": measures if isinstance(measures, str) else ",".join(measures),
            "benchmark.baseline": baseline if isinstance(baseline, str) else tuple(baseline),
            "benchmark.sample_size": sample_size,
            "benchmark.sample_seed": seed,
            "benchmark.top_k": top_k,
            "benchmark.latency_sample": latency_sample,
            "llm.repeats": repeats,
        }
        flags = {name: value for name, value in given.items() if value not in ("", None)}
        folder = self._folder.with_flags({**(settings or {}), **flags})
        if isinstance(predictors, str) or not isinstance(predictors, Sequence):
            predictors = [predictors]
        asked = Plan(
            data_dir=self.data_dir,
            settings=folder.settings,
            config=folder.content,
            questions=None if questions is None else Path(questions),
            reports=Path(reports),
            experiment=experiment,
            name=name,
            split=split,
            filters=(filters,) if isinstance(filters, str) else tuple(filters),
        )
        options = BenchmarkOptions(fresh=fresh, notify=folder.notify, progress=progress)
        return run_plan(plan_from_names(predictors, asked), options, Run)

    def check(self) -> CheckedIndex:
        """Compare each file of the index with the digest that the build recorded for the file.

        Opening an index is faster than this check, because opening compares only files with a new size, inode
        or timestamp. Raises :class:`~branchrank.core.errors.ArtifactError` with the name of the first damaged
        file.

        >>> from branchrank import Workspace
        >>> Workspace.open("data").check().files > 5
        True
        """
        from branchrank.index.reader import check_index

        return check_index(self._folder)

    def calibrate(self, questions: AnyPath | None = None) -> Calibration:
        """Suggest a distance threshold at which 95% of the questions keep their nearest chunk.

        ``questions`` is a question file (by default the workspace's). The questions' gold is ignored. Raises
        :class:`~branchrank.core.errors.QuestionError` if the file has no answerable question.
        """
        from branchrank.index.embedding import calibrate, nearest
        from branchrank.index.stores.vectors import squared_distance
        from branchrank.questions.question_files import GIVE_QUESTIONS, load_questions

        path = self._folder.questions_path if questions is None else Path(questions)
        asked = [each.question for each in load_questions(path, remedy=GIVE_QUESTIONS) if each.answerable]
        if not asked:
            raise QuestionError(
                f"{path} has no answerable question",
                remedy=Remedy("choose another file with {}", "--questions"),
            )
        best = nearest(self.index.vectors, map(self.index.embedder.embed_query, asked))
        return calibrate(map(squared_distance, best), self.settings.part(GrepSettings).vector_score_threshold)

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

        Raises :class:`~branchrank.core.errors.ArtifactError` if the index is missing or stale.
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

    def _build(self) -> Index:
        from branchrank.index.index_build import build_index

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
                    memo=Memo(most=128),
                    cache=cache,
                    open_token_cache=self._folder.open_token_cache,
                    llm_stages=LLMStages(self._gateway, seed=seed),
                )
                self._resources.callback(self._engine.close)
            return self._engine

    @property
    def tree(self) -> Tree:
        """The PageIndex tree of the index.

        With ``rebuild``, no index is built for it: if none is up to date, the tree is that of the documents.
        """
        with self._lock:
            if self._index is None and self._rebuild:
                try:
                    self._index = self._resources.enter_context(open_index(self._folder))
                except ArtifactError:
                    return self.tree_tools.of_documents()
            return self.index.tree

    def system(self, name: str | System) -> System:
        """Return the system called ``name``, with the workspace's settings.

        A ``System`` record is checked and returned.

        Raises :class:`~branchrank.core.errors.UsageError` for an unknown name or an invalid system.
        """
        if isinstance(name, str) and name in GROUPS:
            raise UsageError(
                f"{name!r} stands for several predictors", remedy=f"choose one of {', '.join(GROUPS[name])}"
            )
        if isinstance(name, System):
            system = name
        else:
            (system,) = builtin_systems((name,), self.settings)
        if found := problems(system):
            raise UsageError("\n".join(found), remedy="correct these fields of the system")
        check_embedder(system, self._folder.index_settings.embedder)
        return system

    def predictor_names(self, names: Sequence[str] = ("all",)) -> tuple[str, ...]:
        """Replace ``all`` and ``family`` with the names of their predictors, and return each name once.

        Raises :class:`~branchrank.core.errors.UsageError` for an unknown name.
        """
        return predictor_names((names,) if isinstance(names, str) else tuple(names), self.settings)

    def default_predictors(self, *others: str) -> tuple[str, ...]:
        """Return the name of the system in ``branchrank.toml``, if it has one, and then the other names."""
        own = self.settings.system
        return others if own is None else (own.name, *others)

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

        Raises :class:`~branchrank.core.errors.UsageError` for an unknown system or filter. Opening the index
        or a branch can raise other errors.

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
        k = at_least_one("k", k)
        chosen = self.system(system)
        conditions = read_filters(filters)
        if chosen.rescore.method == "maxsim" and self.index.token_vectors is None and not self._advised:
            self._advised = True
            self._folder.notify(
                "the index has no token vectors, so that those of the candidates are computed now; to store "
                f"them, run: branchrank index --data-dir {self._folder.data_dir} --token-vectors int8"
            )
        return self.engine.retrieve(chosen, Query(text=query, keywords=keywords, filters=conditions), k)

    def ask(
        self,
        question: str,
        system: str | System = AGENT,
        k: int = 5,
        *,
        filters: str | Sequence[str] = (),
        notify: Notify = no_notice,
    ) -> AgentAnswer:
        """Ask an LLM that searches with tools. Return its answer, which cites at most ``k`` passages.

        ``system`` is ``agent``, ``agent-grep``, ``agent-vector``, ``agent-memory``, or a ``System`` with an
        ``agent`` branch. ``filters`` restricts the tools as in :meth:`search`. ``notify`` is called with one
        line of text after each call of a tool, such as ``grep_search: 4,210 characters, 5 files``.

        Raises :class:`~branchrank.core.errors.UsageError` if the system is not an agent, or has no LLM
        endpoint (setting ``agent.base_url``), and :class:`~branchrank.core.errors.LLMError` if the endpoint
        rejects the key.

        >>> from branchrank import Workspace
        >>> with Workspace.open("data") as workspace:
        ...     answer = workspace.ask("remove stains", "agent-grep", notify=print)
        grep_search: 112 characters, 1 file
        read_file: 113 characters, 7 lines
        >>> answer.answered, answer.citations[0].source
        (True, 'guide/cleaning.md')
        """
        k = at_least_one("k", k)
        chosen = self.system(system)
        if not chosen.has_agent:
            raise UsageError(
                f"the system {chosen.name!r} returns passages, but does not answer questions",
                remedy=Remedy(f"choose {', '.join(AGENTS)} or another agent ({{}})", "--predictor"),
            )
        self.check_llm(chosen)
        branches = (
            msgspec.structs.replace(branch, top_n=k) if branch.kind == AGENT else branch
            for branch in chosen.branches
        )
        chosen = msgspec.structs.replace(chosen, branches=tuple(branches))
        asked = Query(text=question, filters=read_filters(filters))
        found = self.engine.retrieve(chosen, asked, k, notify)
        assert found.agent is not None
        return AgentAnswer(
            **msgspec.structs.asdict(found.agent),
            question=question,
            system=chosen.name,
            citations=found.hits,
            fallbacks=found.fallbacks,
            notices=found.remarks,
            calls=found.calls,
        )

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
        :meth:`search`. Raises :class:`~branchrank.core.errors.UsageError` if the mode needs embeddings, but
        the index has none, or the model in ``[embedding]`` is another one.
        """
        check_choice("mode", mode, get_args(Mode))
        k = self.settings.part(RetrievalSettings).final_limit
        if limit is not None:
            k = at_least_one("limit", limit)
        return self.search(query, document_search(self.settings, mode), k, filters=filters)

    def locate(self, text: str, source: str | None = None) -> Anchor | None:
        """Return the lines of ``text``, or ``None`` if it is in no place of the corpus, or in several.

        The text may be changed as splitters and loaders change texts: other line breaks, no markup, a title
        in front, half words at the ends. ``source`` restricts the search to one document.

        >>> from branchrank import Workspace
        >>> Workspace.open("data").locate("rinse the tank with vinegar")
        """
        from branchrank.documents.locating import Locator

        with self._lock:
            if self._locator is None:
                least = self.settings.part(AnchoringSettings).min_similarity
                self._locator = Locator.of(self.folder.corpus_root, self.folder.exclude, least)
            return self._locator.locate(text, source)

    def check_llm(self, system: str | System) -> None:
        """Check the LLM endpoint of a system, if the system uses an LLM.

        Raises :class:`~branchrank.core.errors.LLMError` if the endpoint does not answer or rejects the key.
        """
        chosen = self.system(system)
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
        from branchrank.search.systems.search_tools import SearchTools

        with self._lock:
            if self._tools is None:
                self._tools = SearchTools(self.engine)
            return self._tools

    def _gateway(self, endpoint: LLMEndpoint) -> Gateway:
        """Return the LLM gateway for an endpoint, opened on first use."""
        with self._lock:
            if self._llm is None:
                self._llm = self._resources.enter_context(open_llm(self._folder, [endpoint]))
            assert self._llm.gateway_of is not None
            return self._llm.gateway_of(endpoint)
