"""Tuning: no fold sees the questions that it is scored on, and the choice is written when asked."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import msgspec
import pytest
from support.commands import invoke, json_lines, make_project, write_lines

from branchrank import library
from branchrank.bench.resume import RunAccess, plan_from_run
from branchrank.bench.tuning import _chosen
from branchrank.errors import BranchRankError, UsageError
from branchrank.runs.directory import read_run, write_run
from branchrank.settings import Bm25Settings

EXPERIMENT = """# kept
name = "tea"
data_dir = "{data}"

[systems.local]
fusion = "score"

[systems.late-interaction]
rerank.method = "none"
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("tuning"))


@pytest.fixture
def experiment(project: Path, tmp_path: Path) -> Path:
    path = tmp_path / "tea.toml"
    path.write_text(EXPERIMENT.format(data=project / "data"))
    return path


def questions_of(project: Path) -> Path:
    return project / "data" / "benchmark" / "questions.jsonl"


def tuned(experiment: Path, project: Path, *words: object) -> str:
    flags = ("--folds", 2, "--budget", 6, "--quiet")
    result = invoke("tune", experiment, "--on", questions_of(project), *flags, *words)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_tuning_is_deterministic_and_gives_every_system_the_same_budget(
    experiment: Path, project: Path
) -> None:
    before = experiment.read_text()
    shown = tuned(experiment, project)
    assert shown.count("6 combinations tried") == 2
    tuning = library.tune(experiment, questions_of(project), folds=2, budget=6)
    assert tuning == library.tune(experiment, questions_of(project), folds=2, budget=6)
    assert experiment.read_text() == before
    local, late = tuning.systems
    assert (local.points, late.points) == (6, 6)
    assert local.own == {"bm25_weight": 1.0, "k1": 0.9, "b": 0.4}
    assert late.own == {"bm25_weight": 1.0, "maxsim_weight": 1.0, "k1": 0.9, "b": 0.4}
    for each in tuning.systems:
        assert f"{each.gain:+.3f}" in shown
        assert each.interval is None or each.interval.low <= each.gain <= each.interval.high
        assert each.gain == pytest.approx(each.validated - each.before)


def test_tuned_systems_are_written_beside_the_originals_with_their_origin(
    experiment: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuning = library.tune(experiment, questions_of(project), folds=2, budget=2)
    changes = {"bm25_weight": 1.5, "k1": 1.2, "b": 0.4}
    toml = (
        '[systems.local-tuned]\nfrom = "local"\norigin = "tuned"\nindex = "local-tuned"\nbm25_weight = 1.5\n'
        "[indexes.local-tuned.bm25]\nk1 = 1.2\nb = 0.4\n"
    )
    made = msgspec.structs.replace(tuning, toml=toml)
    for _ in range(2):  # the second replaces the first
        library.write_tuned(experiment, made)
    content = experiment.read_text()
    assert content.startswith("# kept\n")
    assert list(tomllib.loads(content)["systems"]) == ["local", "late-interaction", "local-tuned"]
    reports = experiment.parent / "reports"
    monkeypatch.chdir(experiment.parent)
    result = invoke("run", experiment, "--reports", reports, "--latency-sample", 0, "--quiet")
    assert result.exit_code == 0, result.output
    [path] = reports.glob("*/run.json")
    record = json.loads(path.read_text())
    assert {each["name"]: each.get("origin", "") for each in record["predictors"]} == {
        "local": "",
        "late-interaction": "",
        "local-tuned": "tuned",
    }
    words = record["index_settings"]["local-tuned"]["bm25"]
    assert {name: words[name] for name in ("k1", "b")} == {name: changes[name] for name in ("k1", "b")}
    assert "bm25" not in record["index_settings"]["default"]
    # A tuned system is not tuned again.
    again = library.tune(experiment, questions_of(project), folds=2, budget=2)
    assert [each.system for each in again.systems] == ["local", "late-interaction"]


def test_a_resumed_run_keeps_the_bm25_of_its_index_and_the_origin(
    experiment: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with experiment.open("a") as file:
        file.write(
            '[systems.words]\nbranches = [{ kind = "bm25", top_n = 5 }]\nfuse.method = "none"\n'
            '[systems.flat]\nfrom = "words"\norigin = "tuned"\nindex = "flat"\n'
            "[indexes.flat]\nbm25 = { k1 = 0.0, b = 0.0 }\n"
        )
    reports = experiment.parent / "reports"
    monkeypatch.chdir(experiment.parent)
    assert invoke("run", experiment, "--reports", reports, "--latency-sample", 0, "--quiet").exit_code == 0
    [directory] = reports.iterdir()
    rows = {(row["predictor"], row["question_id"]): row for row in json_lines(directory / "rows.jsonl")}
    scores = [[hit["score"] for hit in rows[name, "stains"]["hits"]] for name in ("words", "flat")]
    assert scores[0] != scores[1]
    record = read_run(directory)
    write_run(directory, msgspec.structs.replace(record, status="running"))
    plan = plan_from_run(directory, RunAccess(data_dir=project / "data", questions=questions_of(project)))
    words = plan.indexes["flat"].part(Bm25Settings)
    assert (words.k1, words.b) == (0.0, 0.0)
    assert plan.indexes["default"].part(Bm25Settings).k1 == 0.9
    assert [each.origin for each in plan.predictors] == ["", "", "", "tuned"]


def test_no_fold_is_scored_with_values_tuned_on_it() -> None:
    # Each point is right on one half only: what is best without a half is wrong on it.
    clusters = {str(number): str(number) for number in range(10)}
    fold_of = {key: int(key) % 2 for key in clusters}
    own = {key: float(fold_of[key] == 0 or key == "1") for key in clusters}
    other = {key: float(fold_of[key] == 1) for key in clusters}
    points = [{"k1": 0.9}, {"k1": 1.2}]
    found = _chosen("s", points, [own, other], clusters, fold_of)
    assert (found.before, found.validated) == (0.6, 0.1)
    assert found.gain == pytest.approx(-0.5)
    assert (found.chosen, found.changes, found.agreeing) == (points[0], {}, 1)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("[systems.local]\nsweep = { rrf_k = [1, 2] }\n", "sweep"),
        ('[systems.hybrid]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n', "LLM"),
        ('[systems.local]\norigin = "tuned"\n', "no system that can be tuned"),
        ('[systems.local]\norigin = "mined"\n', "origin"),
        ("[systems.local]\n[indexes.default]\nbm25 = 3\n", "must be a table"),
    ],
)
def test_untunable_systems_are_refused_before_any_work(
    project: Path, tmp_path: Path, table: str, told: str
) -> None:
    path = tmp_path / "e.toml"
    path.write_text(f'name = "e"\ndata_dir = "{project / "data"}"\n{table}')
    with pytest.raises(UsageError, match=told):
        library.tune(path, questions_of(project), folds=2, budget=2)


def test_fewer_documents_than_folds_are_refused(experiment: Path, project: Path, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in questions_of(project).read_text().splitlines()]
    few = write_lines(tmp_path / "few.jsonl", lines[:2])
    result = invoke("tune", experiment, "--on", few, "--folds", 2, "--quiet")
    assert result.exit_code != 0
    with pytest.raises(BranchRankError, match="too few for 2 folds"):
        library.tune(experiment, few, folds=2, budget=2)
