"""Tuning: no fold sees the questions that it is scored on, and the choice is written when asked."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.commands import invoke, json_lines, make_project, write_lines

from branchrank import library
from branchrank.core.errors import BranchRankError, UsageError
from branchrank.core.settings import Bm25Settings
from branchrank.questions.question_files import load_questions, questions_digest
from branchrank.runs.bench.resume import RunAccess, plan_from_run
from branchrank.runs.bench.tuning import Tuning, _chosen
from branchrank.runs.directory import read_run, write_run

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


WORDS = """name = "words"
data_dir = "{data}"

[systems.words]
branches = [{{ kind = "bm25", top_n = 20 }}]
fuse.method = "none"

[indexes.default.bm25]
k1 = 0.0
b = 1.0
"""


@pytest.fixture
def words(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """An experiment with a poor k1, and questions on which another k1 is better."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "words.toml"
    path.write_text(WORDS.format(data=project / "data"))
    asked = [line for line in json_lines(questions_of(project)) if line.get("answerable", True)]
    golds = [{**line, "id": None, "question": None} for line in asked]
    mixed = [
        {**golds[(number + 4) % len(golds)], "id": line["id"], "question": line["question"]}
        for number, line in enumerate(asked)
    ]
    return path, write_lines(tmp_path / "mixed.jsonl", mixed)


def tune_words(words: tuple[Path, Path], *flags: object) -> Any:
    limits = ("--folds", 2, "--budget", 6, "--primary", "strict_MRR@5", "--quiet")
    return invoke("tune", words[0], "--on", words[1], *limits, "--write", *flags)


def run_words(words: tuple[Path, Path], questions: Path, *flags: object) -> tuple[dict[str, Any], str, str]:
    """Run the experiment, and return its run.json, its report and the printed text."""
    path = words[0]
    path.write_text(f'questions = "{questions}"\n{path.read_text()}')
    result = invoke("run", path, "--reports", questions.stem, "--latency-sample", 0, "--quiet", *flags)
    assert result.exit_code == 0, result.output
    path.write_text(path.read_text().partition("\n")[2])
    [made] = Path(questions.stem).glob("*/run.json")
    return json.loads(made.read_text()), (made.parent / "report.md").read_text(), result.output


def test_a_run_on_the_tuning_questions_is_marked(words: tuple[Path, Path], project: Path) -> None:
    result = tune_words(words)
    assert result.exit_code == 0, result.output
    with words[0].open("a") as file:
        file.write('\n[systems.heir]\nfrom = "words-tuned"\n')
    digest = questions_digest(load_questions(words[1]))
    assert tomllib.loads(words[0].read_text())["systems"]["words-tuned"]["tuned_on"] == digest
    record, report, output = run_words(words, words[1])
    assert [each["tuned_on"] for each in record["predictors"]] == ["", digest, digest]
    for text in (report.splitlines()[0], output.splitlines()[0]):
        assert "words-tuned, heir tuned on these questions" in text.replace("\\", "")
    assert "words-tuned: tuned on these questions" in report.replace("\\", "")
    [run] = Path(words[1].stem).iterdir()
    assert "tuned on these questions" in invoke("show", run, "--where", "kind=how-to").output
    sample = words[1].rename("sample.jsonl")
    assert "tuned on these questions" in run_words(words, sample, "--sample-size", 3)[1]
    other = run_words(words, questions_of(project))
    assert other[0]["predictors"][1]["tuned_on"] == digest
    assert "tuned on these questions" not in other[1]
    assert "scores on questions used for tuning" in other[1], "no split says which questions these are"


def test_a_tuned_system_that_loses_is_written_only_with_force(
    words: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def losing(*given: Any, **options: Any) -> Tuning:
        tuning = library.tune(*given, **options)
        worse = tuple(msgspec.structs.replace(each, gain=-0.03) for each in tuning.systems)
        return msgspec.structs.replace(tuning, systems=worse)

    monkeypatch.setattr("branchrank.frontends.cli.planning.tuning_of", losing)
    before = words[0].read_text()
    result = tune_words(words)
    assert result.exit_code == UsageError.exit_code
    assert "words-tuned: -0.030" in result.stderr
    assert "--force" in result.output
    assert words[0].read_text() == before
    assert tune_words(words, "--force").exit_code == 0
    assert "words-tuned" in words[0].read_text()


@pytest.mark.parametrize(("split", "warned"), [("tuning", True), ("dev", True), ("test", False), ("", False)])
def test_only_a_split_for_tuning_gives_the_caution_about_tuning(
    words: tuple[Path, Path], project: Path, split: str, warned: bool
) -> None:
    words[0].write_text(f'split = "{split}"\n{words[0].read_text()}')
    assert ("scores on questions used for tuning" in run_words(words, questions_of(project))[1]) == warned
