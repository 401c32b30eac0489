"""``branchrank search`` and ``branchrank calibrate`` over a small workspace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.small_index import small_workspace

from branchrank.cli.main import main
from branchrank.index.build import build_index

QUESTIONS = ("How do I clear the cache?", "How often is a request sent again?", "How do I roll back?")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("search")
    made = small_workspace(folder)
    build_index(made).close()
    lines = [
        {
            "id": f"q{number}",
            "question": question,
            "source_file": "cache.rst",
            "answer_line_start": 1,
            "answer_line_end": 2,
        }
        for number, question in enumerate(QUESTIONS)
    ]
    made.questions_path.parent.mkdir(parents=True)
    made.questions_path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return made.data_dir


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_no_query_causes_an_error(workspace: Path) -> None:
    for query in ('" OR 1', "NEAR(", "*", "a" * 10_240, "😀", "--", "col:x", "\x1b[31m"):
        assert run("search", "--data-dir", workspace, "--", query).exit_code == 0, query


def test_an_empty_result_is_reported(workspace: Path) -> None:
    assert run("search", "zzzzqqq", "--data-dir", workspace).stdout == "nothing found\n"


def test_calibrate_suggests_a_threshold_that_keeps_the_branch(workspace: Path) -> None:
    result = run("calibrate", "--data-dir", workspace, "--grep-vector-score-threshold", "0.01")
    assert result.exit_code == 0, result.output
    assert "3 questions get no chunk" in result.stdout
    suggested = result.stdout.rpartition("vector_score_threshold = ")[2].strip()
    again = run("calibrate", "--data-dir", workspace, "--grep-vector-score-threshold", suggested, "--json")
    assert json.loads(again.stdout)["losing"] == 0


def test_calibrate_needs_questions(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text('{"id": "q", "question": "Why?", "answerable": false}\n')
    result = run("calibrate", "--data-dir", workspace, "--questions", tmp_path / "none.jsonl")
    assert result.exit_code == 3
    assert "no answerable question" in result.stderr
