"""Exchange runs with other IR tools: TREC files, PyTerrier data frames and comparisons of TREC runs.

1. If a run is exported with ``ids="gold"``, the document id of a hit is the id of the gold that the hit
   matches (:mod:`branchrank.scoring.matching`). In the qrels, the grade of a gold item is its ``relevance``
   (2 by default), and the grade of a page with gold is 1.
2. If a run is exported with ``ids="document"``, the document id of a hit is its source. Only the first hit of
   each document counts. In the qrels, the grade of a gold document is its ``relevance`` in the question file,
   which is 1 by default.
3. The scores in an exported run are n, n-1, ..., 1.
4. A failed query has no lines in the run. A failed query scores 0, since the qrels include every question
   with gold. Questions without gold are not in the qrels and not in the means.
5. An id is written unchanged, so that it matches qrels from other programs. If an id contains whitespace or
   control characters, also percent-encoded ones, these characters and ``%`` are percent-encoded. Different
   ids therefore stay different.
6. A run that is read from a file is sorted by score, with ties ordered as in trec_eval. The rank column of
   the file is ignored.
7. Runs from any program are compared with the same statistics as BranchRank's own runs. Each query is its own
   cluster. It is an error if a run lacks a judged query, because the run file may be truncated. With
   ``missing_is_zero``, a judged query that is missing from a run scores 0, as in ``trec_eval -c``.

PyTerrier data frames are built with pandas alone:

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

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote, unquote

import msgspec

from branchrank.core.errors import RunError, UsageError
from branchrank.core.io.files import write_jsonl, write_text
from branchrank.core.records import Question, Record
from branchrank.documents import ir_collections
from branchrank.questions.qrels import Qrels, by_query, columns_of, is_tsv, judgments, read_qrels
from branchrank.runs.comparisons import ALL_PAIRS, baselines_of, pairs_of
from branchrank.runs.results_table import ResultsTable, results_table
from branchrank.runs.rows import Row
from branchrank.runs.run_data import RunData
from branchrank.runs.words import judged_words
from branchrank.scoring.comparison import DEFAULTS, CompareOptions
from branchrank.scoring.matching import (
    Judged,
    falling,
    judged_wrong,
    question_qrels,
    question_run,
    resolve_source,
    run_ranking,
)
from branchrank.scoring.measures import (
    BEIR_MEASURES,
    TREC_MEASURES,
    Measure,
    judged_measure,
    mean,
    parse_measure,
    score,
)

if TYPE_CHECKING:
    import pandas as pd

DocumentIds = Literal["gold", "document"]
#: Maps each query id to the scores of its documents.
TrecRun = dict[str, dict[str, float]]

QRELS_FILE = "qrels.txt"

_COLUMN_END = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")


def export_trec(run: RunData, output: Path, ids: DocumentIds = "gold") -> list[Path]:
    """Write ``qrels.txt`` and one file per predictor into ``output``, and return the paths.

    A predictor with repeats has one file per repeat.

    Raises :class:`~branchrank.core.errors.StorageError` if a file can't be written.
    """
    asked = run.scores.questions
    runs: defaultdict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in run.rows:
        runs[row.predictor, row.repeat].append(row)
    repeated = {predictor for predictor, repeat in runs if repeat}
    qrels = "".join(
        f"{trec_token(question.id)} 0 {document} {relevance}\n"
        for question in run.asked
        for document, relevance in _qrels(question, ids).items()
    )
    written = [output / QRELS_FILE]
    write_text(written[0], qrels)
    taken: set[str] = set()
    for (predictor, repeat), ours in runs.items():
        tag = f"{predictor}-{repeat + 1}" if predictor in repeated else predictor
        name = re.sub(r"[^A-Za-z0-9._=-]+", "-", tag).strip("-.") or "run"
        numbered = (f"{name}-{number}" for number in count(2))
        name = next(each for each in chain([name], numbered) if each not in taken)
        taken.add(name)
        path = output / f"{name}.run"
        lines = (
            f"{trec_token(row.question_id)} Q0 {document} {rank} {value:g} {trec_token(tag)}\n"
            for row in ours
            for rank, (document, value) in enumerate(
                _ranked(row, asked[row.question_id], ids).items(), start=1
            )
        )
        write_text(path, "".join(lines))
        written.append(path)
    return written


def _qrels(question: Question, ids: DocumentIds) -> dict[str, int]:
    if ids == "gold":
        return question_qrels(question)
    graded = sorted((item.relevance or 1, document_id(item.source_file)) for item in question.gold)
    wrong = {document_id(source): 0 for source in sorted(judged_wrong(question))}
    return {**wrong, **{document: relevance for relevance, document in graded}}


def _ranked(row: Row, question: Question, ids: DocumentIds) -> dict[str, float]:
    """Map a row's document ids, best first, to the scores n, n-1, ..., 1."""
    if ids == "gold":
        return question_run(Judged(hits=row.hits, question=question))
    return falling(dict.fromkeys(document_id(resolve_source(hit.source, question)) for hit in row.hits))


