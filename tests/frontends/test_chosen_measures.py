"""Measures that a person chooses: on the command line, in an experiment file, in the library."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import benchmark, invoke, json_lines, make_project, table

from branchrank import Workspace
from branchrank.core.errors import UsageError
from branchrank.run import Run

CHOSEN = ("--measure", "nDCG@20", "--measure", "relaxed_AP", "--measure", "RBP(p=0.5)")
NAMES = ["nDCG@20", "relaxed_AP", "RBP(p=0.5)"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("measures"))


@pytest.fixture(scope="module")
def made(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    reports = tmp_path_factory.mktemp("reports")
    return benchmark(project, "--predictor", "bm25", "--predictor", "dense", *CHOSEN, reports=reports)


def test_every_chosen_measure_is_in_every_table(made: Path) -> None:
    shown, brief = invoke("show", made, "--verbose").stdout, invoke("show", made).stdout
    text = (made / "report.md").read_text(encoding="utf-8")
    page = (made / "report.html").read_text(encoding="utf-8")
    frame = Run.load(made).summary
    for name in NAMES:
        spoken = name.replace("_", " ")
        for row in table(made / "summary.csv"):
            assert f"{float(row[name]):.3f} (few pages)" in text
            assert f"{float(row[name]):.3f} (few pages)" in shown
            assert f" {float(row[name]):.3f} " in brief
            assert row[f"{name}_low"] == ""
        for told in (shown, text, page):
            assert spoken in told
        assert name in frame
        assert name in table(made / "questions.csv")[0]
    assert invoke("verify", made).exit_code == 0


def test_the_deepest_measure_sets_how_many_hits_are_stored(made: Path, project: Path, tmp_path: Path) -> None:
    assert Run.load(made).record.top_k == 20
    assert max(len(row["hits"]) for row in json_lines(made / "rows.jsonl")) > 10
    usual = benchmark(project, "--predictor", "bm25", "--measure", "nDCG@7", reports=tmp_path)
    assert Run.load(usual).record.top_k == 10


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--top-k", 10, "--measure", "nDCG@20"), "nDCG@20' needs 20 hits, but --top-k 10 keeps fewer"),
        (("--top-k", 3, "--primary", "strict_hit@5"), "strict_hit@5' needs 5 hits"),
        (("--measure", "nDCG@5000"), "needs 5000 hits, but --top-k 1000"),
        (("--measure", "R@100"), "'R@100' needs 100 hits, and system 'dense' finds at most 40"),
        (("--measure", "nDGC@10"), "did you mean `nDCG@10`?"),
    ],
)
def test_a_measure_that_cannot_be_computed_is_an_error_before_any_work(
    project: Path, tmp_path: Path, words: tuple[object, ...], said: str
) -> None:
    reports = tmp_path / "reports"
    where = ("--data-dir", project / "data", "--reports", reports)
    result = invoke("benchmark", *where, "--predictor", "dense", *words)
    assert result.exit_code == UsageError.exit_code
    assert said in " ".join(result.output.split())
    assert not reports.exists()


def test_an_experiment_file_and_the_library_can_choose_measures(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    file = tmp_path / "x.toml"
    content = 'name = "x"\n[benchmark]\nlatency_sample = 0\nmeasures = {}\n[systems.bm25]\n'
    file.write_text(content.format('["nDCG@20", "Bpref"]'))
    assert invoke("run", file, "--reports", tmp_path / "a", "--quiet").exit_code == 0
    [ran] = (tmp_path / "a").iterdir()
    run = Run.load(ran)
    assert {"nDCG@20", "Bpref"} <= set(run.summary.columns)
    assert run.record.top_k == 20
    file.write_text(content.format('["nDCG@20", "Bprf"]'))
    refused = invoke("run", file)
    assert refused.exit_code == UsageError.exit_code
    assert "did you mean `Bpref`?" in refused.output
    with Workspace.open(project / "data") as workspace:
        options = {"latency_sample": 0, "reports": tmp_path / "b"}
        assert workspace.benchmark("bm25", measures=["R@30"], **options).record.top_k == 30
        with pytest.raises(UsageError, match="R@30"):
            workspace.benchmark("bm25", measures=["R@30"], top_k=20, **options)


def test_compare_and_gate_test_the_primary_measure_and_show_the_others(made: Path) -> None:
    pair = ("--predictor", "dense", "--baseline-predictor", "bm25")
    for words in (("compare", made, made), ("gate", made, "--baseline", made)):
        said = invoke(*words, *pair, "--measure", "R@3").stdout
        for name in (*NAMES, "R@3"):
            [line] = [line for line in said.splitlines() if line.removeprefix("dense: ").startswith(name)]
            assert "over 7 questions" in line
            assert "95% interval, not tested" in line
        assert said.count("strict_hit@1") == 3  # tested, and for each gold level
        tested = invoke(*words, *pair, "--primary", "relaxed_hit@1").stdout
        assert "relaxed_hit@1" in tested
    deep = invoke("compare", made, made, "--measure", "R@21")
    assert deep.exit_code == UsageError.exit_code
    assert "'R@21' needs 21 hits" in deep.output
