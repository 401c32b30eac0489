"""What the commands do besides a workspace's and a run's own methods.

Plan and run benchmarks (from names, an experiment file or an interrupted run), list and verify runs, plan a
number of questions, score TREC files, import BEIR folders, fetch corpora.
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
from branchrank.runs.run import RunData
from branchrank.systems.query import FILTER_KEYS, read_filters
from branchrank.systems.search_tools import Found, Listener, SearchStatus, SearchTools, ToolAnswer
from branchrank.workspace import Run
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

#: The measures of :func:`score_trec`, as ir-measures names them.
TREC_MEASURES = ("Success@1", "Success@5", "RR", "nDCG@10", "R@100", "AP")
#: Defaults of :func:`tune`.
TUNING_FOLDS = 5
TUNING_BUDGET = 16
#: The numbers of questions of :func:`power`.
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

    An interrupted run of the same plan is resumed unless the run is to be ``fresh``; ``resume`` is the
    directory of the very run that the plan was read from (:func:`plan_from_run`). ``seal`` is a file that
    :func:`seal_plan` wrote; a plan other than the sealed one is refused. ``notify`` gets lines for a person,
    ``progress`` shows bars. Raises one error with every problem of the plan before any work. A predictor
    whose queries all failed is not an error: ``run.failed`` names it.
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

    ``questions`` is a question file, best one of mined questions; their sources make the ``folds``. Each
    system gets ``budget`` combinations of values. Nothing is written: see :func:`write_tuned`.

    Raises :class:`~branchrank.errors.UsageError` for systems that can't be tuned (of a sweep, or with an
    LLM), and :class:`~branchrank.errors.QuestionError` for questions about fewer sources than folds.

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
    """Add the tuned systems to the experiment file, in place of those of an earlier tuning.

    Each gets the name of the system it is made from with ``-tuned``, and the origin ``tuned`` in
    ``run.json``.
    Raises :class:`~branchrank.errors.StorageError`.
    """
    from branchrank.bench.tuning import write_tuned as write

    write(Path(experiment), tuning)


def spent_line(calls: Iterable[LLMCall]) -> str:
    """The number of LLM calls, of those that a cache or a cassette answered, and the tokens, in one line."""
    from branchrank.systems.llm_opening import LLMMeter

    meter = LLMMeter()
    for call in calls:
        meter.add(call)
    return meter.text


def list_runs(reports: str | Path = "reports") -> list[ListedRun]:
    """The runs in a folder of reports, oldest first; one that can't be read says why.

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
    """Compute every printed number of a run again; name each that differs, and all that contradicts itself.

    With ``rerun`` so many questions, drawn by the run's seed, are asked again: of the systems over the
    workspace, with the answers of an LLM from the run's cassette. ``named`` holds what leads out of the
    workspace: classes, endpoints, models, the cassette (``settings={"llm.replay": FILE}``), or a workspace
    other than ``data``. What it does not name is not asked again. ``corpus`` is where the corpus is now,
    ``seal`` a copy of the file that sealed the run's plan.

    Raises :class:`~branchrank.errors.RunError` when the directory holds no run, or when the workspace's index
    or questions are not those of the run.
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
    """Compare the systems of runs over different datasets: the macro average and one stratified test.

    ``runs`` are runs or their directories, by the name of the dataset or in a list. ``measure``, ``baseline``
    and ``delta`` default to those of the first run. The result prints as a table, has a DataFrame ``frame``,
    the figures in ``comparison``, and ``text`` and ``write`` for Markdown and CSV.

    Raises :class:`~branchrank.errors.UsageError` where the runs have no system in common, or declare
    different measures and none is named, and :class:`~branchrank.errors.RunError` for a run that can't be
    read or asks the questions of another.
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
    """What a benchmark of so many questions can detect, before any query is run.

    ``rate`` is the hit rate that you expect (0.7), ``disagreement`` the share of questions that two
    predictors answer differently (0.2), ``difference`` the difference in hit rate that you want to confirm,
    ``candidates`` how many predictors are compared with the baseline (1). ``sources`` says on how many pages
    the gold of the questions is (one each), and ``icc`` how alike the differences of one page are, 0 to 1
    (0.1). A finished ``run`` gives all of these but ``difference``, on its primary measure or on
    ``measure``; what you name yourself wins. Printing the result shows a table.

    Raises :class:`~branchrank.errors.UsageError` for assumptions that contradict each other, and
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
    """Score TREC run files from anywhere with qrels, averaged over all judged queries.

    Raises :class:`~branchrank.errors.RunError` for a file that can't be read, and
    :class:`~branchrank.errors.UsageError` for an unknown measure.
    """
    from branchrank.runs import trec_files

    return trec_files.score_trec([Path(path) for path in runs], Path(qrels), measures)


def write_gate(
    decided: RunGate, *, junit: str | Path | None = None, summary: str | Path | None = None
) -> None:
    """Write what :meth:`Run.gate` decided for continuous integration: JUnit XML, and Markdown for people.

    In the JUnit file a predictor that is undecided is an ``error``, and one that fails a ``failure``. Raises
    :class:`~branchrank.errors.StorageError`.
    """
    from branchrank.artifacts import write_text
    from branchrank.report import gate_files

    if junit is not None:
        write_text(Path(junit), gate_files.junit(decided))
    if summary is not None:
        write_text(Path(summary), gate_files.summary(decided))


def add_corpus(name: str, *, progress: Progress = no_progress) -> Path:
    """Fetch a corpus by name, check it, and return the folder that holds its documents.

    ``ir:ID`` is a dataset of the package ir-datasets, as a BEIR folder. Nothing fetched is
    executed. Raises :class:`~branchrank.errors.CorpusError`.
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
    """Copy the bundled sample into ``folder``, index it, compare the systems without an LLM, return the run.

    The run's directory is below ``folder/reports``. A second call finishes what was interrupted, or returns
    the finished run; ``fresh`` measures again. Files that exist stay as they are.

    Raises :class:`~branchrank.errors.UsageError` for a folder that holds something else.
    """
    from branchrank.demo import run_demo

    return run_demo(Path(folder), fresh=fresh, notify=notify, progress=progress)


