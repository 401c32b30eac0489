"""Runs and judgments as PyTerrier data frames, built with pandas alone.

========  =====================================================
topics    ``qid``, ``query``
results   ``qid``, ``query``, ``docno``, ``rank``, ``score``
qrels     ``qid``, ``docno``, ``label``
========  =====================================================

Ids are text. Ranks start at 0, as in PyTerrier, and scores strictly decrease. Only the columns ``qid``,
``docno`` and ``score`` of a results frame are read. The documents in a results frame are ranked by score, and
ties are ordered as in trec_eval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from branchrank.corpus import ir_collections
from branchrank.errors import RunError, UsageError, suggestion
from branchrank.io.files import write_jsonl, write_text
from branchrank.questions.qrels import Qrels
from branchrank.records import Scored
from branchrank.runs.trec_files import DocumentIds, TrecRun, run_lists, run_qrels

if TYPE_CHECKING:
    import pandas as pd

    from branchrank.runs.run import RunData

TOPICS = ("qid", "query")
RESULTS = ("qid", "query", "docno", "rank", "score")
QRELS = ("qid", "docno", "label")


def topics_frame(run: RunData) -> pd.DataFrame:
    """Return a frame with one row for each of the run's questions that have gold."""
    rows = [(each.id, each.question) for each in run.asked if each.gold]
    return _frame(TOPICS, rows)


def results_frame(run: RunData, predictor: str, ids: DocumentIds = "document") -> pd.DataFrame:
    """Return a predictor's results (of the first repeat), with a row for each document.

    Raises :class:`UsageError` for an unknown predictor.
    """
    if predictor not in run.predictors:
        near = suggestion(predictor, run.predictors)
        raise UsageError(
            f"the run has no predictor {predictor!r}",
            remedy=near or f"choose one of {', '.join(run.predictors)}",
        )
    words = {each.id: each.question for each in run.asked}
    rows = [
        (question, words[question], document, rank, score)
        for question, ranked in run_lists(run, predictor, ids).items()
        for rank, (document, score) in enumerate(ranked)
    ]
    return _frame(RESULTS, rows)


def qrels_frame(run: RunData, ids: DocumentIds = "document") -> pd.DataFrame:
    """Return a run's judgments, with one row per judged document.

    If ``ids`` is ``gold``, the judged documents are the gold items and their pages. A page is judged only if
    one of its gold items has lines or a quote.
    """
    rows = [
        (query, document, label)
        for query, judged in run_qrels(run, ids).items()
        for document, label in judged.items()
    ]
    return _frame(QRELS, rows)


def read_results(frame: pd.DataFrame, name: str = "results") -> TrecRun:
    """Return the scored documents for each query in a results frame.

    Raises :class:`RunError` if a column is missing, if a score is not a number, or if a document occurs twice
    for a query.
    """
    found: dict[str, dict[str, float]] = {}
    for row, (qid, docno, score) in enumerate(_columns(frame, name, ("qid", "docno", "score"))):
        value = _number(score, f"{name}, row {row}")
        ranked = found.setdefault(str(qid), {})
        if str(docno) in ranked:
            raise RunError(f"{name}, row {row}: {str(docno)!r} occurs twice for the query {str(qid)!r}")
        ranked[str(docno)] = value
    return {query: [Scored(*pair) for pair in scores.items()] for query, scores in found.items()}


def read_qrels_frame(frame: pd.DataFrame, name: str = "qrels") -> Qrels:
    """Return the judged documents for each query in a qrels frame.

    Raises :class:`RunError` if a column is missing, if there are no rows, if a label is not a whole number,
    or if a document is judged twice for a query.
    """
    found: Qrels = {}
    for row, (qid, docno, label) in enumerate(_columns(frame, name, QRELS)):
        value = _number(label, f"{name}, row {row}")
        if value != int(value):
            raise RunError(f"{name}, row {row}: the label {label!r} is not a whole number")
        judged = found.setdefault(str(qid), {})
        if str(docno) in judged:
            raise RunError(f"{name}, row {row}: {str(docno)!r} is judged twice for the query {str(qid)!r}")
        judged[str(docno)] = int(value)
    if not found:
        raise RunError(f"{name} has no judgments", remedy="pass a frame with at least one row")
    return found


def write_beir(folder: Path, documents: pd.DataFrame, topics: pd.DataFrame, qrels: pd.DataFrame) -> Path:
    """Write frames as a BEIR folder with the split ``test``, and return the folder.

    Raises :class:`RunError` if a frame is invalid, and :class:`UsageError` if ``folder`` already exists.
    """
    if folder.exists():
        raise UsageError(f"{folder} exists already", remedy="choose a new folder")
    titled = ("docno", "title", "text") if "title" in documents.columns else ("docno", "text")
    entries = [
        {"_id": str(row[0]), "title": str(row[1]) if len(row) > 2 else "", "text": str(row[-1])}
        for row in _columns(documents, "documents", titled)
    ]
    asked = [{"_id": str(qid), "text": str(query)} for qid, query in _columns(topics, "topics", TOPICS)]
    judged = [
        f"{query}\t{document}\t{label}\n"
        for query, labels in read_qrels_frame(qrels).items()
        for document, label in labels.items()
    ]
    write_text(folder / ir_collections.QRELS / "test.tsv", "".join(["query-id\tcorpus-id\tscore\n", *judged]))
    write_jsonl(folder / ir_collections.QUERIES, asked)
    write_jsonl(folder / ir_collections.CORPUS, entries)
    return folder


def _columns(frame: pd.DataFrame, name: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        held = [str(column) for column in frame.columns]
        near = suggestion(missing[0], held)
        raise RunError(
            f"{name} has no column {missing[0]!r}: it has {', '.join(held) or 'none'}",
            remedy=near or f"pass a frame with the columns {', '.join(columns)}",
        )
    return list(frame[list(columns)].itertuples(index=False, name=None))


def _number(value: Any, place: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise RunError(f"{place}: {value!r} is not a finite number")
    return number


def _frame(columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(list(rows), columns=list(columns))
