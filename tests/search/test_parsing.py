"""Reading replies: tolerant of their dress, strict about what they may name."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchrank.search.llm.prompts import (
    excerpt,
    labels,
    read_json,
    read_labels,
    read_text,
    summary_messages,
    yes_log_odds,
)
from branchrank.search.llm.request import ReplyError

LABELS = labels(30)


@pytest.mark.parametrize("count", [3, 4, 100])
def test_there_are_as_many_labels_as_asked_for_and_all_are_equally_long(count: int) -> None:
    found = labels(count)
    assert [int(label[1:]) for label in found] == list(range(1, count + 1))
    assert {len(label) for label in found} == {4 if count == 100 else 3}


@pytest.mark.parametrize(
    "text",
    [
        '{"ids": ["s03", "s01"]}',
        '["s03", "s01"]',
        '```json\n{"ids": ["s03", "s01"]}\n```',
        'Sure, here it is: {"ids": ["s03", "s01"]} I hope it helps {really}.',
        '{"ids": ["s03", "s01", "s0',
        '{"ids": ["s03", "s01"',
        '{"ids": ["S03", "s01", "s99", "s03", 7, null, true]}',
        '{"ranking": [{"id": "s03", "score": 9}, {"id": "s01"}]}',
        "s03, s01",
        "1. [s03] because\n2. [s01]",
        '{"note": "a } inside \\" a string", "ids": ["s03", "s01"]}',
    ],
)
def test_the_same_order_is_read_from_different_formats(text: str) -> None:
    assert read_labels(text, LABELS) == ["s03", "s01"]


@pytest.mark.parametrize("text", ["", "no idea", "{", "[[[[", "{]", "null", "3", '"s"', "<html>"])
def test_a_reply_without_labels_is_malformed(text: str) -> None:
    with pytest.raises(ReplyError, match="malformed reply"):
        read_labels(text, LABELS)


@pytest.mark.parametrize("text", ['{"ids": ["s99"]}', '{"ids": []}', "[]"])
def test_json_without_a_known_id_is_an_error(text: str) -> None:
    with pytest.raises(ReplyError, match="no known id"):
        read_labels(text, LABELS)


def test_an_empty_list_can_be_an_answer_but_unknown_ids_are_an_error() -> None:
    assert read_labels('{"ids": []}', LABELS, may_be_empty=True) == []
    with pytest.raises(ReplyError, match="no known id"):
        read_labels('{"ids": ["s99"]}', LABELS, may_be_empty=True)


@given(
    st.text() | st.recursive(st.text() | st.none() | st.integers(), st.lists, max_leaves=20).map(json.dumps)
)
def test_any_text_gives_known_labels_or_an_error(text: str) -> None:
    try:
        named = read_labels(text, LABELS)
    except ReplyError:
        return
    assert named
    assert set(named) <= set(LABELS)
    assert len(set(named)) == len(named)


@given(st.lists(st.sampled_from(LABELS), unique=True, min_size=1), st.data())
def test_a_truncated_reply_keeps_its_complete_ids(order: list[str], data: st.DataObject) -> None:
    whole = json.dumps({"ids": order})
    cut = data.draw(st.integers(len('{"ids": ["s01"'), len(whole)))
    named = read_labels(whole[:cut], LABELS)
    assert named == order[: len(named)]
    assert len(named) >= (cut - len('{"ids": [')) // len('"s01", ')


def test_deep_nesting_is_malformed() -> None:
    with pytest.raises(ReplyError):
        read_json("[" * 100_000)
    with pytest.raises(ReplyError):
        read_json('{"a": 1e999999}')
    assert read_labels("[" * 900 + '"s01"' + "]" * 900, LABELS) == ["s01"]


def test_text_is_reduced_to_one_clean_line() -> None:
    assert read_text(" two\n lines\x1b[31m\u202e ") == "two lines [31m"
    with pytest.raises(ReplyError, match="empty reply"):
        read_text("\x00 \n")


def test_yes_against_no_is_the_log_odds() -> None:
    logprobs = {"Yes": math.log(0.5), " yes": math.log(0.1), "No": math.log(0.2), "Maybe": math.log(0.2)}
    assert yes_log_odds(logprobs) == pytest.approx(math.log(0.6 / 0.2))
    assert yes_log_odds({"Yes": -0.1, "x": -7.0}) == pytest.approx(7.9)
    assert yes_log_odds({"no": -0.1, "x": -7.0}) == pytest.approx(-7.9)
    with pytest.raises(ReplyError, match="no log-probabilities"):
        yes_log_odds({"x": -0.1})


def test_an_excerpt_reads_four_times_its_length() -> None:
    assert excerpt("a" + " " * 35 + "b", 10) == "a b"
    assert excerpt("a" + " " * 45 + "b", 10) == "a"
    assert excerpt("one two three four", 10) == "one two ..."
    assert excerpt("o" * 18, 10) == "o" * 10 + " ..."
    assert excerpt("exactly 10", 10) == "exactly 10"


def test_a_summary_is_of_the_text_and_the_summaries_of_its_subsections() -> None:
    _, alone = summary_messages("The title", "The text.", [])
    assert alone.content == "Title: The title\n\nText:\nThe text.\n\nSummary:"
    _, whole = summary_messages("The title", "The text.", ["one", "two\nlines"])
    listed = "Subsections:\n- one\n- two lines"
    assert whole.content == f"Title: The title\n\nText:\nThe text.\n\n{listed}\n\nSummary:"
