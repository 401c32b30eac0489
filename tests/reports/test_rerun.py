"""``verify --rerun``: a run's questions asked again, over the index that it searched."""

from __future__ import annotations

import re
import shutil
from itertools import combinations
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.commands import NO_LLM, QUESTIONS, benchmark, invoke, make_project, write_lines
from support.predictors import OtherPages
from support.refinished import refinish

from branchrank import Workspace
from branchrank.core.errors import RunError
from branchrank.core.io.files import write_jsonl
from branchrank.library import RunAccess
from branchrank.questions.question_files import sample_questions
from branchrank.reports.verify.rerun import chance_found
from branchrank.run import Run
from branchrank.runs.directory import ROWS, read_run, write_run

CLASS = "support.predictors:OtherPages"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("rerun"))


@pytest.fixture(scope="module")
def run(project: Path) -> Path:
    return benchmark(project, "--predictor", "local", "--predictor", "hybrid", "--predictor", CLASS, *NO_LLM)


def test_a_rerun_gives_the_same_answers(project: Path, run: Path) -> None:
    result = invoke("verify", run, "--rerun", 3, "--data-dir", project / "data")
    assert result.exit_code == 0, result.output
    assert "6 of 6 answers to 3 questions" in result.output
    assert f"not rerun: mine: it calls {CLASS}; " in result.output
    assert "--trust" in result.output


def test_the_class_of_a_trusted_run_is_run_again(
    project: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    retrieve = OtherPages.retrieve
    # Some packages make the ids of their documents anew in each process.
    monkeypatch.setattr(
        OtherPages, "retrieve", lambda *given: [replace(hit, id=uuid4().hex) for hit in retrieve(*given)]
    )
    access = RunAccess(trust=True, data_dir=project / "data")
    done = Run.load(run).verify(rerun=100, access=access).rerun
    assert done is not None
    assert (done.questions, done.rows, done.identical, done.left_out) == (8, 24, 24, {})


def test_rows_altered_outside_the_draw_of_the_runs_own_seed_are_found(
    project: Path, run: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(run, tmp_path / run.name)
    loaded = Run.load(copy)
    spared = {question.id for question in sample_questions(loaded.asked, 3, loaded.record.seed)}
    forged = [
        replace(row, stages=("forged",)) if row.question_id not in spared else row for row in loaded.rows
    ]
    write_jsonl(copy / ROWS, forged)
    refinish(copy)
    access = RunAccess(data_dir=project / "data")
    draws = [Run.load(copy).verify(rerun=3, access=access) for _ in range(4)]
    assert any(each.findings for each in draws)
    assert len({each.rerun.seed for each in draws if each.rerun}) == 4


def test_half_of_a_draw_are_questions_on_which_the_two_best_systems_differ(project: Path) -> None:
    made = benchmark(project, "--predictor", "bm25", "--predictor", CLASS)
    words = ("verify", made, "--rerun", 2, "--data-dir", project / "data", "--seed", 7)
    shown = invoke(*words).output
    assert shown == invoke(*words).output
    found = re.search(r"drawn with --seed 7: 1 of (\d) questions on which .* differ, and 1 of (\d)", shown)
    assert found, shown
    assert int(found[1]) + int(found[2]) == 8
    assert "a draw of 2 of 8 finds one of 5 altered" in shown


@given(st.integers(0, 6), st.integers(0, 6), st.integers(1, 5), st.data())
def test_the_stated_chance_is_the_share_of_all_draws(
    first: int, second: int, altered: int, data: st.DataObject
) -> None:
    drawn, more = data.draw(st.integers(0, first)), data.draw(st.integers(0, second))
    altered = min(altered, first + second)
    found = []
    for own in range(max(0, altered - second), min(altered, first) + 1):
        draws = [
            min(one, default=first) < own or min(other, default=second) < altered - own
            for one in combinations(range(first), drawn)
            for other in combinations(range(second), more)
        ]
        found.append(sum(draws) / len(draws))
    assert chance_found((drawn, first), (more, second), altered) == pytest.approx(found)


def test_a_rerun_reads_the_workspace_of_the_run_without_trust_but_runs_no_code(
    run: Path, tmp_path: Path
) -> None:
    result = invoke("verify", run, "--rerun", 3)  # the workspace is not the one of this folder
    assert result.exit_code == 0, result.output
    assert "6 of 6 answers to 3 questions" in result.output
    assert f"not rerun: mine: it calls {CLASS}" in result.output
    record = read_run(run)
    nowhere = replace(record, data_dir=str(tmp_path / "nowhere"))
    model = {"default": {**record.index_settings["default"], "embedder": str(tmp_path / "model")}}
    for name, changed in (("a", nowhere), ("b", replace(record, index_settings=model))):
        write_run(copy := shutil.copytree(run, tmp_path / name), changed)
        refused = invoke("verify", copy, "--rerun", 1)
        assert refused.exit_code != 0
        assert not (tmp_path / "nowhere").exists()
        assert ("- embedding model" in refused.stderr) == (name == "b")


def test_another_index_of_the_corpus_is_refused(run: Path, tmp_path: Path) -> None:
    other = make_project(tmp_path)
    with Workspace.build(data_dir=other / "data", settings={"index.chunk_tokens": 40}):
        pass
    access = RunAccess(trust=True, data_dir=other / "data")
    record = read_run(run)
    changed = {"default": {**record.index_settings["default"], "chunk_tokens": 40}}
    write_run(copy := shutil.copytree(run, tmp_path / run.name), replace(record, index_settings=changed))
    with pytest.raises(RunError, match="index 'default'"):
        Run.load(copy).verify(rerun=1, access=access)


def test_a_corpus_without_the_gold_is_refused(run: Path, tmp_path: Path) -> None:
    other = make_project(tmp_path, {"index.md": "# Other\n\nAnother corpus.\n"})
    result = invoke("verify", run, "--rerun", 1, "--data-dir", other / "data")
    assert result.exit_code == RunError.exit_code


def test_a_run_that_keeps_no_wording_needs_its_questions(project: Path) -> None:
    made = benchmark(project, "--predictor", "bm25", "--question-text", "hash", "--sample-size", 5)
    questions = project / "data" / "benchmark" / "questions.jsonl"
    moved = questions.rename(project / "elsewhere.jsonl")
    try:
        refused = invoke("verify", made, "--rerun", 1, "--data-dir", project / "data")
        assert refused.exit_code == RunError.exit_code
        words = ("--rerun", 9, "--data-dir", project / "data", "--questions", moved)
        assert "5 of 5 answers" in invoke("verify", made, *words).output
        write_lines(project / "other.jsonl", [QUESTIONS[0], *QUESTIONS[2:]])
        words = (*words[:-1], project / "other.jsonl")
        assert invoke("verify", made, *words).exit_code == RunError.exit_code
    finally:
        moved.rename(questions)
