"""A cut of a run is what a run over those questions alone would have said."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import invoke
from support.made_runs import Planned, make_questions, make_run

from branchrank.core.errors import UsageError
from branchrank.reports.losses import failures, lost, sliced, unanswerable
from branchrank.reports.result import passages
from branchrank.reports.statistics import statistics
from branchrank.run import Run

PREDICTORS = (Planned("local", 0.6), Planned("hybrid", 0.4, fails="q0004"))


@pytest.fixture(scope="module")
def questions() -> list:
    return make_questions(60, unanswerable=3)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, questions: list) -> Run:
    return make_run(tmp_path_factory.mktemp("whole"), PREDICTORS, questions, latency_sample=60)


def test_a_cut_matches_a_run_over_the_same_questions(tmp_path: Path, whole: Run, questions: list) -> None:
    cut = whole.where("kind=lookup")
    alone = make_run(tmp_path, PREDICTORS, [each for each in questions if each.kind == "lookup"])
    assert cut.asked == alone.asked
    assert len(cut.asked) == 20
    assert cut.judgment == alone.judgment
    assert [row.rates for row in cut.summary_rows] == [row.rates for row in alone.summary_rows]
    for section in (lost, sliced, failures, unanswerable, passages, statistics):
        assert section(cut) == section(alone)


def test_the_failures_of_a_run_are_divided_among_its_cuts(whole: Run) -> None:
    counts = [whole.where(condition).record.failures for condition in ("depth=0", "depth=depth 1")]
    assert (sum(counts), whole.record.failures) == (1, 1)


def test_latency_covers_only_the_questions_of_the_cut(whole: Run) -> None:
    cut = whole.where("difficulty=hard")
    kept = {question.id for question in cut.asked}
    assert cut.timed == tuple(each for each in whole.timed if each.question_id in kept)
    assert 0 < len(cut.timed) < len(whole.timed)


def test_conditions_on_one_slice_add_up_and_on_two_both_hold(whole: Run) -> None:
    def count(*conditions: str) -> int:
        return len(whole.where(*conditions).asked)

    assert count("kind=lookup", "kind=howto") == 60
    assert count("kind=lookup") == 20
    assert count("kind=lookup", "difficulty=hard") == 10
    assert count("depth=0") + count("depth=depth 1") == 60
    assert whole.where() is whole


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("color=red", "there is no slice 'color'"),
        ("kind", "has this kind\n.*kind=VALUE; kind is one of: howto, lookup"),
        ("kind=nothing", "kind is one of: howto, lookup"),
        ("overlap=subset", "no question of .* has this overlap with the heading\n.*another slice"),
    ],
)
def test_an_unknown_slice_is_refused(whole: Run, condition: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        whole.where(condition)


def test_conditions_that_exclude_each_other_are_refused(tmp_path: Path) -> None:
    asked = make_questions(2)
    run = make_run(tmp_path, PREDICTORS, asked)
    with pytest.raises(UsageError, match=r"kind=.* and difficulty="):
        run.where(f"kind={asked[0].kind}", f"difficulty={asked[1].difficulty}")


def test_show_prints_a_cut_and_writes_its_report(tmp_path: Path, whole: Run) -> None:
    directory = whole.directory
    before = (directory / "report.md").read_bytes() if (directory / "report.md").exists() else None
    shown = invoke("show", directory, "--where", "kind=lookup", "--output", tmp_path / "lookup")
    assert shown.exit_code == 0, shown.output
    assert "20 questions" in shown.output
    assert "kind=lookup: 20 of its 63 questions" in shown.output
    text = (tmp_path / "lookup" / "report.md").read_text(encoding="utf-8")
    assert "restricted to kind=lookup" in text
    assert "kind=lookup" in (tmp_path / "lookup" / "report.html").read_text(encoding="utf-8")
    assert (tmp_path / "lookup" / "plots" / "differences.svg").is_file()
    after = (directory / "report.md").read_bytes() if (directory / "report.md").exists() else None
    assert after == before
    refused = invoke("show", directory, "--where", "kind=lookup", "--output", directory)
    assert refused.exit_code == 2
    assert str(directory) in refused.output


def test_compare_and_gate_use_only_the_cut(whole: Run) -> None:
    directory = whole.directory
    cut = whole.where("kind=lookup")
    kept = {question.id for question in cut.asked}
    pair = ("--baseline-predictor", "local", "--predictor", "hybrid")
    compared = invoke("compare", directory, directory, *pair, "--where", "kind=lookup")
    assert compared.exit_code == 0, compared.output
    assert "only kind=lookup: 20 questions" in compared.output
    flipped = {
        word.strip()
        for line in compared.output.splitlines()
        if line.startswith(("won (", "lost ("))
        for word in line.partition(":")[2].split(",")
    } - {"none"}
    assert flipped
    assert flipped <= kept
    gated = invoke("gate", directory, "--baseline", directory, "--where", "kind=lookup")
    assert gated.exit_code == 0
    assert "n = 20" in gated.output
