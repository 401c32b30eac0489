"""A run that says nothing about a predictor is written; the command says so first and exits with code 9."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import Result
from support import scripted_llm as scripted
from support.commands import invoke, make_project, table
from support.scripted_llm import ScriptedLLM

from branchrank.core.errors import FailedRunError


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("failed"))


def benchmark(project: Path, reports: Path, *words: object) -> Result:
    quick = ("--latency-sample", 0, "--quiet", "--reports", reports)
    return invoke("benchmark", "--data-dir", project / "data", *quick, *words)


def test_a_predictor_that_fails_every_query_ends_the_command_with_code_9(
    project: Path, tmp_path: Path
) -> None:
    failing = "support.predictors:AlwaysFailing"
    result = benchmark(project, tmp_path, "--predictor", "local", "--predictor", failing)
    assert result.exit_code == FailedRunError.exit_code == 9
    said = "always-failing: all 8 queries failed"
    assert [output.count("always-failing: ") for output in (result.stdout, result.stderr)] == [1, 1]
    assert f"Warning: {said}" in result.stdout
    assert re.search(f"{said}.* 'RuntimeError: ", result.stderr)
    [made] = tmp_path.iterdir()
    assert "all 8 queries failed" in (made / "report.md").read_text(encoding="utf-8")
    assert [row["failures"] for row in table(made / "summary.csv")] == ["0", "8"]
    for words in ((), ("--all-pairs",)):
        assert invoke("compare", made, *words).exit_code == 2
    both = invoke("compare", made, made).stdout
    assert both.count("no verdict") == 1
    assert "always-failing (candidate) vs always-failing (baseline): equivalent" not in both
    assert invoke("gate", made, "--baseline", made).exit_code == 0
    for text in (result.stdout, (made / "report.md").read_text(encoding="utf-8")):
        assert "always-failing vs local" not in text
    assert invoke("verify", made).exit_code == 0


@pytest.mark.parametrize(("failing", "code"), [(8, 9), (7, 0), (1, 0)])
def test_an_llm_that_fails_every_call_ends_the_command_with_code_9(
    project: Path, tmp_path: Path, failing: int, code: int
) -> None:
    def script(chat: scripted.Chat, number: int) -> scripted.Action:
        return scripted.fail(401) if number <= failing else scripted.ids(chat.entries)

    with ScriptedLLM(script) as server:
        words = ("--hybrid-base-url", server.base_url, "--hybrid-model", "m", "--llm-concurrency", 1)
        result = benchmark(project, tmp_path / "reports", "--predictor", "hybrid", *words)
    assert result.exit_code == code, result.output
    assert bool(re.search("hybrid: all 8 LLM calls failed.* 'http 401'", result.stderr)) == (code == 9)
    assert result.stdout.count("Warning: hybrid: ") == 1
    [made] = (tmp_path / "reports").iterdir()
    assert [row["failures"] for row in table(made / "summary.csv")] == ["0"]
    assert (made / "report.html").exists()
