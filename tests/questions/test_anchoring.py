"""Gold that holds, gold that is broken in every way, and gold that moved."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchrank.core.records import GoldItem, Question
from branchrank.questions.anchoring import check_anchors, lines_digest, reanchor

PAGE = [
    "# Ports",
    "",
    "The server listens on **port 8080**,",
    "unless another is configured.",
    "",
    "## Timeouts",
    "",
    "A request is dropped after thirty seconds.",
]
CORPUS = {"ports.md": PAGE, "other.md": ["# Other", "", "Nothing of interest."]}


def asked(*gold: GoldItem, aliases: tuple[str, ...] = ()) -> Question:
    return Question(id="q1", question="which port?", gold=gold, source_aliases=aliases)


def item(start: int | None, end: int | None, quote: str | None = None, source: str = "ports.md") -> GoldItem:
    return GoldItem(source_file=source, answer_line_start=start, answer_line_end=end, answer_quote=quote)


@pytest.mark.parametrize(
    ("gold", "message"),
    [
        (item(3, 4, source="gone.md"), "question 'q1': the corpus has no file 'gone.md'"),
        (item(7, 9), "question 'q1': lines 7-9 are not in ports.md (8 lines)"),
        (item(6, 8, "port 8080"), "question 'q1': the quote is not in lines 6-8 of ports.md"),
        (item(None, None, "port 9090"), "question 'q1': the quote is not in lines 1-8 of ports.md"),
    ],
)
def test_broken_gold_is_reported(gold: GoldItem, message: str) -> None:
    assert [str(problem) for problem in check_anchors([asked(gold)], CORPUS)] == [message]


def test_an_alternate_is_named_by_its_number() -> None:
    problems = check_anchors([asked(item(3, 4), item(9, 9))], CORPUS)
    assert [str(problem).rpartition(": ")[0] for problem in problems] == ["question 'q1', alternate 1"]
    assert problems[0].message.startswith("lines 9-9 ")


def test_an_alias_is_treated_as_its_source() -> None:
    aliased = asked(item(3, 4, "port 8080", source="old.md"), aliases=("ports.md",))
    assert check_anchors([aliased], CORPUS) == []


def places(questions: list[Question]) -> list[tuple[str, int | None, int | None]]:
    return [
        (gold.source_file, gold.answer_line_start, gold.answer_line_end)
        for question in questions
        for gold in question.gold
    ]


def anchored(*gold: GoldItem) -> Question:
    """A question with digests of the page as it is."""
    return reanchor([asked(*gold)], CORPUS).questions[0]


def test_valid_gold_is_kept_and_gets_a_digest() -> None:
    questions = [asked(item(3, 4, "port 8080"), item(6, 8))]
    mended, moved, problems = reanchor(questions, CORPUS)
    assert (moved, problems) == ([], [])
    assert places(mended) == places(questions)
    assert mended[0].gold[0].answer_digest == lines_digest(PAGE[2:4])
    assert reanchor(mended, CORPUS).questions == mended


def test_edited_lines_are_detected_even_if_they_still_contain_the_quote() -> None:
    question = anchored(item(3, 4, "port 8080"))
    edited = {"ports.md": [*PAGE[:3], "unless you configure another.", *PAGE[4:]]}
    (problem,) = check_anchors([question], edited)
    assert problem.message.startswith("lines 3-4 of ports.md have changed")
    mended, moved, _ = reanchor([question], edited)
    assert len(moved) == 1
    assert places(mended) == [("ports.md", 3, 4)]
    assert check_anchors(mended, edited) == []


def test_rewrapped_or_bold_lines_are_found_completely() -> None:
    question = anchored(item(3, 4, "port 8080"))
    words = " ".join(PAGE[2:4]).replace("*", "").split()
    wrapped = {
        "ports.md": ["# Ports", "", " ".join(words[:4]), " ".join(words[4:7]), " ".join(words[7:]), ""]
    }
    mended, _, problems = reanchor([question], wrapped)
    assert problems == []
    assert places(mended) == [("ports.md", 3, 5)]


def test_gold_without_a_quote_is_found_by_its_digest() -> None:
    mended, _, problems = reanchor([anchored(item(3, 4))], {"ports.md": ["", "", *PAGE]})
    assert problems == []
    assert places(mended) == [("ports.md", 5, 6)]


def test_the_nearest_of_equal_passages_is_used() -> None:
    mended, _, _ = reanchor([anchored(item(8, 8))], {"ports.md": [PAGE[7], "", *PAGE]})
    assert places(mended) == [("ports.md", 10, 10)]


def test_equal_passages_in_other_files_do_not_move_gold() -> None:
    question = anchored(item(8, 8))
    corpus = {"ports.md": ["# Ports"], "a.md": [PAGE[7]], "b.md": [PAGE[7]]}
    mended, moved, problems = reanchor([question], corpus)
    assert (mended, moved) == ([question], [])
    assert "no quote" in problems[0].message


def test_a_paragraph_that_moved_to_another_file_is_found() -> None:
    corpus = {"ports.md": ["# Ports"], "network.md": PAGE[2:]}
    for question in (asked(item(3, 4, "on port 8080")), anchored(item(3, 4, "on port 8080"))):
        mended, _, problems = reanchor([question], corpus)
        assert places(mended) == [("network.md", 1, 2)]
        assert problems == []


def test_the_original_file_is_preferred() -> None:
    corpus = {"copy.md": PAGE, "ports.md": ["", *PAGE]}
    for question in (asked(item(3, 4, "thirty seconds")), anchored(item(8, 8, "thirty seconds"))):
        assert places(reanchor([question], corpus).questions)[0][0] == "ports.md"


@pytest.mark.parametrize(
    ("gold", "reason"),
    [
        (item(1, 1, "port 9090"), "the quote is not in the corpus"),
        (item(1, 99), "the gold has no quote to search for"),
        (item(5, 5, "s"), "the quote is at "),
    ],
)
def test_gold_that_cannot_be_fixed_is_kept_and_reported(gold: GoldItem, reason: str) -> None:
    questions = [asked(gold)]
    mended, moved, problems = reanchor(questions, CORPUS)
    assert mended == questions
    assert moved == []
    assert reason in problems[0].message


paragraphs = st.lists(
    st.lists(st.sampled_from(["alpha", "beta", "gamma delta"]), min_size=1, max_size=4), max_size=5
)


@given(before=paragraphs, after=paragraphs, inserted=paragraphs, length=st.integers(1, 4))
def test_a_moved_paragraph_is_found_exactly(
    before: list[list[str]], after: list[list[str]], inserted: list[list[str]], length: int
) -> None:
    """Whatever stands around it, a paragraph of as many lines as the gold is the gold again."""
    answer = [f"the answer, line {number}" for number in range(1, length + 1)]

    def page(*groups: list[list[str]]) -> list[str]:
        return [line for group in groups for paragraph in group for line in ["", *paragraph, ""]]

    old, new = page(before, [answer], after), page(inserted, before, [answer], after)
    start, moved_start = old.index(answer[0]) + 1, new.index(answer[0]) + 1
    quote = answer[-1]
    plain = asked(item(start, start + length - 1, quote))
    assert check_anchors([plain], {"ports.md": old}) == []
    digested = reanchor([plain], {"ports.md": old}).questions[0]
    mended, _, problems = reanchor([digested], {"ports.md": new})
    assert problems == []
    assert places(mended) == [("ports.md", moved_start, moved_start + length - 1)]
    assert check_anchors(mended, {"ports.md": new}) == []
    by_quote = reanchor([plain], {"ports.md": new}).questions
    assert check_anchors(by_quote, {"ports.md": new}) == []
    if moved_start > start + length - 1:
        assert places(by_quote) == places(mended)
