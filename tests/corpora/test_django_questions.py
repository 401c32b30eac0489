"""The example questions over Django's documentation: sound, our own words, and true to the pinned version."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from branchrank.corpus.named import add_corpus
from branchrank.errors import BranchRankError
from branchrank.questions.anchoring import Lines, check_anchors, corpus_lines
from branchrank.questions.checks import content_stems
from branchrank.questions.question_files import load_questions
from branchrank.records import Question

FILE = Path(__file__).parents[2] / "examples" / "django-questions.jsonl"
#: So many words in a row of a question may not stand in the corpus.
RUN = 8


@pytest.fixture(scope="module")
def questions() -> list[Question]:
    return load_questions(FILE)


@pytest.fixture(scope="module")
def lines() -> Lines:
    try:
        return corpus_lines(add_corpus("django"))
    except BranchRankError as error:
        pytest.skip(str(error))


def _runs(text: str) -> Iterator[tuple[str, ...]]:
    words = re.findall(r"\w+", text.casefold())
    return zip(*(words[start:] for start in range(RUN)), strict=False)


def test_fifty_distinct_questions_on_many_pages(questions: list[Question]) -> None:
    assert len(questions) == 50
    assert len({question.id for question in questions}) == 50
    assert len({frozenset(content_stems(question.question)) for question in questions}) == 50
    answerable = [question for question in questions if question.answerable]
    assert len(answerable) == 45
    assert len({question.gold[0].source_file for question in answerable}) >= 35
    assert {question.kind for question in questions} == {"how-to", "lookup", "error", "concept"}
    assert not any(item.answer_quote for question in questions for item in question.gold)


@pytest.mark.corpora
def test_the_gold_exists_in_the_pinned_version(questions: list[Question], lines: Lines) -> None:
    assert all(item.answer_digest for question in questions for item in question.gold)
    assert check_anchors(questions, lines) == []


@pytest.mark.corpora
def test_no_question_copies_the_documentation(questions: list[Question], lines: Lines) -> None:
    asked = {run: question.id for question in questions for run in _runs(question.question)}
    copied = {asked[run] for text in lines.values() for run in _runs("\n".join(text)) if run in asked}
    assert copied == set()
