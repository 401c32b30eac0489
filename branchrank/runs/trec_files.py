"""Export a run as TREC runs and qrels, and score run files from other programs.

1. If a run is exported with ``ids="gold"``, the document id of a hit is the id of the gold that the hit
   matches (:mod:`branchrank.measures.trec`). In the qrels, the grade of a gold item is its ``relevance`` (2
   by default), and the grade of a page with gold is 1.
2. If a run is exported with ``ids="document"``, the document id of a hit is its source. Only the first hit of
   each document counts. In the qrels, the grade of a gold document is its ``relevance`` in the question file,
   which is 1 by default.
3. The scores in an exported run are n, n-1, ..., 1.
4. A failed query has no lines in the run. A failed query scores 0, since the qrels include every question
   with gold. Questions without gold are not in the qrels and not in the means.
5. An id is written unchanged, so that it matches qrels from other programs. If an id contains whitespace or
   control characters, these characters and ``%`` are percent-encoded.
6. A run that is read from a file is sorted by score, with ties ordered as in trec_eval. The rank column of
   the file is ignored.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from branchrank.corpus.ir_collections import entry_id
from branchrank.errors import RunError
from branchrank.io.files import write_text
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
    """Write ``qrels.txt`` and one file per predictor into ``output``, and return the paths.

    A predictor with repeats has one file per repeat.

    Raises :class:`~branchrank.errors.StorageError` if a file can't be written.
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
    """Return a predictor's results (first repeat) by question id, for the questions with gold."""
    asked = run.scores.questions
    rows = (row for row in run.scores.rows(predictor) if not row.repeat and asked[row.question_id].gold)
    return {row.question_id: _ranked(row, asked[row.question_id], ids) for row in rows}


def run_qrels(run: RunData, ids: DocumentIds) -> Qrels:
    """Return a run's judgments by question id, for the questions with gold."""
    return {question.id: _qrels(question, ids) for question in run.asked if question.gold}


def _ranked(row: Row, question: Question, ids: DocumentIds) -> list[Scored]:
    """Return a row's document ids, best first, with the scores n, n-1, ..., 1."""
    if ids == "gold":
        return question_run(hits_of(row), judged_row(row, question), question)
    sources = list(dict.fromkeys(_document(resolve_source(hit.source, question)) for hit in row.hits))
    return [Scored(source, float(len(sources) - place)) for place, source in enumerate(sources)]


def _run_lines(row: Row, question: Question, tag: str, ids: DocumentIds) -> Iterator[str]:
    for rank, (document, value) in enumerate(_ranked(row, question, ids), start=1):
        yield f"{_token(question.id)} Q0 {document} {rank} {value:g} {_token(tag)}\n"


def _document(source: str) -> str:
    """Return the document id of a source (for an entry in a BEIR dataset, the entry's own id)."""
    return _token(entry_id(source) or source)


def _token(text: str) -> str:
    """Return the text, percent-encoded if it contains characters that would end a column."""
    if not _COLUMN_END.search(text):
        return text or "-"
    return re.sub(rf"{_COLUMN_END.pattern}|%", lambda found: quote(found[0]), text)


def read_trec(path: Path) -> TrecRun:
    """Read the scored documents for each query from a TREC run file.

    Raises :class:`RunError` with the line number if a line is invalid or repeats a document.
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

    ``by_query`` contains the value of each measure for each query. ``unmatched`` lists the queries in the
    qrels for which the run file contains none of the judged documents. A frequent cause of unmatched queries
    is that the run and the qrels spell ids differently.
    """

    path: Path
    by_query: dict[str, dict[str, float]]
    unmatched: tuple[str, ...]

    @property
    def means(self) -> dict[str, float]:
        """A dict from each measure to its mean over all judged queries."""
        return {measure: mean(values) for measure, values in self.by_query.items()}


def score_trec(paths: Iterable[Path], qrels: Path, measures: Iterable[str]) -> list[TrecScores]:
    """Score TREC run files on every query of the qrels. A query that is missing from a file scores 0.

    Raises :class:`RunError` if a file can't be read, and :class:`~branchrank.errors.UsageError` for an
    unknown measure.
    """
    parsed = [parse_measure(name) for name in measures]
    judged = read_qrels(qrels)
    return [_scored(path, read_trec(path), judged, parsed) for path in paths]


def run_scores(run: TrecRun, qrels: Qrels, measures: Iterable[Measure]) -> dict[str, dict[str, float]]:
    """Return each measure's value for each judged query. A query that the run lacks has the value 0."""
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