def document_id(source: str) -> str:
    """Return the document id of a source (for an entry in a BEIR dataset, the entry's own id)."""
    return trec_token(ir_collections.entry_id(source) or source)


def trec_token(text: str) -> str:
    """Return the text, percent-encoded if it contains characters that would end a column, or looks as if."""
    plain = text
    while not _COLUMN_END.search(plain):
        if plain == (plain := unquote(plain)):
            return text or "-"
    return re.sub(rf"{_COLUMN_END.pattern}|%", lambda found: quote(found[0]), text)


def read_trec(path: Path) -> TrecRun:
    """Read the scored documents for each query from a TREC run file, or from MS MARCO's ``.tsv`` format.

    The score of a document in MS MARCO's format is its negative rank. Raises :class:`InputError` with the
    line number if a line is invalid or repeats a document.
    """
    counts = {6: "`query Q0 document rank score tag`"}
    if is_tsv(path):
        counts = {3: "`query document rank`", **counts}
    ranked: list[tuple[str, str, str, str]] = []
    for place, columns in columns_of(path, counts):
        if len(columns) == 3:
            query, document, rank = columns
            if not (rank.isdecimal() and rank.strip("0")):
                raise RunError(f"{place}: {rank!r} is not a rank", remedy="write ranks, which start at 1")
            ranked.append((place, query, document, f"-{rank}"))
        else:
            ranked.append((place, columns[0], columns[2], columns[4]))
    return by_query(ranked)


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
        return {measure: mean(values.values()) for measure, values in self.by_query.items()}


def score_trec(
    runs: Iterable[str | Path], qrels: str | Path, measures: Iterable[str] = TREC_MEASURES
) -> list[TrecScores]:
    """Score TREC run files against qrels. Scores are averaged over all judged queries.

    A query that is missing from a file scores 0. Raises :class:`~branchrank.core.errors.InputError` for a
    file that can't be read, and :class:`~branchrank.core.errors.UsageError` for an unknown measure.
    """
    parsed = [parse_measure(name) for name in measures]
    judged = read_qrels(Path(qrels))
    return [
        TrecScores(
            path=path,
            by_query=run_scores(run, judged, parsed),
            unmatched=tuple(
                query for query, of in judged.items() if not of.keys() & run.get(query, {}).keys()
            ),
        )
        for path in map(Path, runs)
        for run in [read_trec(path)]
    ]


def run_scores(run: TrecRun, qrels: Qrels, measures: Iterable[Measure]) -> dict[str, dict[str, float]]:
    """Return each measure's value for each judged query. A query that the run lacks has the value 0."""
    rankings = {query: run_ranking(run[query], judged) for query, judged in qrels.items() if query in run}
    return {str(measure): score(measure, rankings, qrels) for measure in measures}


