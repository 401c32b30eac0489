from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from branchrank.core.errors import QuestionError
from branchrank.core.records import GoldItem, Question
from branchrank.frontends.cli.main import main
from branchrank.questions.question_checks import largest_group, split_questions
from branchrank.questions.question_files import load_questions, write_questions


def question(identifier: str, *sources: str, aliases: tuple[str, ...] = ()) -> Question:
    gold = tuple(GoldItem(source_file=source, answer_line_start=1, answer_line_end=2) for source in sources)
    return Question(
        id=identifier,
        question=f"what is {identifier}?",
        gold=gold,
        answerable=bool(gold),
        source_aliases=aliases,
    )


def ids(questions: list[Question]) -> list[str]:
    return [each.id for each in questions]


SOURCES = st.lists(st.sampled_from([f"{letter}.md" for letter in "abcdefghijkl"]), max_size=2, unique=True)


@given(
    golds=st.lists(st.tuples(SOURCES, SOURCES), min_size=2, max_size=25),
    share=st.floats(0.05, 0.95),
    seed=st.integers(0, 50),
    order=st.randoms(use_true_random=False),
)
def test_no_first_document_is_in_both_halves_and_the_order_does_not_matter(golds, share, seed, order) -> None:
    questions = [
        question(f"q{number}", *gold, aliases=tuple(aliases) if gold else ())
        for number, (gold, aliases) in enumerate(golds)
    ]
    try:
        tuning, test = split_questions(questions, share, seed)
    except QuestionError:
        return
    assert tuning
    assert test
    assert sorted(ids(tuning) + ids(test)) == sorted(ids(questions))
    apart = [
        {
            source
            for each in half
            for item in each.gold[:1]
            for source in (item.source_file, *each.source_aliases)
        }
        for half in (tuning, test)
    ]
    assert not apart[0] & apart[1]
    order.shuffle(questions)
    again = split_questions(questions, share, seed)
    assert set(ids(again.tuning)) == set(ids(tuning))


def many(count: int) -> list[Question]:
    return [question(f"q{number}", f"{number // 3}.md") for number in range(count)]


def test_the_share_is_met_within_half_a_group() -> None:
    for share in (0.1, 0.3, 0.5):
        tuning, test = split_questions(many(300), share, 42)
        assert abs(len(tuning) - share * 300) <= 1.5
        assert len(tuning) + len(test) == 300


def test_a_larger_share_contains_the_smaller_and_the_seed_matters() -> None:
    small, large = (set(ids(split_questions(many(90), share, 1).tuning)) for share in (0.2, 0.5))
    assert small < large
    assert set(ids(split_questions(many(90), 0.2, 2).tuning)) != small


def test_one_document_cannot_be_split() -> None:
    with pytest.raises(QuestionError, match="share documents"):
        split_questions([question("a", "1.md"), question("b", "1.md")], 0.5, 1)


def test_alternates_do_not_join_documents_and_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "asked.jsonl"
    write_questions(path, [question(f"q{n}", f"{n}.md", f"{(n + 1) % 10}.md") for n in range(10)])
    result = CliRunner().invoke(main, ["questions", "split", str(path), "--share", "0.3"])
    assert result.exit_code == 0, result.output
    tuning, test = (load_questions(tmp_path / f"asked-{name}.jsonl") for name in ("tuning", "test"))
    assert (len(tuning), len(test)) == (3, 7)
    shared = {item.source_file for each in tuning for item in each.gold}
    shared &= {item.source_file for each in test for item in each.gold}
    assert shared
    [line] = result.stderr.splitlines()
    assert line.startswith(f"{len(shared)} document")
    assert line.endswith(", ".join(sorted(shared)))


def test_the_sample_has_answerable_questions_in_both_halves() -> None:
    questions = load_questions(Path(__file__).parents[2] / "data/sample/questions.jsonl")
    tuning, test = split_questions(questions, 0.3, 42)
    answerable = [sum(each.answerable for each in half) for half in (tuning, test)]
    assert min(answerable) > len(questions) / 5


def test_the_command_writes_both_files_and_states_counts(tmp_path: Path) -> None:
    path = tmp_path / "asked.jsonl"
    write_questions(path, many(30))
    result = CliRunner().invoke(main, ["questions", "split", str(path), "--share", "0.3", "--seed", "7"])
    assert result.exit_code == 0, result.output
    assert "asked-tuning.jsonl: 9 questions on 3 documents" in result.output
    assert "asked-test.jsonl: 21 questions on 7 documents" in result.output
    halves = [load_questions(tmp_path / f"asked-{name}.jsonl") for name in ("tuning", "test")]
    assert {each.id: each for half in halves for each in half} == {each.id: each for each in many(30)}


def uneven(large: int, small: int) -> list[Question]:
    """A group of ``large`` questions on one document, and ``small`` questions on one each."""
    together = [question(f"l{number}", "large.md") for number in range(large)]
    return together + [question(f"s{number}", f"{number}.md") for number in range(small)]


@pytest.mark.parametrize(("share", "tuning"), [(0.1, 16), (0.3, 31), (0.5, 31), (0.7, 130), (0.9, 145)])
def test_a_group_that_does_not_fit_is_skipped(share: float, tuning: int) -> None:
    for seed in range(5):
        halves = split_questions(uneven(130, 31), share, seed)
        assert (len(halves.tuning), len(halves.test)) == (tuning, 161 - tuning)
    assert largest_group(uneven(130, 31)) == 130


def test_a_group_is_added_if_the_share_gets_closer_to_its_target() -> None:
    questions = [question(f"q{number}", f"{number // 10}.md") for number in range(40)]
    assert [len(split_questions(questions, share, 3).tuning) for share in (0.01, 0.36, 0.39, 0.99)] == [
        10,
        10,
        20,
        30,
    ]


def test_another_document_moves_few_questions() -> None:
    before = set(ids(split_questions(many(300), 0.3, 42).tuning))
    after = set(ids(split_questions([*many(300), question("new", "new.md")], 0.3, 42).tuning))
    assert len(before ^ (after - {"new"})) <= 3


def test_a_missed_share_gives_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "asked.jsonl"
    for large, warned in ((130, True), (20, False)):
        write_questions(path, uneven(large, 31))
        result = CliRunner().invoke(main, ["questions", "split", str(path)])
        assert result.exit_code == 0, result.output
        for figure in ("19%", "30%", "130 of 161"):
            assert (figure in result.stderr) == warned
