"""Retrievers of the user's own as tables of an experiment: classes, frameworks, HTTP endpoints, TREC runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from support.commands import QUESTIONS, invoke, json_lines, make_project, table
from support.loopback import RawServer, says

from branchrank.core.errors import UsageError
from branchrank.runs.bench.experiment import plan_from_experiment
from branchrank.runs.bench.plan import check_plan, estimate_plan

HEAD = 'name = "outside"\ndata_dir = "{0}/data"\n'
#: The ids of a TREC run, best first, and the lines that each names. Unknown ids keep their ranks.
PLACES = {
    "guide/cleaning.md": ("guide/cleaning.md", 1, 7),
    "guide%2Fbrewing.md:5-8": ("guide/brewing.md", 5, 8),
    "install.rst#upgrading": ("install.rst", 11, 15),
    "install.rst#upgrading@1": ("install.rst", 11, 15),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_project(tmp_path_factory.mktemp("outside"))
    ids = list(enumerate(["nowhere.md", "guide/brewing.md:5-900", *PLACES]))
    lines = [f"{each['id']} Q0 {name} 0 {9 - rank} x\n" for each in QUESTIONS for rank, name in ids]
    (folder / "run.txt").write_text("".join(lines))
    return folder


def run(project: Path, tables: str) -> tuple[Path, int, str]:
    file = project / "outside.toml"
    file.write_text(HEAD.format(project) + tables)
    before = set((project / "reports").glob("*"))
    result = invoke("run", file, "--reports", project / "reports", "--latency-sample", 2)
    made = set((project / "reports").glob("*")) - before
    return made.pop() if made else Path(), result.exit_code, result.stderr


@pytest.mark.full
def test_classes_frameworks_and_trec_runs_are_systems_of_an_experiment(project: Path) -> None:
    made, code, errors = run(
        project,
        f"""
        [systems.bm25]
        [systems.pages]
        predictor = "support.predictors:WholePages"
        [systems.quiet]
        predictor = "langchain:support.pipelines:brewing"
        llm = "none"
        [systems.written]
        predictor = "trec:{project}/run.txt"
        """,
    )
    assert code == 0, errors
    summary = {row["predictor"]: row for row in table(made / "summary.csv")}
    assert {name: (row["llm"], row["llm_calls_per_query"]) for name, row in summary.items()} == {
        "bm25": ("none", "0"),
        "pages": ("not reported", ""),
        "quiet": ("none", "0"),
        "written": ("not reported", ""),
    }
    assert [bool(row["latency_p50_ms"]) for row in summary.values()] == [True, True, True, False]
    recorded = json.loads((made / "run.json").read_text())["predictors"]
    assert [each["origin"] for each in recorded][2] == "langchain:support.pipelines:brewing"
    [row] = [
        row
        for row in json_lines(made / "rows.jsonl")
        if (row["predictor"], row["question_id"]) == ("written", "upgrade")
    ]
    found = [(hit["source"], hit["line_start"], hit["line_end"]) for hit in row["hits"]]
    assert found[2:] == list(PLACES.values()), "an id that names nothing keeps its rank"
    assert summary["written"]["missing_hits"] == "16"

    verified = invoke("verify", made, "--rerun", 1, "--data-dir", project / "data")
    assert "not rerun: quiet: it calls langchain:support.pipelines:brewing" in verified.output
    trusted = invoke("verify", made, "--rerun", 8, "--trust", "--data-dir", project / "data")
    assert "rerun: 32 of 32 answers" in trusted.output


def test_every_problem_with_such_tables_is_listed(project: Path) -> None:
    (project / "wrong.toml").write_text(
        HEAD.format(project)
        + """
        [systems.both]
        predictor = "support.predictors:Broken"
        branches = []
        from = "local"
        modle = 3
        [systems.builtin]
        predictor = "local"
        [systems.http]
        predictor = "api"
        [systems.local]
        predictor = "support.predictors:WholePages"
        endpoint = "http://127.0.0.1:9"
        [systems.empty]
        predictor = "trec:nowhere.txt"
        """
    )
    with pytest.raises(UsageError) as caught:
        plan_from_experiment(project / "wrong.toml")
    for problem in (
        "[systems.both] branches can't be combined with predictor",
        "[systems.both] from can't be combined with predictor",
        "[systems.both] unknown key 'modle'",
        "[systems.both] predictor 'support.predictors:Broken': OSError: no such model",
        "[systems.builtin] predictor = 'local' is not a retriever of your own; write from = \"local\"",
        '[systems.http] predictor = "api" needs endpoint',
        "[systems.local] endpoint and target belong to",
        "[systems.empty] ",
    ):
        assert problem in caught.value.message


CODE = {
    "predictor": """
        [systems.mine]
        predictor = "found_here.mine:Mine"
        """,
    "pipeline": """
        [systems.mine]
        predictor = "langchain:found_here.mine:Mine"
        llm = "none"
        """,
    "chunker": """
        [systems.local]
        index = "own"
        [indexes.own]
        chunker = "found_here.mine:Mine"
        """,
    "swept chunker": """
        [systems.local]
        index = "own"
        [indexes.own]
        sweep = { chunker = ["window", "found_here.mine:Mine"] }
        """,
}


@pytest.mark.parametrize("kind", CODE)
def test_code_of_an_experiment_is_named_before_it_runs_and_not_run_by_a_dry_run(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    (tmp_path / "found_here").mkdir()
    for name in ("__init__.py", "mine.py"):
        text = f"import pathlib; pathlib.Path({str(tmp_path / 'executed')!r}).touch()\n"
        (tmp_path / "found_here" / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "x.toml"
    file.write_text(HEAD.format(project) + CODE[kind])
    dry = invoke("run", file, "--dry-run")
    assert dry.exit_code == 0, dry.output
    assert dry.stderr.count("found_here.mine:Mine") == 1
    assert len(estimate_plan(plan_from_experiment(file, dry_run=True)).predictors) == 1 + (kind[0] == "s")
    assert not (tmp_path / "executed").exists()
    named: list[tuple[bool, bool]] = []
    with pytest.raises(UsageError, match="Mine"):  # the module lacks it
        check_plan(
            plan_from_experiment(
                file, notify=lambda line: named.append(("mine:Mine" in line, Path("executed").exists()))
            )
        )
    assert named == [(True, False)]
    assert (tmp_path / "executed").exists()
    sys.modules.pop("found_here", None)
    sys.modules.pop("found_here.mine", None)


@pytest.mark.parametrize(
    ("by", "host", "sent"),
    [
        ("file", "", False),
        ("file", "{}", True),
        ("file", "127.0.0.1", True),
        ("file", "example.org", False),
        ("flag", "", True),
        ("flag", "example.org", False),
    ],
)
def test_the_token_goes_only_to_a_host_that_is_named_outside_the_file(
    project: Path, monkeypatch: pytest.MonkeyPatch, by: str, host: str, sent: bool
) -> None:
    server = RawServer(says(b""))
    monkeypatch.setenv("BRANCHRANK_API_TOKEN", "token-canary")
    monkeypatch.setenv("BRANCHRANK_API_TOKEN_HOST", host.format(server.address))
    if by == "file":
        run(project, f"[systems.http]\npredictor = 'api'\nendpoint = '{server.url}'\n")
    else:
        words = ("--predictor", "api", "--api-endpoint", server.url, "--reports", project / "reports")
        invoke("benchmark", "--data-dir", project / "data", *words)
    server.close()
    assert (b"token-canary" in server.requests[0]) == sent


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("other Q0 install.rst 0 1 x\n", "no results for the questions"),
        ("upgrade Q0 d1 0 1 x\n", "no id, such as 'd1'"),
    ],
)
def test_a_trec_run_about_something_else_is_refused(project: Path, content: str, reason: str) -> None:
    (project / "other.txt").write_text(content)
    refused = invoke("benchmark", "--data-dir", project / "data", "--predictor", f"trec:{project}/other.txt")
    assert refused.exit_code == 3
    assert reason in refused.stderr
