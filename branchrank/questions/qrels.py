"""Relevance judgments (qrels) in TREC files and BEIR folders.

The queries in a BEIR folder become questions, with the relevant documents as gold.

1. Each query in ``qrels/<split>.tsv`` becomes a question. Each document with a relevance above 0 becomes a
   gold item for the whole file.
2. A relevant document that is missing from the corpus is also a gold item, because nDCG's ideal DCG includes
   the document. The key ``absent_gold`` of a question lists the missing documents.
3. Queries without a relevant document are ignored and reported.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from branchrank.core.errors import InputError, QuestionError, RunError
from branchrank.core.io.files import reading_errors
from branchrank.core.io.text_files import text_lines
from branchrank.core.records import GoldItem, Question, Span
from branchrank.documents.ir_collections import (
    QRELS,
    QUERIES,
    Identified,
    collection_file,
    entry_source,
    read_entries,
    read_lines,
)
from branchrank.questions.question_files import ABSENT_GOLD
from branchrank.scoring.matching import JUDGED_WRONG

#: Maps each query id to a map from document ids to relevance.
Qrels = dict[str, dict[str, int]]


_ORDER = "The qrels come first: branchrank score-trec QRELS RUN, compare-trec QRELS RUN RUN"
#: The headings of the last column in the qrels of BEIR and other collections.
_HEADINGS = frozenset({"score", "relevance", "rel", "label", "grade", "judgment", "judgement", "qrel"})
#: Maps the expected and the actual number of columns to the fix that the error suggests.
_OTHER_KIND = {
    (4, 6): f"give a qrels file; this file looks like a run file. {_ORDER}",
    (6, 4): f"give a run file; this file looks like a qrels file. {_ORDER}",
}


def read_qrels(path: Path) -> Qrels:
    """Read qrels in TREC's format. A file with the suffix ``.tsv`` can also have BEIR's three columns.

    A first line that ends with a known heading, such as ``score``, is a header. Raises :class:`InputError`
    with the line number if a line is invalid, or if a query has two judgments for the same document.
    """
    counts = {4: "`query 0 document relevance`"}
    if is_tsv(path):
        counts = {3: "`query document relevance`", **counts}
    lines = (
        (place, columns[0], columns[-2], columns[-1])
        for place, columns in columns_of(path, counts)
        if not (place == f"{path}:1" and columns[-1].casefold() in _HEADINGS)
    )
    return judgments(lines, path)


def is_tsv(path: Path) -> bool:
    """Return whether a file, which may be compressed, has the suffix ``.tsv``."""
    return path.name.removesuffix(".gz").endswith(".tsv")


def judgments(lines: Iterable[tuple[str, Any, Any, Any]], name: object) -> Qrels:
    """Return the judged documents for each query. ``name`` is the name of the qrels in messages."""
    found = by_query(lines, whole=True)
    if not found:
        raise RunError(f"{name} has no judgments", remedy="give qrels with at least one judgment")
    return {query: {key: int(label) for key, label in judged.items()} for query, judged in found.items()}


def by_query(
    lines: Iterable[tuple[str, Any, Any, Any]], *, whole: bool = False
) -> dict[str, dict[str, float]]:
    """Map each query to its documents and their numbers, from lines (place, query, document, number).

    Raises :class:`RunError`, with the place in its message, if a document occurs twice for a query, or if
    a number is not finite or, if ``whole`` is true, not a whole number.
    """
    found: dict[str, dict[str, float]] = {}
    for place, query, document, number in lines:
        documents = found.setdefault(str(query), {})
        if str(document) in documents:
            raise RunError(
                f"{place}: the document {str(document)!r} occurs twice for the query {str(query)!r}"
            )
        try:
            value = float(number)
        except (TypeError, ValueError, OverflowError):
            value = math.nan
        if not math.isfinite(value) or (whole and not value.is_integer()):
            raise RunError(f"{place}: {number!r} is not a {'whole' if whole else 'finite'} number")
        documents[str(document)] = value
    return found


def columns_of(path: Path, counts: Mapping[int, str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the place (path and line number) and the columns of each line in a TREC or TSV file.

    ``counts`` maps each number of columns that the file may have to their names. Raises :class:`InputError`
    if the file can't be read, or if a line has another number of columns or fewer or more than the first.
    """
    with reading_errors(path, remedy="check the path"):
        for number, line in text_lines(path):
            if not line.strip():
                continue
            columns = line.split("\t") if is_tsv(path) and "\t" in line else line.split()
            if len(columns) not in counts:
                raise InputError(
                    f"{path}:{number}: the line has {len(columns)} columns, but must be "
                    f"{' or '.join(counts.values())}",
                    remedy=_OTHER_KIND.get((max(counts), len(columns)), ""),
                )
            counts = {len(columns): counts[len(columns)]}
            yield f"{path}:{number}", [column.strip() for column in columns]


