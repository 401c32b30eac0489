"""``--on-llm-failure``: an endpoint that does not answer before the first question, at every door.

It decides nothing else: a call that fails later always takes the fallback and is marked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support import scripted_llm as scripted
from support.commands import invoke, json_lines, make_project, table
from support.http_server import running
from support.scripted_llm import Action, Chat, ScriptedLLM

from branchrank import Workspace
from branchrank.core.io.keys import Access
from branchrank.frontends.serve.http_api import application
from branchrank.frontends.serve.service import Service, Workers
from branchrank.search.llm.client import UnreachableError

NOWHERE = "http://127.0.0.1:9/v1"
QUESTION = "which temperature for green tea"
HYBRID = ("--hybrid-base-url", NOWHERE, "--hybrid-model", "m", "--llm-retries", 0)
FALLBACK = ("--on-llm-failure", "fallback")
QUICK = ("--latency-sample", 0, "--quiet")
MARK = "rerank: connection"
EXPERIMENT = f"""
name = "ours"
data_dir = "PROJECT/data"

[systems.reranked]
branches = [
    {{ kind = "dense", expand = {{ depth = 1 }} }},
    {{ kind = "bm25", unit = "node" }},
]
rerank = {{ method = "llm" }}
llm = {{ base_url = "{NOWHERE}", model = "m" }}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("failure"))


def starting(project: Path, reports: Path, experiment: Path) -> dict[str, tuple[object, ...]]:
    data = ("--data-dir", project / "data")
    return {
        "benchmark": ("benchmark", *data, "--predictor", "hybrid", *HYBRID, *QUICK, "--reports", reports),
        "run": ("run", experiment, "--llm-retries", 0, *QUICK, "--reports", reports),
        "hybrid": ("hybrid", *data, QUESTION, *HYBRID),
        "serve": ("serve", *data, "--predictor", "hybrid", *HYBRID, "--port", 0),
    }


@pytest.fixture
def commands(project: Path, tmp_path: Path) -> dict[str, tuple[object, ...]]:
    experiment = project / "experiment.toml"
    experiment.write_text(EXPERIMENT.replace("PROJECT", project.as_posix()), encoding="utf-8")
    return starting(project, tmp_path / "reports", experiment)


@pytest.mark.parametrize("name", ["benchmark", "run", "hybrid", "serve"])
@pytest.mark.parametrize("flag", [(), ("--on-llm-failure", "refuse")])
def test_refuse_is_the_default_and_applies_before_any_work(
    commands: dict[str, tuple[object, ...]], tmp_path: Path, name: str, flag: tuple[str, ...]
) -> None:
    result = invoke(*commands[name], *flag)
    assert result.exit_code == (2 if name == "serve" else 7), result.output
    assert f"at {NOWHERE}" in result.stderr
    if name == "benchmark":
        for remedy in ("--hybrid-base-url", "--hybrid-no-llm", "--on-llm-failure"):
            assert remedy in result.stderr
    assert not (tmp_path / "reports").exists()
    assert result.stdout == ""


@pytest.mark.parametrize(("name", "system"), [("benchmark", "hybrid"), ("run", "reranked")])
def test_a_run_with_the_fallback_continues_and_is_marked(
    commands: dict[str, tuple[object, ...]], tmp_path: Path, name: str, system: str
) -> None:
    result = invoke(*commands[name], *FALLBACK)
    assert result.exit_code == 9, "all calls failed"
    assert f"at {NOWHERE}" in result.stderr
    [made] = (tmp_path / "reports").iterdir()
    rows = json_lines(made / "rows.jsonl")
    assert len(rows) == 8
    assert {tuple(row["fallbacks"]) for row in rows} == {(MARK,)}
    assert {hit["fallback"] for row in rows for hit in row["hits"]} == {MARK}
    [line] = table(made / "summary.csv")
    assert (line["predictor"], line["fallbacks"], line["failures"]) == (system, "8", "0")
    assert (made / "report.html").exists()