def compare_rankings(
    qrels: Qrels, runs: Mapping[str, TrecRun], options: CompareOptions, title: str = ""
) -> ResultsTable:
    """Score runs with qrels, and compare each run with the baseline, or with each other (``all_pairs``).

    Raises :class:`RunError` if a run lacks a judged query. Raises :class:`UsageError` if there are fewer than
    two runs, if a measure or the baseline is unknown, or if the values of a measure can be outside 0..1.
    """
    measures = [parse_measure(name) for name in options.measures or BEIR_MEASURES]
    if len(runs) < 2:
        raise UsageError(
            "there is only one run, so there is nothing to compare", remedy="branchrank score-trec QRELS RUN"
        )
    for name, run in runs.items():
        missing = [query for query in qrels if query not in run]
        if missing and not options.missing_is_zero:
            raise RunError(
                f"{name} has no line for {len(missing)} of {len(qrels)} judged queries "
                f"(the first: {missing[0]!r})",
                remedy="--missing-is-zero if the system found no documents, or complete the run",
            )
    names = list(runs)
    baselines = baselines_of(ALL_PAIRS if options.all_pairs else options.baseline, names)
    counted = f"{len(qrels)} judged quer{'y' if len(qrels) == 1 else 'ies'}"
    table = results_table(
        f"{title}, {counted}" if title else counted,
        {name: run_scores(run, qrels, measures) for name, run in runs.items()},
        {query: query for query in qrels},
        pairs_of(baselines, names),
        options,
    )
    judged = judged_measure(measures[0])
    shares = {}
    for name, run in runs.items():
        answered = {query: qrels[query] for query in qrels if query in run}
        shares[name] = mean(run_scores(run, answered, [judged])[str(judged)].values())
    return msgspec.structs.replace(table, judged=judged_words(str(judged), shares))


def compare_trec(
    qrels: str | Path, runs: Iterable[str | Path], options: CompareOptions = DEFAULTS
) -> ResultsTable:
    """Compare TREC run files with the file ``options.baseline``, or with each other (``all_pairs``).

    The default baseline is the first file, and the default measures are those of BEIR. The significance tests
    are the same as in a BranchRank run, except that all queries are treated as independent. Holm's correction
    covers all comparisons on the same measure. Documents with equal scores are ordered as in trec_eval. If
    ``missing_is_zero`` is true, a judged query that is missing from a run scores 0. Printing the result shows
    the table and the comparisons.

    Raises :class:`~branchrank.core.errors.InputError` for an unreadable file or a missing judged query, and
    :class:`~branchrank.core.errors.UsageError` for an unknown measure or baseline.

    >>> from pathlib import Path
    >>> _ = Path("qrels.txt").write_text("q1 0 d1 1\\nq2 0 d2 1\\n")
    >>> _ = Path("a.run").write_text("q1 Q0 d1 1 2 a\\nq2 Q0 d1 1 2 a\\n")
    >>> _ = Path("b.run").write_text("q1 Q0 d1 1 2 b\\nq2 Q0 d2 1 2 b\\n")
    >>> table = compare_trec("qrels.txt", ["a.run", "b.run"], CompareOptions(measures=("RR",)))
    >>> [(each.name, each.means["RR"].value) for each in table.systems]
    [('a', 0.5), ('b', 1.0)]
    >>> table.comparisons[0].verdict
    'too few questions to tell'
    """
    names = run_names([Path(path) for path in runs])
    by_path = {str(path): name for path, name in names.items()}
    baseline = by_path.get(str(options.baseline), str(options.baseline))
    return compare_rankings(
        read_qrels(Path(qrels)),
        {name: read_trec(path) for path, name in names.items()},
        msgspec.structs.replace(options, baseline=baseline),
        Path(qrels).name,
    )


