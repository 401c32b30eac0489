"""Questions made from the queries in a BEIR folder, with the relevant documents in its qrels as gold.

1. Each query in ``qrels/<split>.tsv`` becomes a question. Each document with a relevance above 0 becomes a
   gold item for the whole file.
2. A relevant document that is missing from the corpus is also a gold item, because nDCG's ideal DCG includes
   the document. The key ``absent_gold`` of a question lists the missing documents.
3. Queries without a relevant document are ignored and reported.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from branchrank.corpus.beir import QRELS, QUERIES, entry_source, read_entries
from branchrank.errors import QuestionError
from branchrank.io.files import read_jsonl
from branchrank.questions.qrels import read_qrels
from branchrank.questions.question_files import ABSENT_GOLD
from branchrank.records import GoldItem, Question, Record, Span


class BeirQuestions(NamedTuple):
    """Questions in the order of the queries, and notes on problems found in the folder."""

    questions: list[Question]
    notes: list[str]


class _Query(Record, frozen=True, kw_only=True):
    id: str = msgspec.field(name="_id")
    text: str


def beir_questions(folder: Path, split: str, *, remove_query: bool = False) -> BeirQuestions:
    """Read the questions for one split in a BEIR folder.

    If ``remove_query`` is true, a query's hits exclude the document that has the query's id. Use
    ``remove_query`` for collections whose queries are documents in the corpus. Raises :class:`QuestionError`
    or :class:`~branchrank.errors.InputError` if a file is missing or invalid.
    """
    path = folder / QRELS / f"{split}.tsv"
    if not path.is_file():
        splits = ", ".join(sorted(each.stem for each in (folder / QRELS).glob("*.tsv"))) or "none"
        raise QuestionError(
            f"{folder / QRELS} has no split {split!r}", remedy=f"choose a --split from: {splits}"
        )
    qrels = read_qrels(path)
    lengths = {entry.id: entry.text.count("\n") + 2 for entry in read_entries(folder)}
    questions: list[Question] = []
    notes: list[str] = []
    queries = {query.id: query for query in read_jsonl(folder / QUERIES, _Query, error=QuestionError)}
    notes.extend(f"query {key!r} of the qrels is not in {QUERIES}" for key in qrels if key not in queries)
    for query in (queries[key] for key in queries if key in qrels):
        relevance = {key: grade for key, grade in qrels[query.id].items() if grade > 0}
        absent = [key for key in relevance if key not in lengths]
        if absent:
            notes.append(f"query {query.id!r}: {len(absent)} relevant documents are not in the corpus")
        if relevance:
            own = lengths.get(query.id) if remove_query else None
            questions.append(_question(query, relevance, absent, own))
        else:
            notes.append(f"query {query.id!r} has no relevant document and is ignored")
    if not questions:
        raise QuestionError(f"{path} has no relevant document for any query of {folder / QUERIES}")
    return BeirQuestions(questions, notes)


def _question(query: _Query, relevance: dict[str, int], absent: list[str], own_lines: int | None) -> Question:
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
        extra={ABSENT_GOLD: [entry_source(key) for key in sorted(absent)]} if absent else {},
    )
