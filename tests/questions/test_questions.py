"""Question files: every wrong line is named, unknown keys survive, and the seed alone draws the sample."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.commands import invoke, make_project, write_lines

from branchrank.core.errors import QuestionError
from branchrank.core.records import GoldItem, Question, Span
from branchrank.questions.question_files import (
    ABSENT_GOLD,
    check_sources,
    hashed,
    load_questions,
    question_line,
    questions_digest,
    sample_questions,
    write_questions,
)

GOOD = {"id": "a", "question": "what", "source_file": "a.md", "answer_line_start": 1, "answer_line_end": 2}


def loaded(tmp_path: Path, content: bytes) -> list[Question]:
    path = tmp_path / "questions.jsonl"
    path.write_bytes(content)
    return load_questions(path)


def line(**changes: object) -> bytes:
    kept = {key: value for key, value in {**GOOD, **changes}.items() if value is not ...}
    return json.dumps(kept).encode() + b"\n"


WRONG = {
    "no JSON": (b"{nope\n", "malformed"),
    "no object": (b"[1]\n", "expected a JSON object, not list"),
    "not UTF-8": (b'{"id": "a", "question": "caf\xe9"}\n', "utf"),
    "cut short": (line()[:-5], "truncated"),
    "nested without end": (b"[" * 100_000 + b"\n", "nested"),
    "empty id": (line(id=" "), "must not be empty"),
    "empty question": (line(question=""), "must not be empty"),
    "a number for a question": (line(question=7), "Expected `str`, got `int`"),
    "no gold": (
        line(source_file=...),
        "no gold: add `source_file`, or set `answerable` to false (a label adds gold)",
    ),
    "gold and unanswerable": (line(answerable=False), "has gold and `answerable: false`"),
    "one line number": (line(answer_line_end=...), "or neither"),
    "lines backwards": (line(answer_line_start=3), "3..2 are not valid"),
    "line 0": (line(answer_line_start=0), "0..2 are not valid"),
    "a fraction of a line": (line(answer_line_start=1.5), "answer_line_start"),
    "neither lines nor quote": (
        line(answer_line_start=..., answer_line_end=...),
        "needs line numbers or an `answer_quote`",
    ),
    "unknown level": (line(gold_level="page"), "Invalid enum value 'page'"),
    "wrong alternate": (
        line(alternates=[{"source_file": "b.md"}]),
        "needs line numbers or an `answer_quote`",
    ),
    "wrong excluded span": (line(excluded_spans=[{"source_file": "b.md"}]), "line_start"),
    "excluded gold": (
        line(id="tea", excluded_spans=[{"source_file": "a.md", "line_start": 1, "line_end": 99}]),
        "question 'tea': the gold a.md:1-2 overlaps the excluded span a.md:1-99",
    ),
    "excluded page": (
        line(
            id="t",
            gold_level="file",
            excluded_spans=[{"source_file": "a.md", "line_start": 7, "line_end": 7}],
        ),
        "the gold a.md overlaps the excluded span a.md:7-7",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_the_error_for_a_wrong_line_has_its_number(tmp_path: Path, kind: str) -> None:
    wrong, reason = WRONG[kind]
    with pytest.raises(QuestionError) as caught:
        loaded(tmp_path, line(id="first") + b"\n" + wrong)
    assert f"{tmp_path / 'questions.jsonl'}:3: " in caught.value.message
    assert reason.lower() in caught.value.message.lower()
    assert caught.value.exit_code == 3
    assert "branchrank questions check" in caught.value.remedy


def test_every_wrong_line_is_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(QuestionError) as caught:
        loaded(tmp_path, b"nope\n" + line() + line() + line(id="b", question=""))
    assert [part.split(": ")[0][-1] for part in caught.value.message.splitlines()] == ["1", "3", "4"]
    assert "same id 'a'" in caught.value.message


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_a_file_without_questions_is_an_error(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(QuestionError, match="has no questions"):
        loaded(tmp_path, content)


def test_a_missing_file_is_an_error_that_names_only_flags_of_the_command(tmp_path: Path) -> None:
    missing, data_dir = tmp_path / "none.jsonl", make_project(tmp_path) / "data"
    searched = invoke("benchmark", "--questions", missing, "--predictor", "bm25", "--data-dir", data_dir)
    assert (searched.exit_code, "No such file" in searched.stderr) == (3, True)
    assert "--questions" in searched.stderr
    checked = invoke("questions", "check", missing, "--data-dir", data_dir)
    assert (checked.exit_code, "No such file" in checked.stderr) == (3, True)
    assert "--questions" not in checked.stderr


def test_files_of_other_systems_are_read(tmp_path: Path) -> None:
    """A byte order mark, lines that end in CR LF, and no end of line at the end."""
    content = b"\xef\xbb\xbf" + line().replace(b"\n", b"\r\n") + line(id="b").rstrip()
    assert [question.id for question in loaded(tmp_path, content)] == ["a", "b"]


def test_paths_of_other_systems_are_paths_of_the_corpus(tmp_path: Path) -> None:
    (question,) = loaded(tmp_path, line(source_file="a\\b.md", source_aliases=["c\\d.md", "./e.md"]))
    assert question.gold[0].source_file == "a/b.md"
    assert question.source_aliases == ("c/d.md", "e.md")


def test_a_json_line_is_read_as_a_question(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "questions.jsonl")
    questions = {question.id: question for question in load_questions(path)}
    assert questions["memory"].gold == (
        GoldItem(source_file="index.rst", answer_line_start=4, answer_line_end=4),
        GoldItem(source_file="install.rst", answer_line_start=9, answer_line_end=9),
    )
    assert questions["upgrade"].extra == {"reviewed_by": "somebody"}
    assert not questions["espresso"].answerable
    assert questions["api"].gold_level == "file"
    assert questions["temperature"].kind == "how-to"


def test_an_id_is_made_from_the_question_and_its_files(tmp_path: Path) -> None:
    lines = [
        line(id=...),
        line(id=..., answer_line_start=2),
        line(id=..., question="who"),
        line(id=..., source_file="b.md"),
    ]
    first, moved, other, elsewhere = (loaded(tmp_path, each)[0].id for each in lines)
    assert first == moved
    assert len({first, other, elsewhere}) == 3
    with pytest.raises(QuestionError, match=f"id '{first}'"):
        loaded(tmp_path, lines[0] + lines[1])


words = st.text(min_size=1, max_size=8).filter(str.strip)
#: Paths are read in their shortest form, with slashes.
paths = words.map(lambda word: word.replace("\\", "-").replace("/", "-"))
items = st.builds(
    lambda source, start, more, quote: GoldItem(
        source_file=source, answer_line_start=start, answer_line_end=start + more, answer_quote=quote
    ),
    paths,
    st.integers(1, 10**6),
    st.integers(0, 50),
    st.none() | words,
)
questions_of = st.builds(
    Question,
    id=words,
    question=words,
    gold=st.lists(items, min_size=1, max_size=3).map(tuple),
    kind=words,
    difficulty=st.just("") | words,
    required_entity=st.none() | words,
    section_title=st.none() | words,
    gold_level=st.sampled_from(["span", "file"]),
    excluded_spans=st.lists(
        # No gold is in these files: excluded gold is an error.
        st.builds(
            Span, source=paths.map("not/{}".format), line_start=st.integers(1, 9), line_end=st.integers(9, 20)
        ),
        max_size=2,
    ).map(tuple),
    source_aliases=st.lists(paths, max_size=2).map(tuple),
    extra=st.dictionaries(words.map(lambda name: f"x-{name}"), st.integers() | words, max_size=3),
)


@given(question=questions_of)
def test_a_question_is_written_and_read_back(
    tmp_path_factory: pytest.TempPathFactory, question: Question
) -> None:
    path = tmp_path_factory.getbasetemp() / "round-trip.jsonl"
    write_questions(path, [question])
    assert load_questions(path) == [question]
    assert json.loads(msgspec.json.encode(question_line(question))) == json.loads(path.read_text())


def many(count: int) -> list[Question]:
    return [Question(id=f"q{number}", question="?", answerable=False) for number in range(count)]


@given(seed=st.integers(0, 10**9), size=st.integers(1, 39), order=st.randoms(use_true_random=False))
def test_a_larger_sample_holds_the_smaller_one_and_the_files_order_changes_nothing(seed, size, order) -> None:
    questions = many(40)
    drawn = sample_questions(questions, size, seed)
    assert len({question.id for question in drawn}) == size
    assert all(question in sample_questions(questions, size + 1, seed) for question in drawn)
    order.shuffle(questions)
    assert sample_questions(questions, size, seed) == drawn
    assert drawn == sorted(drawn, key=lambda question: question.id)


def test_the_sample_is_the_same_in_every_release() -> None:
    """Published samples can be drawn again: the draw is SHA-256 of seed and id."""
    names = [f"q{number}" for number in range(40)]
    drawn = sorted(names, key=lambda name: hashlib.sha256(f"42\0{name}".encode()).hexdigest())[:3]
    assert [question.id for question in sample_questions(many(40), 3, 42)] == sorted(drawn)


def test_all_questions_are_drawn_by_size_0_and_too_large_a_sample_is_refused() -> None:
    assert len(sample_questions(many(4), 0, 1)) == 4
    with pytest.raises(QuestionError, match="sample of 5") as caught:
        sample_questions(many(4), 5, 1)
    assert "--sample-size 4" in caught.value.remedy


def test_gold_outside_the_corpus_is_reported() -> None:
    def asked(source: str, end: int | None, aliases: tuple[str, ...] = ()) -> Question:
        item = GoldItem(source_file=source, answer_line_start=end and 1, answer_line_end=end)
        return Question(id=f"{source}:{end}", question="?", gold=(item,), source_aliases=aliases)

    counts = {"a.md": 10, "b.md": 3}
    good = [asked("a.md", 10), asked("b.md", None), asked("moved.md", 2, ("b.md",))]
    assert check_sources(good, counts) == []
    past, absent = check_sources([asked("a.md", 11), asked("c.md", 1), *good], counts)
    assert past.startswith("question 'a.md:11': line 11 ")
    assert past.endswith(" a.md (10 lines)")
    assert absent.startswith("question 'c.md:1': ")


def test_only_file_level_gold_that_the_question_lists_can_be_absent() -> None:
    def asked(level: Literal["span", "file"], listed: object) -> Question:
        item = GoldItem(source_file="gone.md", answer_line_start=1, answer_line_end=2)
        gold = (GoldItem(source_file="a.md"), item)
        return Question(id="q", question="?", gold=gold, gold_level=level, extra={ABSENT_GOLD: listed})

    error = "question 'q': the corpus has no file 'gone.md'"
    assert check_sources([asked("file", ["gone.md"])], {"a.md": 10}) == []
    for level, listed in (("span", ["gone.md"]), ("file", ["other.md"]), ("file", None), ("file", "gone.md")):
        assert check_sources([asked(level, listed)], {"a.md": 10}) == [error]
    past = "question 'q': line 2 is past the end of gone.md (1 lines)"
    assert check_sources([asked("file", ["gone.md"])], {"a.md": 10, "gone.md": 1}) == [past]


def test_hashed_questions_keep_their_digest_and_contain_no_words() -> None:
    questions = [
        Question(
            id="a",
            question="which vinegar removes limescale",
            section_title="Vinegar and limescale",
            required_entity="vinegar",
            gold=(
                GoldItem(
                    source_file="a.md", answer_line_start=1, answer_line_end=2, answer_quote="use vinegar"
                ),
            ),
        )
    ]
    without = [hashed(question) for question in questions]
    assert questions_digest(without) == questions_digest(questions)
    assert "vinegar" not in str(question_line(without[0])).lower()
    assert hashed(without[0]) == without[0]
    assert questions_digest([]) != questions_digest(questions)
