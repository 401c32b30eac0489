"""The library's main class, ``Workspace``, with which you search a corpus and run benchmarks.

The commands, the servers and the terminal UI use the class ``Workspace``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from branchrank.errors import QuestionError
from branchrank.index.workspace_folder import WorkspaceFolder, configure, kept_if_right
from branchrank.io.progress import Notify, Progress
from branchrank.records import Hit, Predictor
from branchrank.run import Run
from branchrank.settings import GrepSettings, arguments
from branchrank.spec import System
from branchrank.systems.searcher import Searcher
from branchrank.workspace_questions import WorkspaceQuestions
from branchrank.workspace_tree import WorkspaceTree

if TYPE_CHECKING:
    from branchrank.index.adoption import Adoption
    from branchrank.index.calibration import Calibration
    from branchrank.index.reader import CheckedIndex

AnyPath = str | PathLike[str]
#: A predictor's name, a system, an object with a method ``retrieve(query, k)``, or a function of query and k.
PredictorLike = str | System | Predictor | Callable[[str, int], Sequence[Hit]]


class Workspace(Searcher):
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
        :class:`~branchrank.errors.ArtifactError`. ``notify`` is called with a one-line message when something
        is downloaded or built. ``progress`` is ``True`` to show progress bars, or a function that is called
        with stage, done and total.

        Raises :class:`~branchrank.errors.UsageError` for an invalid setting.
        """
        folder = WorkspaceFolder.open(arguments.path("data_dir", data_dir), flags=settings, notify=notify)
        return cls(folder, rebuild=rebuild, progress=progress)

    @classmethod
    def build(
        cls,
        corpus: AnyPath | None = None,
        data_dir: AnyPath = "data",
        *,
        embedder: str = "",
        exclude: Sequence[str] | None = None,
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
        nodes, which replace BranchRank's chunks and nodes. If ``corpus`` is a BEIR folder, the BEIR documents
        are first written to files in the workspace.

        Raises :class:`~branchrank.errors.CorpusError` if there are no documents,
        :class:`~branchrank.errors.ModelError` if the embedder is not available,
        :class:`~branchrank.errors.UsageError` for an invalid setting, and
        :class:`~branchrank.errors.BusyError` if another process is building an index.

        >>> from branchrank import Workspace
        >>> with Workspace.build("docs", "data/mine", embedder="fake") as workspace:
        ...     workspace.index.manifest.documents
        5
        """
        from branchrank.corpus.ir_collections import entries_place, is_beir, unpack_beir
        from branchrank.corpus.named import locate_corpus

        folder = arguments.path("data_dir", data_dir)
        kept = {**(settings or {}), **({"index.embedder": embedder} if embedder else {})}
        opened = WorkspaceFolder.open(folder, flags=kept)  # rejects invalid values before they are written
        kept = dict(opened.flags)
        if corpus is None:
            opened.check_exists()
        root = None if corpus is None else locate_corpus(_corpus(corpus))
        if root is not None and is_beir(root):
            root = unpack_beir(root, folder / entries_place(root.resolve().name))
        opened.check_links(root, [Path(each) for each in (chunks, nodes) if each is not None])
        with kept_if_right(folder):
            configure(
                folder,
                corpus=root,
                exclude=exclude,
                chunks=None if chunks is None else Path(chunks),
                nodes=None if nodes is None else Path(nodes),
                settings=_to_keep(kept, notify),
            )
            workspace = cls(WorkspaceFolder.open(folder, flags=kept, notify=notify), progress=progress)
            workspace.build_index()
        return workspace

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

        Raises the same errors as :meth:`build`. Also raises :class:`~branchrank.errors.InputError` for an
        invalid file, and :class:`~branchrank.errors.ArtifactError` for an unsafe folder or vectors from
        another embedder. After an error, ``data_dir`` is unchanged.

        >>> from branchrank import Workspace
        >>> with Workspace.adopt("theirs", "data/adopted", corpus="docs", embedder="fake") as workspace:
        ...     workspace.adoption.chunks, workspace.adoption.reused
        (2, 2)
        """
        from branchrank.index.adoption import ADOPTED, RECORD, adopt_folder, documents_of

        source, target = Path(folder), Path(data_dir)
        kept = {**(settings or {}), **({"index.embedder": embedder} if embedder else {})}
        opened = WorkspaceFolder.open(target, flags=kept, notify=notify)
        kept = dict(opened.flags)
        root = documents_of(opened, source, corpus)
        adopted = adopt_folder(opened, source, root, collection)
        files = target / ADOPTED
        with kept_if_right(target):
            configure(
                target,
                corpus=root if corpus is None else str(corpus),
                chunks=files / "chunks.jsonl",
                nodes=files / "nodes.jsonl" if adopted.tree else None,
                adoption=files / RECORD,
                settings=_to_keep(kept, notify),
            )
            workspace = cls(WorkspaceFolder.open(target, flags=kept, notify=notify), progress=progress)
            workspace.build_index()
        return workspace

    def __repr__(self) -> str:
        return f"Workspace({str(self.data_dir)!r})"

    @property
    def adoption(self) -> Adoption | None:
        """What :meth:`adopt` used and skipped, or ``None`` if :meth:`adopt` did not create the workspace."""
        from branchrank.index.adoption import Adoption
        from branchrank.index.manifest import read_record

        path = self._folder.adoption_file
        return None if path is None else read_record(path, Adoption)

    @property
    def questions(self) -> WorkspaceQuestions:
        """Methods that add, label, check, re-anchor, mine, split and generate questions."""
        return WorkspaceQuestions(self._folder)

    @property
    def tree_tools(self) -> WorkspaceTree:
        """Methods that build, check, summarize, export and import PageIndex trees."""
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
        split: str = "",
        filters: str | Sequence[str] = (),
        reports: AnyPath = "reports",
        settings: Mapping[str, object] | None = None,
        fresh: bool = False,
        progress: bool | Progress = False,
    ) -> Run:
        """Run predictors on the same questions, write the report, and return the finished run.

        A predictor is a name (``local``, ``all``, ``module:Class``), a ``System``, an object with a method
        ``retrieve(query, k)``, or a function ``f(query, k)``. Methods and functions must return hits, best
        first. ``questions`` is a question file (by default the workspace's question file). ``primary`` is the
        measure that is tested (such as ``strict_hit@5``). ``measures`` are additional measures in the report.
        ``baseline`` is the predictor, or the list of predictors, with which all others are compared (by
        default the first predictor). The value ``"all-pairs"`` compares every pair of predictors.
        ``sample_size`` is the number of questions to draw at random (by default, all questions are used).
        ``seed`` is the random seed of the sample and of the statistical tests. With ``filters``, such as
        ``"file_path=guide/*"``, only matching documents are searched. ``settings`` contains settings that
        have no parameter of their own, such as ``"benchmark.delta"``.

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
        from branchrank.bench.benchmark import BenchmarkOptions
        from branchrank.bench.plan import plan_from_names
        from branchrank.report.writing import run_and_report

        given = {
            "benchmark.primary": primary,
            "benchmark.measures": ",".join(arguments.texts("measures", measures, "nDCG@10")),
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
        plan = plan_from_names(
            predictors,
            data_dir=self.data_dir,
            settings=folder.settings,
            questions=None if questions is None else arguments.path("questions", questions),
            reports=arguments.path("reports", reports),
            experiment=experiment,
            split=split,
            filters=arguments.texts("filters", filters, "file_path=guide/*"),
        )
        return Run(run_and_report(plan, BenchmarkOptions(fresh=fresh, notify=folder.notify), progress))

    def check(self) -> CheckedIndex:
        """Compare each file of the index with the digest that the build recorded for the file.

        Opening an index is faster than this check, because opening compares only files with a new size, inode
        or timestamp. Raises :class:`~branchrank.errors.ArtifactError` with the name of the first damaged
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
        :class:`~branchrank.errors.QuestionError` if the file has no answerable question.
        """
        from branchrank.index.calibration import calibrate, nearest_distances
        from branchrank.questions.question_files import GIVE_QUESTIONS, load_questions

        path = self._folder.questions_path
        if questions is not None:
            path = arguments.path("questions", questions)
        asked = [
            question.question
            for question in load_questions(path, remedy=GIVE_QUESTIONS)
            if question.answerable
        ]
        if not asked:
            raise QuestionError(
                f"{path} has no answerable question", remedy="choose another file with --questions"
            )
        distances = nearest_distances(self.index.vectors, self.index.embedder.embed_query, asked)
        return calibrate(distances, self.settings.part(GrepSettings).vector_score_threshold)


def _corpus(corpus: AnyPath) -> str | Path:
    """Return a string unchanged, and convert any other path-like object to a :class:`Path`."""
    return corpus if isinstance(corpus, str) else arguments.path("corpus", corpus)


def _to_keep(settings: Mapping[str, object], notify: Notify | None) -> dict[str, object]:
    """Remove credentials from URLs in ``branchrank.toml`` settings, and notify the user of each removal."""
    from branchrank.io.printable import is_url, means_url, url_to_keep

    kept = {
        key: url_to_keep(value) if isinstance(value, str) and (is_url(value) or means_url(key)) else value
        for key, value in settings.items()
    }
    for key, value in settings.items():
        if kept[key] != value and notify is not None:
            notify(
                f"the credentials in {key} are not written to branchrank.toml; pass them to later commands "
                f"with the same flag or in BRANCHRANK_{key.replace('.', '_').upper()}"
            )
    return kept