def compare_frames(
    qrels: pd.DataFrame, runs: Mapping[str, pd.DataFrame], options: CompareOptions = DEFAULTS
) -> ResultsTable:
    """Compare runs in PyTerrier data frames, with the same options as :func:`compare_trec`.

    ``qrels`` has the columns qid, docno and label. ``runs`` maps the name of each run to a frame with the
    columns qid, docno and score. Raises :class:`~branchrank.core.errors.RunError` for a missing column, a
    value that is not a number, or a missing judged query.

    >>> import pandas as pd
    >>> from branchrank import library
    >>> qrels = pd.DataFrame({"qid": ["q1", "q2"], "docno": ["d1", "d2"], "label": [1, 1]})
    >>> first = pd.DataFrame({"qid": ["q1", "q2"], "docno": ["d1", "d1"], "score": [2.0, 1.0]})
    >>> second = pd.DataFrame({"qid": ["q1", "q2"], "docno": ["d1", "d2"], "score": [2.0, 1.0]})
    >>> options = library.CompareOptions(measures=("RR",))
    >>> table = library.compare_frames(qrels, {"a": first, "b": second}, options)
    >>> [each.means["RR"].value for each in table.systems]
    [0.5, 1.0]
    """
    return compare_rankings(
        read_qrels_frame(qrels),
        {name: read_results(frame, name) for name, frame in runs.items()},
        options,
    )


def run_names(paths: Sequence[Path]) -> dict[Path, str]:
    """Map each run file to its name in a table.

    The name is the file name without its suffix (and ``.gz``), or the path if two runs have the same file
    name.
    """
    paths = list(dict.fromkeys(paths))
    stems = [Path(path.name.removesuffix(".gz")).stem for path in paths]
    return {
        path: stem if stems.count(stem) == 1 else str(path) for path, stem in zip(paths, stems, strict=True)
    }


TOPICS = ("qid", "query")
RESULTS = ("qid", "query", "docno", "rank", "score")
QRELS = ("qid", "docno", "label")


def topics_frame(run: RunData) -> pd.DataFrame:
    """Return the PyTerrier topics of a run: a frame (qid, query) of the questions that have gold."""
    import pandas as pd

    return pd.DataFrame([(each.id, each.question) for each in run.asked if each.gold], columns=list(TOPICS))


def results_frame(run: RunData, predictor: str, ids: DocumentIds = "document") -> pd.DataFrame:
    """Return a predictor's hits as PyTerrier results (columns qid, query, docno, rank and score).

    ``ids`` selects the kind of document ids, as in :meth:`Run.export_trec`. Ranks start at 0, and the scores
    of n hits are n, n-1, ..., 1. If a predictor answered each question several times, the first answer to
    each question is returned. Raises :class:`~branchrank.core.errors.UsageError` for an unknown predictor.

    >>> from branchrank import Run, library
    >>> run = Run.load(library.list_runs("reports")[0].directory)
    >>> list(library.results_frame(run, "local").columns)
    ['qid', 'query', 'docno', 'rank', 'score']
    """
    import pandas as pd

    run.check_predictor(predictor)
    asked = run.scores.questions
    rows = [
        (row.question_id, asked[row.question_id].question, document, rank, score)
        for row in run.scores.rows(predictor)
        if not row.repeat and asked[row.question_id].gold
        for rank, (document, score) in enumerate(_ranked(row, asked[row.question_id], ids).items())
    ]
    return pd.DataFrame(rows, columns=list(RESULTS))


def qrels_frame(run: RunData, ids: DocumentIds = "document") -> pd.DataFrame:
    """Return a run's judgments as PyTerrier qrels (columns qid, docno and label).

    If ``ids`` is ``gold``, the judged documents are the gold items and their pages. A page is judged only if
    one of its gold items has lines or a quote.
    """
    import pandas as pd

    rows = [
        (question.id, document, label)
        for question in run.asked
        if question.gold
        for document, label in _qrels(question, ids).items()
    ]
    return pd.DataFrame(rows, columns=list(QRELS))