def init(corpus: str | Path | None = None, data_dir: str | Path = "data") -> StarterFiles:
    """Write what a benchmark of one's own documents starts from, into the working directory.

    That is ``branchrank.toml`` in ``data_dir``, ``questions.jsonl`` with three example questions, and
    ``experiment.toml``. ``corpus`` is the folder of the documents, or a corpus's name (default: ``docs`` or
    ``doc``). Files that exist are kept.

    Raises :class:`~branchrank.errors.CorpusError` without documents, and
    :class:`~branchrank.errors.UsageError` where ``data_dir`` is the workspace of other documents.

    >>> [path.name for path in init("docs", "data/first").written]
    ['branchrank.toml', 'questions.jsonl', 'experiment.toml']
    """
    from branchrank.starter_files import write_starter_files

    return write_starter_files(corpus, Path(data_dir))


def agreement(
    first: str | Path, second: str | Path, annotators: Sequence[str] = ()
) -> tuple[Agreement, Agreement]:
    """How far two annotators agree on the passages that both have labelled: Cohen's kappa.

    ``first`` and ``second`` are question files that ``branchrank questions label`` wrote (perhaps one);
    ``annotators`` names one of each, where a file has the labels of several. Returned are the agreement over
    yes, partly and no, and that over what decides gold: yes, or not.

    Raises :class:`~branchrank.errors.QuestionError` without labels in common.
    """
    from branchrank.questions.agreement import agreement_of

    return agreement_of(Path(first), Path(second), annotators)


def list_corpora() -> list[CorpusPlace]:
    """The corpora that can be fetched by name, and where those that were fetched are."""
    from branchrank.corpus.named import corpus_places

    return corpus_places()