def test_a_search_with_the_fallback_answers_and_is_marked(commands: dict[str, tuple[object, ...]]) -> None:
    result = invoke(*commands["hybrid"], *FALLBACK, "--json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["fallbacks"] == [MARK]
    assert len(answer["hits"]) == 5
    assert {hit["fallback"] for hit in answer["hits"]} == {MARK}


def test_a_search_needs_no_model_to_fall_back(project: Path) -> None:
    """The endpoint would have named it."""
    words = ("--data-dir", project / "data", "--hybrid-base-url", NOWHERE, "--llm-retries", 0)
    result = invoke("hybrid", QUESTION, *words, *FALLBACK, "--json")
    assert json.loads(result.stdout)["fallbacks"] == [MARK]


@pytest.fixture
def service(project: Path) -> Iterator[Service]:
    settings = {"hybrid.base_url": NOWHERE, "hybrid.model": "m", "llm.retries": 0}
    with Workspace.open(project / "data", settings={**settings, "llm.on_failure": "fallback"}) as workspace:
        yield Service(workspace, ("hybrid",))


def test_a_server_with_the_fallback_answers_and_is_marked(service: Service) -> None:
    service.warm_up()
    workers = Workers(1, 8)
    with running(application(service, workers, Access())) as server:
        response = httpx2.post(f"{server.url}/retrieve", json={"query": QUESTION, "top_k": 3})
    assert response.status_code == 200
    answer: dict[str, Any] = response.json()
    assert answer["fallbacks"] == [MARK]
    assert [hit["fallback"] for hit in answer["hits"]] == [MARK] * 3


def test_the_library_and_the_workspace_file_accept_the_setting(project: Path, tmp_path: Path) -> None:
    url = {"hybrid.base_url": NOWHERE, "hybrid.model": "m", "llm.retries": 0}
    with Workspace.open(project / "data", settings=url) as workspace, pytest.raises(UnreachableError):
        workspace.search(QUESTION, "hybrid")
    file = project / "data" / "branchrank.toml"
    before = file.read_text(encoding="utf-8")
    file.write_text(before + '\n[llm]\non_failure = "fallback"\n', encoding="utf-8")
    try:
        with Workspace.open(project / "data", settings=url) as workspace:
            assert {hit.fallback for hit in workspace.search(QUESTION, "hybrid")} == {MARK}
            run = workspace.benchmark("hybrid", latency_sample=0, reports=tmp_path / "reports")
        assert run.failed
        assert {row.fallbacks for row in run.rows} == {(MARK,)}
    finally:
        file.write_text(before, encoding="utf-8")


@pytest.mark.parametrize("flag", [FALLBACK, ("--on-llm-failure", "refuse")])
def test_a_later_failure_falls_back_regardless_of_the_flag(
    project: Path, tmp_path: Path, flag: tuple[str, ...]
) -> None:
    def script(chat: Chat, number: int) -> Action:
        return scripted.fail(500) if number == 3 else scripted.ids(chat.entries)

    with ScriptedLLM(script) as server:
        words = ("--hybrid-base-url", server.base_url, "--hybrid-model", "m", "--llm-retries", 0)
        reports = tmp_path / "reports"
        data = ("--data-dir", project / "data", "--reports", reports)
        result = invoke("benchmark", *data, "--predictor", "hybrid", *words, *QUICK, *flag)
    assert result.exit_code == 0, result.output
    [made] = reports.iterdir()
    assert [bool(row["fallbacks"]) for row in json_lines(made / "rows.jsonl")].count(True) == 1


@pytest.mark.parametrize("extra", [(), pytest.param(("--jobs", 2), marks=pytest.mark.full)])
def test_the_ledger_has_every_attempt_that_reached_the_server(
    project: Path, tmp_path: Path, extra: tuple[object, ...]
) -> None:
    def script(chat: Chat, number: int) -> Action:
        if number % 3 == 0:
            return scripted.fail(500, Retry_After="0")
        return scripted.say("no list") if number % 4 == 0 else scripted.ids(chat.entries)

    with ScriptedLLM(script) as server:
        words = ("--hybrid-base-url", server.base_url, "--hybrid-model", "m", "--llm-retries", 1)
        arm = ("--data-dir", project / "data", "--predictor", "hybrid", "--sample-seed", 5 + len(extra))
        result = invoke("benchmark", *arm, *words, *extra, "--reports", tmp_path / "reports", "--quiet")
    assert result.exit_code == 0, result.output
    [made] = (tmp_path / "reports").iterdir()
    calls = table(made / "llm_calls.csv")
    assert {"ok"} < {call["outcome"] for call in calls}
    assert sum(int(call["attempt"]) for call in calls) == len(server.requests) > len(calls)
    assert any(line["stage"] == "llm wait" for line in table(made / "timings.csv"))


def test_numbers_of_hundreds_of_digits_are_a_missing_count_and_a_fallback(
    project: Path, tmp_path: Path
) -> None:
    huge = 10**400

    def script(chat: Chat, number: int) -> Action:
        usage = {"prompt_tokens": huge, "completion_tokens": 7}
        return scripted.say("", usage=usage, logprobs={"Yes": -huge, "no": huge})

    with ScriptedLLM(script) as server:
        experiment = EXPERIMENT.replace("PROJECT", project.as_posix()).replace(NOWHERE, server.base_url)
        file = tmp_path / "experiment.toml"
        file.write_text(experiment.replace('method = "llm"', 'method = "pointwise"'), encoding="utf-8")
        result = invoke("run", file, *QUICK, "--reports", tmp_path / "reports")
    assert result.exit_code == 9, result.output
    [made] = (tmp_path / "reports").iterdir()
    assert {row["status"] for row in json_lines(made / "rows.jsonl")} == {"ok"}
    calls = table(made / "llm_calls.csv")
    assert {(call["outcome"], call["reported"]) for call in calls} == {("no log-probabilities", "False")}


@pytest.mark.parametrize("part", ["hybrid", "pageindex"])
@pytest.mark.parametrize("door", ["benchmark", "search"])
def test_a_model_without_an_endpoint_is_refused(project: Path, tmp_path: Path, part: str, door: str) -> None:
    data = ("--data-dir", project / "data")
    words: dict[str, tuple[object, ...]] = {
        "benchmark": ("benchmark", *data, "--predictor", part, *QUICK, "--reports", tmp_path / "reports"),
        "search": ("hybrid", *data, QUESTION),
    }
    if (part, door) == ("pageindex", "search"):
        with Workspace.open(project / "data", settings={"pageindex.model": "m"}) as workspace:
            result = invoke("retrieve", *data, QUESTION, "--predictor", "local")
            assert result.exit_code == 0
            with pytest.raises(Exception, match="no LLM endpoint"):
                workspace.search(QUESTION, "pageindex")
        return
    result = invoke(*words[door], f"--{part}-model", "qwen")
    assert result.exit_code == 2
    assert "'qwen'" in result.stderr
    for remedy in (f"--{part}-base-url", f"--{part}-no-llm"):
        assert remedy in result.stderr
    assert not (tmp_path / "reports").exists()
    without = invoke(*words[door], f"--{part}-model", "qwen", f"--{part}-no-llm")
    assert without.exit_code == 0, without.output


def test_disabling_the_llm_is_not_a_failure(project: Path) -> None:
    """Its order is the fused one, which is another than that of a fallback, and nothing is marked."""
    question = "tea profile temperature and seconds"
    narrow = ("--hybrid-vector-top-n", 3, "--hybrid-neighbor-depth", 0, "--hybrid-file-roots", 0)
    words = ("hybrid", "--data-dir", project / "data", question, "--json", "--top-k", 20, *narrow)
    weights = ("--hybrid-bm25-weight", 50)
    without = json.loads(invoke(*words, *weights, "--hybrid-no-llm").stdout)
    fallen = json.loads(invoke(*words, *weights, *HYBRID, *FALLBACK).stdout)
    assert without["fallbacks"] == []
    assert {hit["fallback"] for hit in without["hits"]} == {None}
    orders = [[hit["id"] for hit in answer["hits"]] for answer in (without, fallen)]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1])
