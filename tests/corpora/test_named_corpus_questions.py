"""The questions about the named corpora: sound, our own words, and true to the pinned versions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from branchrank.core.errors import BranchRankError
from branchrank.core.records import Question
from branchrank.documents.loading import ALL_CODE, corpus_lines, load_corpus
from branchrank.documents.named import add_corpus, known_corpora
from branchrank.questions.anchoring import Lines, check_anchors
from branchrank.questions.question_checks import content_stems
from branchrank.questions.question_files import load_questions

EXAMPLES = Path(__file__).parents[2] / "examples"
#: The questions of each corpus, how many of them can be answered, and on how many pages.
SIZES = {"django": (50, 45, 35), "lxml": (62, 58, 24), "werkzeug": (83, 79, 47)}
#: So many words in a row of a question may not stand in the corpus.
RUN = 8


@pytest.fixture(scope="module", params=SIZES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def questions(name: str) -> list[Question]:
    return load_questions(EXAMPLES / f"{name}-questions.jsonl")


@pytest.fixture(scope="module")
def lines(name: str) -> Lines:
    try:
        corpus = known_corpora()[name]
        return corpus_lines(add_corpus(name), (*corpus.exclude, *([ALL_CODE] if corpus.code else [])))
    except BranchRankError as error:
        pytest.skip(str(error))


def _runs(text: str) -> Iterator[tuple[str, ...]]:
    words = re.findall(r"\w+", text.casefold())
    return zip(*(words[start:] for start in range(RUN)), strict=False)


def test_distinct_questions_on_many_pages(name: str, questions: list[Question]) -> None:
    answerable = [question for question in questions if question.answerable]
    pages = {question.gold[0].source_file for question in answerable}
    assert (len(questions), len(answerable)) == SIZES[name][:2]
    assert len(pages) >= SIZES[name][2]
    assert len({question.id for question in questions}) == len(questions)
    assert len({frozenset(content_stems(question.question)) for question in questions}) == len(questions)
    assert {question.kind for question in questions} == {"how-to", "lookup", "error", "concept"}
    assert all(len((item.answer_quote or "").split()) <= 14 for each in questions for item in each.gold)


@pytest.mark.corpora
def test_the_gold_exists_in_the_pinned_version(questions: list[Question], lines: Lines) -> None:
    assert all(item.answer_digest for question in questions for item in question.gold)
    assert check_anchors(questions, lines) == []


@pytest.mark.corpora
def test_no_question_copies_the_documentation(questions: list[Question], lines: Lines) -> None:
    asked = {run: question.id for question in questions for run in _runs(question.question)}
    copied = {asked[run] for text in lines.values() for run in _runs("\n".join(text)) if run in asked}
    assert copied == set()


def _translated() -> list[dict[str, Any]]:
    lines = (EXAMPLES / "languages" / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_every_question_about_one_documentation_is_there_in_three_languages() -> None:
    questions = _translated()
    assert len(questions) == 60
    assert len({question["gold"][0] for question in questions}) == 60
    for key in ("id", "en", "de", "ja"):
        assert len({question[key] for question in questions}) == 60
    assert all(re.search(r"[\u3040-\u30ff]", question["ja"]) for question in questions)


@pytest.mark.corpora
@pytest.mark.parametrize("language", ["", "-de", "-fr", "-it", "-ja", "-ru"])
def test_the_gold_of_one_documentation_is_a_section_in_each_language(language: str) -> None:
    name = f"developers-reference{language}"
    try:
        corpus = load_corpus(add_corpus(name), known_corpora()[name].exclude)
    except BranchRankError as error:
        pytest.skip(str(error))
    sections = [(document.source, section) for document in corpus.documents for section in document.sections]
    labels = {f"{source}#{label}" for source, section in sections for label in section.labels}
    assert {anchor for question in _translated() for anchor in question["gold"]} <= labels
    texts = [block.text for _, section in sections for block in section.blocks]
    asked = {run for question in _translated() for key in ("en", "de") for run in _runs(question[key])}
    assert not asked & {run for text in texts for run in _runs(text)}
