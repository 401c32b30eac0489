"""Exchange data with other IR tools (BEIR folders, TREC runs, PyTerrier frames, LaTeX tables)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from branchrank.io.progress import Notify, Progress, no_notice
from branchrank.measures.power import ALPHA
from branchrank.measures.verdicts import DELTA
from branchrank.run import Run
from branchrank.runs.results_table import ResultsTable, comparison_table, run_table
from branchrank.workspace_beir import BEIR_MEASURES

if TYPE_CHECKING:
    import pandas as pd

    from branchrank.questions.qrels import BeirQuestions
    from branchrank.runs.trec_files import DocumentIds

__all__ = [
    "ALPHA",
    "BEIR_MEASURES",
    "COMPARED_MEASURES",
    "DELTA",
    "ResultsTable",
    "beir_from_frames",
    "compare_frames",
    "compare_trec",
    "comparison_table",
    "import_beir",
    "latex",
    "qrels_frame",
    "results_frame",
    "run_beir",
    "run_table",
    "topics_frame",
    "write_latex",
]

#: The measures that :func:`compare_trec` computes by default, named as in ir-measures.
COMPARED_MEASURES = BEIR_MEASURES
#: Default random seed for the significance tests. Benchmarks have the same default.
SEED = 42


def import_beir(
    folder: str | Path, output: str | Path, *, split: str = "test", remove_query: bool = False
) -> BeirQuestions:
    """Convert the queries and relevance judgments in a BEIR folder to a question file.

    If ``remove_query`` is true, the document with the query's id is removed from each query's hits. Raises
    :class:`~branchrank.errors.QuestionError` for a folder without queries or judgments, and
    :class:`~branchrank.errors.InputError` for a file that can't be read.
    """
    from branchrank.corpus.named import locate_corpus
    from branchrank.questions.qrels import beir_questions
    from branchrank.questions.question_files import write_questions

    made = beir_questions(locate_corpus(folder), split, remove_query=remove_query)
    write_questions(Path(output), made.questions)
    return made


def run_beir(
    folder: str | Path,
    predictors: Sequence[str] = ("bm25",),
    measures: Sequence[str] = BEIR_MEASURES,
    *,
    split: str = "test",
    data_dir: str | Path | None = None,
    remove_query: bool = False,
    reports: str | Path = "reports",
    settings: Mapping[str, object] | None = None,
    fresh: bool = False,
    command: str = "",
    notify: Notify = no_notice,
    progress: bool | Progress = False,
) -> Run:
    """Index a BEIR folder, run predictors on the queries in a split, and write the report.

    ``folder`` may also be ``ir:ID``, where ``ID`` is the id of a dataset that ir-datasets has already
    downloaded.

    Each predictor ranks up to 1,000 whole documents. ``measures`` contains the names of measures in the
    ir-measures package. The measures are computed on the graded judgments, and the first measure is the
    primary measure. ``data_dir`` is the workspace (by default ``data/`` followed by the dataset folder's
    name). By default, a new workspace has no embedder, and it analyzes text in the same way as published BM25
    results. ``settings`` (such as ``"index.embedder"``) override the defaults. An existing index is reused,
    and an interrupted run is resumed. ``run_table(run)`` returns the table of results with the significance
    tests between the predictors.

    If a name, a measure or a file is invalid, :class:`~branchrank.errors.UsageError` or
    :class:`~branchrank.errors.InputError` is raised before any work starts.

    >>> from branchrank import library
    >>> run = library.run_beir("beir/small")
    >>> table = library.run_table(run)
    >>> table.measures, [each.name for each in table.systems]
    (('nDCG@10', 'R@100', 'AP'), ['bm25'])
    """
    from branchrank.bench import BenchmarkOptions
    from branchrank.report.writing import run_and_report
    from branchrank.workspace_beir import beir_plan

    plan = beir_plan(
        Path(folder),
        split=split,
        predictors=predictors,
        measures=measures,
        data_dir=None if data_dir is None else Path(data_dir),
        remove_query=remove_query,
        settings=settings,
        notify=notify,
        progress=progress,
        reports=Path(reports),
        command=command,
    )
    return Run.of(run_and_report(plan, BenchmarkOptions(fresh=fresh, notify=notify), progress))


def compare_trec(
    qrels: str | Path,
    runs: Iterable[str | Path],
    measures: Iterable[str] = COMPARED_MEASURES,
    *,
    baseline: str | Path = "",
    all_pairs: bool = False,
    missing_is_zero: bool = False,
    delta: float = DELTA,
    alpha: float = ALPHA,
    seed: int = SEED,
) -> ResultsTable:
    """Compare TREC run files with the file ``baseline`` or, if ``all_pairs`` is true, with each other.

    The default baseline is the first file. The significance tests are the same as in a BranchRank run, except
    that all queries are treated as independent. Holm's correction covers all comparisons on the same measure.
    Documents with equal scores are ordered as in trec_eval. If ``missing_is_zero`` is true, a judged query
    that is missing from a run scores 0. Printing the result shows the table and the comparisons.

    Raises :class:`~branchrank.errors.RunError` for an unreadable file or a missing judged query, and
    :class:`~branchrank.errors.UsageError` for an unknown measure or baseline.

    >>> from pathlib import Path
    >>> _ = Path("qrels.txt").write_text("q1 0 d1 1\\nq2 0 d2 1\\n")
    >>> _ = Path("a.run").write_text("q1 Q0 d1 1 2 a\\nq2 Q0 d1 1 2 a\\n")
    >>> _ = Path("b.run").write_text("q1 Q0 d1 1 2 b\\nq2 Q0 d2 1 2 b\\n")
    >>> table = compare_trec("qrels.txt", ["a.run", "b.run"], ["RR"])
    >>> [(each.name, each.means["RR"].value) for each in table.systems]
    [('a', 0.5), ('b', 1.0)]
    >>> table.comparisons[0].verdict
    'too few questions to tell'
    """
    from branchrank.questions.qrels import read_qrels
    from branchrank.runs.trec_comparison import compare_rankings, run_names
    from branchrank.runs.trec_files import read_trec

    names = run_names([Path(path) for path in runs])
    by_path = {str(path): name for path, name in names.items()}
    return compare_rankings(
        read_qrels(Path(qrels)),
        {name: read_trec(path) for path, name in names.items()},
        measures,
        title=Path(qrels).name,
        baseline=by_path.get(str(baseline), str(baseline)),
        all_pairs=all_pairs,
        missing_is_zero=missing_is_zero,
        delta=delta,
        alpha=alpha,
        seed=seed,
    )


def compare_frames(
    qrels: pd.DataFrame,
    runs: Mapping[str, pd.DataFrame],
    measures: Iterable[str] = COMPARED_MEASURES,
    *,
    baseline: str = "",
    all_pairs: bool = False,
    missing_is_zero: bool = False,
    delta: float = DELTA,
    alpha: float = ALPHA,
    seed: int = SEED,
) -> ResultsTable:
    """Compare runs in PyTerrier data frames, with the same options as :func:`compare_trec`.

    ``qrels`` has the columns qid, docno and label. ``runs`` maps the name of each run to a frame with the
    columns qid, docno and score. Raises :class:`~branchrank.errors.RunError` for a missing column, a value
    that is not a number, or a missing judged query.

    >>> import pandas as pd
    >>> from branchrank import library
    >>> qrels = pd.DataFrame({"qid": ["q1", "q2"], "docno": ["d1", "d2"], "label": [1, 1]})
    >>> first = pd.DataFrame({"qid": ["q1", "q2"], "docno": ["d1", "d1"], "score": [2.0, 1.0]})
    >>> second = pd.DataFrame({"qid": ["q1", "q2"], "docno": ["d1", "d2"], "score": [2.0, 1.0]})
    >>> table = library.compare_frames(qrels, {"a": first, "b": second}, ["RR"])
    >>> [each.means["RR"].value for each in table.systems]
    [0.5, 1.0]
    """
    from branchrank.runs.pyterrier_frames import read_qrels_frame, read_results
    from branchrank.runs.trec_comparison import compare_rankings

    return compare_rankings(
        read_qrels_frame(qrels),
        {name: read_results(frame, name) for name, frame in runs.items()},
        measures,
        baseline=baseline,
        all_pairs=all_pairs,
        missing_is_zero=missing_is_zero,
        delta=delta,
        alpha=alpha,
        seed=seed,
    )


def topics_frame(run: Run) -> pd.DataFrame:
    """Return the PyTerrier topics of a run: the questions that have gold.

    The topics are a frame with the columns ``qid`` and ``query``.
    """
    from branchrank.runs import pyterrier_frames

    return pyterrier_frames.topics_frame(run)


def results_frame(run: Run, predictor: str, ids: DocumentIds = "document") -> pd.DataFrame:
    """Return a predictor's hits as PyTerrier results (columns qid, query, docno, rank and score).

    ``ids`` selects the kind of document ids, as in :meth:`Run.export_trec`. Ranks start at 0, and the scores
    of n hits are n, n-1, ..., 1. If a predictor answered each question several times, the first answer to
    each question is returned. Raises :class:`~branchrank.errors.UsageError` for an unknown predictor.

    >>> from branchrank import Run, library
    >>> run = Run.load(library.list_runs("reports")[0].directory)
    >>> list(library.results_frame(run, "local").columns)
    ['qid', 'query', 'docno', 'rank', 'score']
    """
    from branchrank.runs import pyterrier_frames

    return pyterrier_frames.results_frame(run, predictor, ids)


def qrels_frame(run: Run, ids: DocumentIds = "document") -> pd.DataFrame:
    """Return a run's judgments as PyTerrier qrels (a frame with the columns qid, docno and label)."""
    from branchrank.runs import pyterrier_frames

    return pyterrier_frames.qrels_frame(run, ids)