class BeirQuestions(NamedTuple):
    """Questions in the order of the queries, and notes on problems found in the folder."""

    questions: list[Question]
    notes: list[str]


class _Query(Identified, frozen=True, kw_only=True):
    text: str


def beir_questions(folder: Path, split: str, *, remove_query: bool = False) -> BeirQuestions:
    """Read the questions for one split in a BEIR folder.

    If ``remove_query`` is true, a query's hits exclude the document that has the query's id. Use
    ``remove_query`` for collections whose queries are documents in the corpus. Raises :class:`QuestionError`
    or :class:`~branchrank.core.errors.InputError` if a file is missing or invalid.
    """
    path = collection_file(folder / QRELS, f"{split}.tsv")
    if not path.is_file():
        found = {each.name.partition(".tsv")[0] for each in (folder / QRELS).glob("*.tsv*") if is_tsv(each)}
        splits = ", ".join(sorted(found)) or "none"
        raise QuestionError(
            f"{folder / QRELS} has no split {split!r}", remedy=f"choose a --split from: {splits}"
        )
    qrels = read_qrels(path)
    lengths = {entry.id: (entry.text or "").count("\n") + 2 for entry in read_entries(folder)}
    questions: list[Question] = []
    notes: list[str] = []
    asked = collection_file(folder, QUERIES)
    queries = {query.id: query for query in read_lines(asked, _Query, "query", QuestionError)}
    notes.extend(f"query {key!r} of the qrels is not in {QUERIES}" for key in qrels if key not in queries)
    for query in (queries[key] for key in queries if key in qrels):
        own_key = query.id if remove_query else None  # a document that is removed can't be found
        relevance = {key: grade for key, grade in qrels[query.id].items() if grade > 0 and key != own_key}
        absent = [key for key in relevance if key not in lengths]
        if absent:
            notes.append(f"query {query.id!r}: {len(absent)} relevant documents are not in the corpus")
        if relevance:
            own = lengths.get(query.id) if remove_query else None
            wrong = [key for key, grade in qrels[query.id].items() if grade <= 0 and key != own_key]
            extra = {ABSENT_GOLD: absent, JUDGED_WRONG: wrong}
            questions.append(_question(query, relevance, extra, own))
        else:
            notes.append(f"query {query.id!r} has no relevant document and is ignored")
    if not questions:
        raise QuestionError(f"{path} has no relevant document for any query of {asked}")
    return BeirQuestions(questions, notes)


def _question(
    query: _Query, relevance: dict[str, int], extra: dict[str, list[str]], own_lines: int | None
) -> Question:
    own = entry_source(query.id)
    return Question(
        id=query.id,
        question=query.text,
        gold=tuple(
            GoldItem(source_file=entry_source(key), relevance=grade)
            for key, grade in sorted(relevance.items())
        ),
        gold_level="file",
        excluded_spans=(Span(source=own, line_start=1, line_end=own_lines),) if own_lines else (),
        extra={name: list(map(entry_source, sorted(keys))) for name, keys in extra.items() if keys},
    )
