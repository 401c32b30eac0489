"""TREC runs and qrels: exporting a run of BranchRank, and scoring run files of other programs.

1. Exported by gold, a document id is the gold that a hit was credited with (:mod:`branchrank.measures.trec`),
   and the qrels grade strict gold 2 and its pages 1. Exported by document, the id is the hit's source, only
   the first hit of a document counts, and the qrels grade gold documents 1, or with their relevance. Scores
   are n, n-1, ..., 1.
2. A query that failed has no lines in the run; as every question with gold is in the qrels, it counts as 0.
   Questions without gold are in neither the qrels nor any mean.
3. An id is written unchanged, so that it matches qrels of other programs. Only in an id with characters that
   end a column (white space, control characters) are these, and any ``%``, percent-encoded.
4. A run read from a file is ordered by score, never by its rank column, ties as in trec_eval.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from branchrank.artifacts import write_text
from branchrank.corpus.beir import entry_id
from branchrank.errors import RunError
from branchrank.measures.matching import resolve_source
from branchrank.measures.measures import Measure, mean, parse_measure, score
from branchrank.measures.trec import question_qrels, question_run, run_ranking
from branchrank.questions.qrels import Qrels, columns_of, number_of, read_qrels
from branchrank.records import Question, Record, Scored
from branchrank.runs.judging import hits_of, judged_row
from branchrank.runs.rows import Row

if TYPE_CHECKING:
    from branchrank.runs.run import RunData

DocumentIds = Literal["gold", "document"]
TrecRun = dict[str, list[Scored]]

QRELS = "qrels.txt"

_COLUMN_END = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")


def export_trec(run: RunData, output: Path, ids: DocumentIds = "gold") -> list[Path]:
    """Write ``qrels.txt`` and a file per predictor (and repeat) into ``output``; returns what was written.

    Raises :class:`~branchrank.errors.StorageError`.
    """
    asked = run.scores.questions
    runs: defaultdict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in run.rows:
        runs[row.predictor, row.repeat].append(row)
    repeated = {predictor for predictor, repeat in runs if repeat}
    qrels = "".join(
        f"{_token(question.id)} 0 {document} {relevance}\n"
        for question in run.asked
        for document, relevance in _qrels(question, ids).items()
    )
    written = [output / QRELS]
    write_text(written[0], qrels)
    names: Counter[str] = Counter()
    for (predictor, repeat), ours in runs.items():
        tag = f"{predictor}-{repeat + 1}" if predictor in repeated else predictor
        name = re.sub(r"[^A-Za-z0-9._=-]+", "-", tag).strip("-.") or "run"
        names[name] += 1
        path = output / (f"{name}.run" if names[name] == 1 else f"{name}-{names[name]}.run")
        lines = (line for row in ours for line in _run_lines(row, asked[row.question_id], tag, ids))
        write_text(path, "".join(lines))
        written.append(path)
    return written


def _qrels(question: Question, ids: DocumentIds) -> dict[str, int]:
    if ids == "gold":
        return question_qrels(question)
    return {_document(item.source_file): item.relevance or 1 for item in question.gold}


def run_lists(run: RunData, predictor: str, ids: DocumentIds) -> TrecRun:
    """Return a predictor's results (first repeat) by the ids of the questions that have gold."""
    asked = run.scores.questions
    rows = (row for row in run.scores.rows(predictor) if not row.repeat and asked[row.question_id].gold)
    return {row.question_id: _ranked(row, asked[row.question_id], ids) for row in rows}


def run_qrels(run: RunData, ids: DocumentIds) -> Qrels:
    """Return the judgements of a run, by the ids of the questions that have gold."""
    return {question.id: _qrels(question, ids) for question in run.asked if question.gold}


def _ranked(row: Row, question: Question, ids: DocumentIds) -> list[Scored]:
    """Documents, best first, with the scores n, n-1, ..., 1."""
    if ids == "gold":
        return question_run(hits_of(row), judged_row(row, question), question)
    sources = list(dict.fromkeys(_document(resolve_source(hit.source, question)) for hit in row.hits))
    return [Scored(source, float(len(sources) - place)) for place, source in enumerate(sources)]


def _run_lines(row: Row, question: Question, tag: str, ids: DocumentIds) -> Iterator[str]:
    for rank, (document, value) in enumerate(_ranked(row, question, ids), start=1):
        yield f"{_token(question.id)} Q0 {document} {rank} {value:g} {_token(tag)}\n"


def _document(source: str) -> str:
    """Return a source as a document id; for a BEIR entry this is the entry's own id."""
    return _token(entry_id(source) or source)


def _token(text: str) -> str:
    """Return the text unchanged, or percent-encoded if it holds characters that would end a column."""
    if not _COLUMN_END.search(text):
        return text or "-"
    return re.sub(rf"{_COLUMN_END.pattern}|%", lambda found: quote(found[0]), text)


def read_trec(path: Path) -> TrecRun:
    """Read a TREC run by query.

    Raises :class:`RunError` naming a line that is wrong or repeats a document.
    """
    found: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for number, columns in columns_of(path, 6, "`query Q0 document rank score tag`"):
        query, _, document, _, text, _ = columns
        value = number_of(text, f"{path}:{number}")
        if document in found[query]:
            raise RunError(f"{path}:{number}: the document {document!r} occurs twice for the query {query!r}")
        found[query][document] = value
    return {query: [Scored(*pair) for pair in scores.items()] for query, scores in found.items()}


class TrecScores(Record, frozen=True, kw_only=True):
    """A TREC run file scored with qrels.

    ``by_query`` maps measure -> query -> value; ``unmatched`` are the judged queries for which the file has
    no judged document; perhaps run and qrels spell ids differently.
    """

    path: Path
    by_query: dict[str, dict[str, float]]
    unmatched: tuple[str, ...]

    @property
    def means(self) -> dict[str, float]:
        """Measure -> the mean over all judged queries."""
        return {measure: mean(values) for measure, values in self.by_query.items()}


def score_trec(paths: Iterable[Path], qrels: Path, measures: Iterable[str]) -> list[TrecScores]:
    """Score TREC run files. Every query of the qrels counts; a query that a file lacks scores 0.

    Raises :class:`RunError` for a file that can't be read, :class:`~branchrank.errors.UsageError` for an
    unknown measure.
    """
    parsed = [parse_measure(name) for name in measures]
    judged = read_qrels(qrels)
    return [_scored(path, read_trec(path), judged, parsed) for path in paths]


def run_scores(run: TrecRun, qrels: Qrels, measures: Iterable[Measure]) -> dict[str, dict[str, float]]:
    """Map measure -> judged query -> value; a query that the run lacks scores 0."""
    rankings = {query: run_ranking(run[query], judged) for query, judged in qrels.items() if query in run}
    return {str(measure): score(measure, rankings, qrels) for measure in measures}


def _scored(path: Path, run: TrecRun, qrels: Qrels, measures: Iterable[Measure]) -> TrecScores:
    return TrecScores(
        path=path,
        by_query=run_scores(run, qrels, measures),
        unmatched=tuple(
            query
            for query, judged in qrels.items()
            if all(document not in judged for document, _ in run.get(query, ()))
        ),
    )