def beir_from_frames(
    folder: str | Path, documents: pd.DataFrame, topics: pd.DataFrame, qrels: pd.DataFrame
) -> Path:
    """Write PyTerrier data frames as a BEIR folder for :func:`run_beir`, and return the folder's path.

    ``documents`` has the columns docno and text, and optionally title. ``topics`` has the columns qid and
    query. ``qrels`` has the columns qid, docno and label, and becomes the ``test`` split. Raises
    :class:`~branchrank.errors.RunError` for a missing column or a label that is not a whole number, and
    :class:`~branchrank.errors.UsageError` for a folder that already exists.

    >>> import pandas as pd
    >>> from branchrank import library
    >>> documents = pd.DataFrame({"docno": ["d1", "d2"], "text": ["green tea", "coffee"]})
    >>> topics = pd.DataFrame({"qid": ["q1"], "query": ["tea"]})
    >>> qrels = pd.DataFrame({"qid": ["q1"], "docno": ["d1"], "label": [1]})
    >>> library.beir_from_frames("beir/teas", documents, topics, qrels).name
    'teas'
    """
    from branchrank.runs.pyterrier_frames import write_beir

    return write_beir(Path(folder), documents, topics, qrels)


def latex(table: ResultsTable) -> str:
    """Return the table of results as LaTeX, for ``\\\\input`` in a paper that loads the booktabs package.

    The highest mean of each column is bold. Symbols mark the results of significance tests, and the caption
    explains the symbols.
    """
    from branchrank.io.table import latex_table

    return latex_table(table.table, "tab:results")


def write_latex(path: str | Path, table: ResultsTable) -> None:
    """Write a table of results as LaTeX to a file.

    Raises :class:`~branchrank.errors.StorageError` if the file can't be written.
    """
    from branchrank.io.files import write_text

    write_text(Path(path), latex(table))
