"""Gold that holds, gold that is broken in every way, and gold that moved."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from branchrank.bench.anchoring import check_anchors, corpus_lines, reanchor
from branchrank.records import GoldItem, Question, Span

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
    "gold",
    [
        item(3, 4),
        item(3, 4, "Listens on port 8080, unless"),
        item(None, None, "dropped after thirty"),
        item(None, None),
    ],
)
def test_gold_that_holds(gold: GoldItem) -> None:
    assert check_anchors([asked(gold)], CORPUS) == []


@pytest.mark.parametrize(
    ("gold", "message"),
    [
        (item(3, 4, source="gone.md"), "question 'q1': the corpus has no file 'gone.md'"),
        (item(7, 9), "question 'q1': lines 7-9 are not in ports.md (8 lines)"),
        (item(6, 8, "port 8080"), "question 'q1': the quote is not in lines 6-8 of ports.md"),
        (item(None, None, "port 9090"), "question 'q1': the quote is not in lines 1-8 of ports.md"),
    ],
)
def test_broken_gold_is_named(gold: GoldItem, message: str) -> None:
    assert [str(problem) for problem in check_anchors([asked(gold)], CORPUS)] == [message]


def test_an_alternate_is_named_by_its_number() -> None:
    problems = check_anchors([asked(item(3, 4), item(9, 9))], CORPUS)
    assert [str(problem) for problem in problems] == [
        "question 'q1', alternate 1: lines 9-9 are not in ports.md (8 lines)"
    ]


def test_an_alias_stands_for_its_source() -> None:
    aliased = asked(item(3, 4, "port 8080", source="old.md"), aliases=("ports.md",))
    assert check_anchors([aliased], CORPUS) == []


def test_gold_that_holds_stays_where_it_is() -> None:
    questions = [asked(item(3, 4, "port 8080"), item(6, 8))]
    assert reanchor(questions, CORPUS) == (questions, [], [])


def test_a_paragraph_that_moved_down_is_found() -> None:
    corpus = {"ports.md": ["Preface.", "", *PAGE]}
    mended, moved, problems = reanchor([asked(item(3, 4, "on port 8080"))], corpus)
    assert mended[0].gold == (item(5, 6, "on port 8080"),)
    assert [(move.before, move.after) for move in moved] == [
        (
            Span(source="ports.md", line_start=3, line_end=4),
            Span(source="ports.md", line_start=5, line_end=6),
        )
    ]
    assert problems == []


def test_a_paragraph_that_moved_to_another_file_is_found() -> None:
    corpus = {"ports.md": ["# Ports"], "network.md": PAGE[2:]}
    mended, _, problems = reanchor([asked(item(3, 4, "on port 8080"))], corpus)
    assert mended[0].gold == (item(1, 2, "on port 8080", source="network.md"),)
    assert problems == []


def test_the_own_file_is_preferred_to_another() -> None:
    corpus = {"copy.md": PAGE, "ports.md": ["", *PAGE]}
    mended, _, _ = reanchor([asked(item(3, 4, "thirty seconds"))], corpus)
    assert mended[0].gold[0].source_file == "ports.md"


@pytest.mark.parametrize(
    ("gold", "reason"),
    [
        (item(1, 1, "port 9090"), "it stands nowhere in the corpus"),
        (item(1, 99), "it has no quote to look for"),
        (item(5, 5, "s"), "it stands at "),
    ],
)
def test_what_cannot_be_mended_stays_and_is_reported(gold: GoldItem, reason: str) -> None:
    questions = [asked(gold)]
    mended, moved, problems = reanchor(questions, CORPUS)
    assert mended == questions
    assert moved == []
    assert reason in problems[0].message


def test_a_shrunken_file_bounds_the_span() -> None:
    mended, _, _ = reanchor([asked(item(10, 40, "thirty seconds"))], CORPUS)
    assert mended[0].gold == (item(1, 8, "thirty seconds"),)


paragraphs = st.lists(
    st.lists(st.sampled_from(["alpha", "beta", "gamma delta"]), min_size=1, max_size=4), max_size=5
)


@settings(max_examples=60, derandomize=True)
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
    questions = [asked(item(start, start + length - 1, quote))]
    assert check_anchors(questions, {"ports.md": old}) == []
    mended, _, problems = reanchor(questions, {"ports.md": new})
    assert problems == []
    assert check_anchors(mended, {"ports.md": new}) == []
    gold = mended[0].gold[0]
    if moved_start > start + length - 1:
        assert (gold.answer_line_start, gold.answer_line_end) == (moved_start, moved_start + length - 1)


def test_corpus_lines_counts_as_the_readers_do(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"one\r\ntwo\n")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "b.md").write_text("left out")
    assert corpus_lines(tmp_path, ["results/**"]) == {"a.md": ["one", "two"]}
