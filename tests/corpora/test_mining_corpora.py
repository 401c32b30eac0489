"""Questions mined from real documentation sets: as many as expected, and each of them sound."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from branchrank.core.errors import BranchRankError
from branchrank.documents.document import Document
from branchrank.documents.lines import normalize
from branchrank.documents.loading import corpus_lines, load_corpus
from branchrank.documents.named import add_corpus
from branchrank.questions.anchoring import check_anchors
from branchrank.questions.mining import Mined, mine_questions

pytestmark = pytest.mark.corpora

BESIDE = Path(__file__).parents[2].parent / "shared" / "corpora" / "symfony-docs"
EXPECTED = {"symfony-docs": range(600, 701), "django": range(690, 801)}


@pytest.fixture(params=EXPECTED, scope="module")
def root(request: pytest.FixtureRequest) -> Path:
    if request.param == "django":
        try:
            return add_corpus("django")
        except BranchRankError as error:
            pytest.skip(str(error))
    if not BESIDE.is_dir():
        pytest.skip(f"{BESIDE} is not here")
    return BESIDE


@pytest.fixture(scope="module")
def documents(root: Path) -> Sequence[Document]:
    return load_corpus(root).documents


@pytest.fixture(scope="module")
def mined(documents: Sequence[Document]) -> Mined:
    return mine_questions(documents)


def test_there_are_as_many_as_expected(root: Path, mined: Mined) -> None:
    assert len(mined.questions) in EXPECTED[root.name]
    pages = sum(question.gold_level == "file" for question in mined.questions)
    assert 0.3 < pages / len(mined.questions) < 0.6
    assert min(mined.overlaps.values()) > 50


def test_gold_is_valid_and_outside_the_excluded_spans(root: Path, mined: Mined) -> None:
    assert check_anchors(mined.questions, corpus_lines(root)) == []
    for question in mined.questions:
        assert len(question.gold) <= 2
        spans = [item.span for item in question.gold if item.span is not None]
        assert not any(gold.overlap(span) for gold in spans for span in question.excluded_spans)


def test_every_excluded_section_holds_the_text(root: Path, mined: Mined) -> None:
    lines = corpus_lines(root)
    for question in mined.questions:
        for span in question.excluded_spans:
            text = normalize("\n".join(lines[span.source][span.line_start - 1 : span.line_end]))
            assert normalize(question.question).split()[0] in text, (question.id, span)
