"""``--seal``: a plan written down before it is run, and a run that matches it or is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.commands import QUESTIONS, invoke, make_project, write_lines

from branchrank.core.errors import InputError, UsageError
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.library import BenchmarkOptions, Plan, plan_from_names, run_benchmark, seal_plan
from branchrank.runs.directory import read_run


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("seal"))


@pytest.fixture
def project(built: Path, tmp_path: Path) -> Path:
    """A copy of the project, where no benchmark was run."""
    return shutil.copytree(built, tmp_path / "project", symlinks=True)


def benchmark(project: Path, *words: object) -> tuple[int, str]:
    result = invoke(
        "benchmark",
        *("--data-dir", project / "data", "--reports", project / "reports", "--quiet"),
        *("--predictor", "bm25", "--predictor", "local", "--latency-sample", 0),
        *words,
    )
    return result.exit_code, result.output


def runs(project: Path) -> list[Path]:
    return sorted((project / "reports").glob("*/run.json"))


def test_a_run_that_matches_the_seal_reports_it_and_verifies(project: Path) -> None:
    seal = project / "plan.seal"
    code, output = benchmark(project, "--seal", seal)
    assert code == 0
    assert not runs(project)
    written = json.loads(seal.read_text())
    assert written["digest"] in output
    assert (written["parts"]["benchmark.primary"], written["parts"]["benchmark.alpha"]) == (
        "strict_hit@1",
        0.05,
    )
    code, output = benchmark(project, "--seal", seal)
    assert code == 0, output
    [path] = runs(project)
    record = read_run(path.parent)
    assert record.seal is not None
    assert record.seal.digest == written["digest"]
    report = (path.parent / "report.md").read_text()
    assert f"match the seal {record.seal.file}" in report.replace("\\", "")
    assert invoke("verify", path.parent, "--seal", seal).exit_code == 0


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--alpha", 0.1), "benchmark.alpha"),
        (("--primary", "relaxed_hit@1"), "benchmark.primary"),
        (("--baseline", "local"), "benchmark.baseline"),
        (("--sample-size", 3), "the questions"),
        (("--local-rrf-k", 10), "the predictors"),
        (("--split", "test"), "--split"),
    ],
)
def test_another_plan_is_refused_with_its_differences(
    project: Path, words: tuple[object, ...], part: str
) -> None:
    seal = project / "plan.seal"
    benchmark(project, "--seal", seal)
    code, output = benchmark(project, "--seal", seal, *words)
    assert code == InputError.exit_code
    assert f"{part}: sealed" in output
    assert not runs(project)


def test_another_question_or_corpus_is_refused(project: Path) -> None:
    seal, questions = project / "plan.seal", project / "data" / "benchmark" / "questions.jsonl"
    benchmark(project, "--seal", seal)
    write_lines(questions, QUESTIONS[1:])
    assert "the questions: sealed" in benchmark(project, "--seal", seal)[1]
    write_lines(questions)
    page = project / "docs" / "index.rst"
    page.write_text(page.read_text() + "\nMore.\n")
    code, output = benchmark(project, "--seal", seal)
    assert code == InputError.exit_code
    assert "the corpus: sealed" in output


@pytest.mark.parametrize("content", ["", "{}", '{"digest": "0", "parts": {"benchmark.alpha": 0.5}}'])
def test_a_file_that_is_not_a_seal_is_refused(project: Path, content: str) -> None:
    seal = project / "plan.seal"
    seal.write_text(content)
    assert benchmark(project, "--seal", seal)[0] == InputError.exit_code
    assert not runs(project)


def plan_of(project: Path, *predictors: object) -> Plan:
    folder = WorkspaceFolder.open(project / "data")
    asked = Plan(data_dir=project / "data", settings=folder.settings, reports=project / "reports")
    return plan_from_names(predictors, asked)


def test_the_library_seals_and_runs(project: Path) -> None:
    seal = seal_plan(plan_of(project, "bm25"), project / "own.seal")
    run = run_benchmark(plan_of(project, "bm25"), BenchmarkOptions(seal=project / "own.seal"))
    assert run.record.seal is not None
    assert run.record.seal.digest == seal.digest
    with pytest.raises(UsageError, match="exists"):
        seal_plan(plan_of(project, "bm25"), project / "own.seal")
    with pytest.raises(UsageError, match="Python object"):
        seal_plan(plan_of(project, lambda query, k: []), project / "other.seal")
