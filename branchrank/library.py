"""The functions of the library that are not methods of a workspace or a run.

With these functions, you plan and run benchmarks (from the names of predictors, an experiment file or an
interrupted run), list and verify runs, compute power analyses, score TREC files, import BEIR folders and
fetch corpora.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from branchrank.bench import (
    Named,
    Plan,
    PlanEstimate,
    Seal,
    estimate_plan,
    plan_from_experiment,
    plan_from_names,
    plan_from_run,
    seal_plan,
)
from branchrank.exchange import (
    ALPHA,
    BEIR_MEASURES,
    COMPARED_MEASURES,
    DELTA,
    ResultsTable,
    beir_from_frames,
    compare_frames,
    compare_trec,
    comparison_table,
    import_beir,
    latex,
    qrels_frame,
    results_frame,
    run_beir,
    run_table,
    topics_frame,
    write_latex,
)
from branchrank.files.grep import Ranking
from branchrank.files.read_file import FileRefused
from branchrank.measures.agreement import Agreement
from branchrank.progress import Notify, Progress, no_notice, no_progress
from branchrank.questions.generation import GenerationEstimate
from branchrank.questions.labels import Choice as LabelChoice
from branchrank.questions.writing import read_lines
from branchrank.run import Run
from branchrank.runs.run import RunData
from branchrank.systems.query import FILTER_KEYS, read_filters
from branchrank.systems.search_tools import Found, Listener, SearchStatus, SearchTools, ToolAnswer
from branchrank.workspace_questions import Spent

if TYPE_CHECKING:
    from branchrank.bench.tuning import Tuning
    from branchrank.corpus.named import CorpusPlace
    from branchrank.records import LLMCall
    from branchrank.report.datasets import DatasetReport
    from branchrank.report.power_analysis import PowerAnalysis
    from branchrank.report.verify import Verification
    from branchrank.runs.listing import ListedRun
    from branchrank.runs.run_comparison import RunGate
    from branchrank.runs.trec_files import TrecScores
    from branchrank.starter_files import StarterFiles

__all__ = [
    "ALPHA",
    "BEIR_MEASURES",
    "COMPARED_MEASURES",
    "DELTA",
    "FILTER_KEYS",
    "TUNING_BUDGET",
    "TUNING_FOLDS",
    "Agreement",
    "FileRefused",
    "Found",
    "GenerationEstimate",
    "LabelChoice",
    "Listener",
    "Named",
    "Plan",
    "PlanEstimate",
    "Ranking",
    "ResultsTable",
    "Seal",
    "SearchStatus",
    "SearchTools",
    "Spent",
    "ToolAnswer",
    "add_corpus",
    "agreement",
    "beir_from_frames",
    "compare_datasets",
    "compare_frames",
    "compare_trec",
    "comparison_table",
    "demo",
    "estimate_plan",
    "import_beir",
    "init",
    "latex",
    "list_corpora",
    "list_runs",
    "plan_from_experiment",
    "plan_from_names",
    "plan_from_run",
    "power",
    "qrels_frame",
    "read_filters",
    "read_lines",
    "results_frame",
    "run_beir",
    "run_benchmark",
    "run_table",
    "score_trec",
    "seal_plan",
    "spent_line",
    "topics_frame",
    "tune",
    "verify",
    "write_gate",
    "write_latex",
    "write_tuned",
]

#: Default measures of :func:`score_trec`, by their names in ir-measures.
TREC_MEASURES = ("Success@1", "Success@5", "RR", "nDCG@10", "R@100", "AP")
#: Defaults of :func:`tune`.
TUNING_FOLDS = 5
TUNING_BUDGET = 16
#: Default numbers of questions of :func:`power`.
POWER_QUESTIONS = (20, 50, 100, 200, 400)


def run_benchmark(
    plan: Plan,
    *,
    fresh: bool = False,
    resume: str | Path | None = None,
    seal: str | Path | None = None,
    notify: Notify = no_notice,
    progress: bool | Progress = False,
) -> Run:
    """Run a plan, write its directory and its report, and return the finished run.

    An interrupted run of the same plan is resumed, unless ``fresh`` is true. If :func:`plan_from_run`
    returned the plan, ``resume`` is the directory of that run. If ``seal`` is a file that :func:`seal_plan`
    wrote, the plan must be equal to the sealed plan. ``notify`` is called with messages for the user. If
    ``progress`` is true, progress bars are shown. Raises one error that lists every problem of the plan
    before any work starts. If all queries of a predictor fail, no error is raised, and ``run.failed`` names
    the predictor.
    """
    from branchrank.report.writing import run_and_report

    made = run_and_report(
        plan,
        fresh=fresh,
        resume=None if resume is None else Path(resume),
        seal=None if seal is None else Path(seal),
        notify=notify,
        progress=progress,
    )
    return Run.of(made)


def tune(
    experiment: str | Path,
    questions: str | Path,
    *,
    folds: int = TUNING_FOLDS,
    budget: int = TUNING_BUDGET,
    flags: Mapping[str, object] | None = None,
    notify: Notify = no_notice,
    progress: bool | Progress = False,
) -> Tuning:
    """Choose the weights, ``k1`` and ``b`` of every system of an experiment file by cross-validation.

    ``questions`` is a question file, preferably with mined questions. Its questions are divided by source
    document into ``folds`` parts. For each system, ``budget`` combinations of values are tried. The
    experiment file is not changed (:func:`write_tuned` adds the tuned systems).

    Raises :class:`~branchrank.errors.UsageError` for systems that can't be tuned (systems of a sweep and
    systems with an LLM), and :class:`~branchrank.errors.QuestionError` when the questions have fewer sources
    than folds.

    >>> from pathlib import Path
    >>> _ = Path("e.toml").write_text('name = "e"\\n[systems.local]')
    >>> tuning = tune("e.toml", "data/benchmark/questions.jsonl", folds=2, budget=2)
    >>> [each.points for each in tuning.systems]
    [2]
    """
    from branchrank.bench.tuning import tune as tune_experiment
    from branchrank.progress_bars import shown_progress

    with shown_progress(progress) as shown:
        return tune_experiment(
            Path(experiment),
            Path(questions),
            folds=folds,
            budget=budget,
            flags=flags,
            notify=notify,
            progress=shown,
        )


def write_tuned(experiment: str | Path, tuning: Tuning) -> None:
    """Add the tuned systems to the experiment file, and remove the systems of an earlier tuning.

    A tuned system has the name of the original system with the suffix ``-tuned``, and its origin in
    ``run.json`` is ``tuned``. Raises :class:`~branchrank.errors.StorageError` if the file can't be written.
    """
    from branchrank.bench.tuning import write_tuned as write

    write(Path(experiment), tuning)


def spent_line(calls: Iterable[LLMCall]) -> str:
    """Return a line of text with the numbers of LLM calls, of cached or replayed calls, and of tokens."""
    from branchrank.systems.llm_opening import LLMMeter

    meter = LLMMeter()
    for call in calls:
        meter.add(call)
    return meter.text


def list_runs(reports: str | Path = "reports") -> list[ListedRun]:
    """List the runs in the folder ``reports``, oldest first.

    A run that can't be read is listed with its error.

    >>> list_runs("no/such/folder")
    []
    """
    from branchrank.runs import listing

    return listing.list_runs(Path(reports))


def verify(
    directory: str | Path,
    *,
    rerun: int = 0,
    corpus: str | Path | None = None,
    seal: str | Path | None = None,
    named: Named | None = None,
    notify: Notify = no_notice,
    progress: bool | Progress = False,
) -> Verification:
    """Recompute every number in a run's reports, and report wrong numbers and contradictions.

    ``rerun`` is the number of questions, drawn with the run's seed, that the systems answer again with the
    workspace's index. Answers of an LLM are taken from the run's cassette. ``named`` contains the classes,
    endpoints and models that may be used, the cassette (in ``settings`` as ``llm.replay``), and the workspace
    if it is not ``data``. A system is not run again if it needs something that is not in ``named``.
    ``corpus`` is the current folder of the corpus. ``seal`` is the file to which the run's plan was sealed,
    or a copy of it.

    Raises :class:`~branchrank.errors.RunError` if the directory does not contain a run, or if the workspace's
    index or questions differ from the run's.
    """
    from branchrank.corpus.named import locate_corpus
    from branchrank.progress_bars import shown_progress
    from branchrank.report.verify import verify_run

    with shown_progress(progress) as shown:
        return verify_run(
            Path(directory),
            rerun=rerun,
            corpus=None if corpus is None else locate_corpus(corpus),
            seal=None if seal is None else Path(seal),
            named=named or Named(),
            notify=notify,
            progress=shown,
        )


def compare_datasets(
    runs: Mapping[str, str | Path | RunData] | Sequence[str | Path | RunData],
    *,
    measure: str = "",
    baseline: str = "",
    delta: float | None = None,
) -> DatasetReport:
    """Compare the systems of runs over different datasets by their macro average and one stratified test.

    ``runs`` is a list of runs or run directories, or a mapping from dataset names to runs or run directories.
    ``measure``, ``baseline`` and ``delta`` default to the values of the first run. Printing the result shows
    a table. Its attribute ``frame`` is a DataFrame, ``comparison`` contains the numbers, and the methods
    ``text`` and ``write`` produce Markdown or CSV.

    Raises :class:`~branchrank.errors.UsageError` when the runs have no system in common, or when they declare
    different measures and ``measure`` is not given. Raises :class:`~branchrank.errors.RunError` for a run
    that can't be read, and for two runs with the same questions.
    """
    from branchrank.report.datasets import dataset_report

    def loaded(run: str | Path | RunData) -> RunData:
        return run if isinstance(run, RunData) else Run.load(run)

    if isinstance(runs, Mapping):
        given: Mapping[str, RunData] | Sequence[RunData] = {name: loaded(run) for name, run in runs.items()}
    else:
        given = [loaded(run) for run in runs]
    return dataset_report(given, measure=measure, baseline=baseline, delta=delta)


def power(
    questions: Sequence[int] = POWER_QUESTIONS,
    *,
    rate: float | None = None,
    disagreement: float | None = None,
    difference: float | None = None,
    candidates: int | None = None,
    alpha: float = 0.05,
    sources: int | None = None,
    icc: float | None = None,
    run: str | Path | None = None,
    measure: str = "",
) -> PowerAnalysis:
    """Return which differences benchmarks with the given numbers of questions can detect (power analysis).

    ``rate`` is the hit rate that you expect (default 0.7), ``disagreement`` the share of questions on which
    exactly one of two predictors has a hit (default 0.2), ``difference`` the difference in hit rate that you
    want to confirm, and ``candidates`` the number of predictors compared with the baseline (default 1).
    ``sources`` is the number of pages with gold (by default one page per question), and ``icc`` the
    intraclass correlation, from 0 to 1, between questions on the same page (default 0.1). If ``run`` is a
    finished run, the defaults of all arguments except ``difference`` are computed from its results for
    ``measure``, which is by default its primary measure. Printing the result shows a table.

    Raises :class:`~branchrank.errors.UsageError` for contradictory assumptions, and
    :class:`~branchrank.errors.RunError` for a run that can't be read.

    >>> [plan.unanimous for plan in power([100]).plans]
    [6]
    >>> power([154], sources=29).plans[0].detectable > power([154]).plans[0].detectable
    True
    """
    from branchrank.report.power_analysis import power_analysis
    from branchrank.runs.pilot import pilot
    from branchrank.runs.run import load_run

    return power_analysis(
        questions,
        rate=rate,
        disagreement=disagreement,
        difference=difference,
        candidates=candidates,
        alpha=alpha,
        sources=sources,
        icc=icc,
        pilot=None if run is None else pilot(load_run(Path(run)), measure),
    )


def score_trec(
    runs: Iterable[str | Path], qrels: str | Path, measures: Iterable[str] = TREC_MEASURES
) -> list[TrecScores]:
    """Score TREC run files of any system with qrels. Scores are averaged over all judged queries.

    Raises :class:`~branchrank.errors.RunError` for a file that can't be read, and
    :class:`~branchrank.errors.UsageError` for an unknown measure.
    """
    from branchrank.runs import trec_files

    return trec_files.score_trec([Path(path) for path in runs], Path(qrels), measures)


def write_gate(
    decided: RunGate, *, junit: str | Path | None = None, summary: str | Path | None = None
) -> None:
    """Write the decisions of :meth:`Run.gate` as JUnit XML for continuous integration, and as Markdown.

    In the JUnit file, a predictor whose result is undecided is an ``error``, and one that is worse is a
    ``failure``. Raises :class:`~branchrank.errors.StorageError` if a file can't be written.
    """
    from branchrank.artifacts import write_text
    from branchrank.report import gate_files

    if junit is not None:
        write_text(Path(junit), gate_files.junit(decided))
    if summary is not None:
        write_text(Path(summary), gate_files.summary(decided))


def add_corpus(name: str, *, progress: Progress = no_progress) -> Path:
    """Download the corpus with the given name, check its digest, and return the folder with its documents.

    The name ``ir:ID`` fetches a dataset of the package ir-datasets as a BEIR folder. Downloaded code is not
    executed. Raises :class:`~branchrank.errors.CorpusError` if the name is unknown or the download fails.
    """
    from branchrank.corpus import named

    return named.add_corpus(name, progress=progress)


def demo(
    folder: str | Path = "branchrank-demo",
    *,
    fresh: bool = False,
    notify: Notify = no_notice,
    progress: bool | Progress = False,
) -> Run:
    """Copy the bundled sample into ``folder``, index it, compare systems on it, and return the run.

    The run's directory is below ``folder/reports``. A second call resumes an interrupted demo or returns the
    finished run, unless ``fresh`` is true. Existing files are not overwritten.

    Raises :class:`~branchrank.errors.UsageError` for a folder that is neither empty nor a demo.
    """
    from branchrank.demo import run_demo

    return run_demo(Path(folder), fresh=fresh, notify=notify, progress=progress)


def init(corpus: str | Path | None = None, data_dir: str | Path = "data") -> StarterFiles:
    """Write the starter files of a benchmark of your own documents into the working directory.

    The files are ``branchrank.toml`` in ``data_dir``, ``questions.jsonl`` with three example questions, and
    ``experiment.toml``. ``corpus`` is the folder of the documents (by default ``docs`` or ``doc``) or the
    name of a corpus. Existing files are not overwritten.

    Raises :class:`~branchrank.errors.CorpusError` if no documents are found, and
    :class:`~branchrank.errors.UsageError` if ``data_dir`` is the workspace of other documents.

    >>> [path.name for path in init("docs", "data/first").written]
    ['branchrank.toml', 'questions.jsonl', 'experiment.toml']
    """
    from branchrank.starter_files import write_starter_files

    return write_starter_files(corpus, Path(data_dir))


def agreement(
    first: str | Path, second: str | Path, annotators: Sequence[str] = ()
) -> tuple[Agreement, Agreement]:
    """Return Cohen's kappa of two annotators on the passages that both of them labelled.

    ``first`` and ``second`` are question files that ``branchrank questions label`` wrote (they may be the
    same file). If a file has the labels of several annotators, ``annotators`` selects one annotator for each
    file. The first result is the agreement on the labels yes, partly and no. For the second result, partly
    and no are counted as the same label.

    Raises :class:`~branchrank.errors.QuestionError` if no passage was labelled by both annotators.
    """
    from branchrank.questions.agreement import agreement_of

    return agreement_of(Path(first), Path(second), annotators)


def list_corpora() -> list[CorpusPlace]:
    """List the corpora that can be fetched by name, with the folders of the fetched corpora."""
    from branchrank.corpus.named import corpus_places

    return corpus_places()