def read_results(frame: pd.DataFrame, name: str = "results") -> TrecRun:
    """Return the scored documents for each query in a results frame.

    Raises :class:`RunError` if a column is missing, if a score is not a number, or if a document occurs
    twice for a query.
    """
    return by_query(_lines(frame, name, ("qid", "docno", "score")))


def read_qrels_frame(frame: pd.DataFrame, name: str = "qrels") -> Qrels:
    """Return the judged documents for each query in a qrels frame.

    Raises :class:`RunError` if a column is missing, if there are no rows, if a label is not a whole number,
    or if a document is judged twice for a query.
    """
    return judgments(_lines(frame, name, QRELS), name)


def beir_from_frames(
    folder: str | Path, documents: pd.DataFrame, topics: pd.DataFrame, qrels: pd.DataFrame
) -> Path:
    """Write PyTerrier data frames as a BEIR folder, and return the folder's path.

    ``documents`` has the columns docno and text, and optionally title. ``topics`` has the columns qid and
    query. ``qrels`` has the columns qid, docno and label, and becomes the ``test`` split. Missing text is
    empty, and an id must be text or a whole number. Raises
    :class:`~branchrank.core.errors.RunError` for a missing column or a label that is not a whole number, and
    :class:`~branchrank.core.errors.UsageError` for a folder that already exists.

    >>> import pandas as pd
    >>> from branchrank import library
    >>> documents = pd.DataFrame({"docno": ["d1", "d2"], "text": ["green tea", "coffee"]})
    >>> topics = pd.DataFrame({"qid": ["q1"], "query": ["tea"]})
    >>> qrels = pd.DataFrame({"qid": ["q1"], "docno": ["d1"], "label": [1]})
    >>> library.beir_from_frames("beir/teas", documents, topics, qrels).name
    'teas'
    """
    folder = Path(folder)
    if folder.exists():
        raise UsageError(f"{folder} exists already", remedy="choose a new folder")
    titled = ("docno", "title", "text") if "title" in documents.columns else ("docno", "text")
    entries = [
        {"_id": _id(row[0], place), "title": _text(row[1]) if len(row) > 2 else "", "text": _text(row[-1])}
        for place, row in _columns(documents, "documents", titled)
    ]
    asked = [
        {"_id": _id(qid, place), "text": _text(query)}
        for place, (qid, query) in _columns(topics, "topics", TOPICS)
    ]
    judged = [
        f"{query}\t{document}\t{label}\n"
        for query, labels in read_qrels_frame(qrels).items()
        for document, label in labels.items()
    ]
    write_text(folder / ir_collections.QRELS / "test.tsv", "".join(["query-id\tcorpus-id\tscore\n", *judged]))
    write_jsonl(folder / ir_collections.QUERIES, asked)
    write_jsonl(folder / ir_collections.CORPUS, entries)
    return folder


def _columns(frame: pd.DataFrame, name: str, columns: Sequence[str]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the place of each row, for messages, and its values in these columns."""
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        raise RunError(
            f"{name} has no column {missing[0]!r}: it has {', '.join(map(str, frame.columns)) or 'none'}",
            remedy=f"pass a frame with the columns {', '.join(columns)}",
        )
    for row, values in enumerate(frame[list(columns)].itertuples(index=False, name=None)):
        yield f"{name}, row {row}", values


def _lines(frame: pd.DataFrame, name: str, columns: Sequence[str]) -> Iterator[tuple[str, str, str, Any]]:
    for place, (query, document, value) in _columns(frame, name, columns):
        yield place, _id(query, place), _id(document, place), value


def _whole(value: Any) -> str:
    """Return a whole number without a decimal point, or "" for any other value."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    return str(int(value)) if is_number and value % 1 == 0 else ""


def _id(value: Any, place: str) -> str:
    found = value if isinstance(value, str) else _whole(value)
    if not found.strip():
        raise RunError(f"{place}: {value!r} is not an id", remedy="give text or a whole number as each id")
    return found


def _text(value: Any) -> str:
    import pandas as pd

    return "" if pd.isna(value) else _whole(value) or str(value)
