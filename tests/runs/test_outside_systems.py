"""Retrievers of the user's own as tables of an experiment: classes, frameworks, HTTP endpoints, TREC runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.commands import QUESTIONS, invoke, json_lines, make_project, table

from branchrank.core.errors import UsageError
from branchrank.runs.bench.experiment import plan_from_experiment

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
