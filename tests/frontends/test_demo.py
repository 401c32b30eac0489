"""``branchrank demo``: the sample copied, indexed and measured, in a folder that may hold something."""

from __future__ import annotations

import tomllib
import webbrowser
from pathlib import Path

import pytest
from support.commands import ROOT, invoke, table

from branchrank.index.embedders import minilm
from branchrank.questions import starter_files

SAMPLE = ROOT / "data" / "sample"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a model, over a few questions, in a folder of the test's own."""
    monkeypatch.setattr(minilm, "is_installed", lambda: False)
    monkeypatch.setenv("BRANCHRANK_BENCHMARK_SAMPLE_SIZE", "5")
    monkeypatch.setenv("BRANCHRANK_BENCHMARK_LATENCY_SAMPLE", "0")
    monkeypatch.chdir(tmp_path)


def runs(folder: Path = Path("branchrank-demo")) -> list[Path]:
    return sorted((folder / "reports").iterdir())


def demo(*words: object):
    return invoke("demo", "--quiet", *words)


def test_the_demo_prints_the_table_and_the_path_of_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the weights of a model, and without an LLM, even if the environment names one."""
    monkeypatch.setenv("BRANCHRANK_HYBRID_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("BRANCHRANK_HYBRID_MODEL", "none")
    done = demo()
    assert done.exit_code == 0, done.output
    (made,) = runs()
    assert f"report: {made}/report.html" in done.stdout
    assert (made / "report.html").is_file()
    rows = table(made / "summary.csv")
    assert [(row["predictor"], row["llm"]) for row in rows] == [
        (name, "none")
        for name in (
            *("local", "local-score", "pageindex", "hybrid", "hybrid-score", "late-interaction"),
            *("bm25", "dense"),
        )
    ]
    assert all(row["predictor"] in done.stdout for row in rows)
    assert "branchrank view\n  branchrank init" in done.stdout
    assert invoke("list").stdout.split()[:2] == [str(made), "finished"]
    assert "no runs" in invoke("list", "--reports", "reports").stderr
    assert "all-MiniLM-L6-v2 are not installed" in done.stderr
    config = Path("branchrank-demo/branchrank.toml")
    assert tomllib.loads(config.read_text())["index"] == {"embedder": "fake"}
    monkeypatch.setattr(minilm, "is_installed", lambda: True)
    starter_files.copy_sample(Path("branchrank-demo"), "all-MiniLM-L6-v2")
    assert tomllib.loads(config.read_text())["index"] == {"embedder": "all-MiniLM-L6-v2"}


@pytest.mark.full
def test_a_second_call_shows_the_finished_run_and_fresh_starts_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a browser only on request, here one of the environment that writes down what it is asked to show."""
    asked, browser = tmp_path / "asked", tmp_path / "browser.sh"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {asked}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    monkeypatch.setattr(webbrowser, "_tryorder", None)  # the environment is read again
    monkeypatch.setattr(webbrowser, "_browsers", {})
    first, again = demo(), demo()
    assert again.stdout == first.stdout
    assert "the finished run" in again.stderr
    assert len(runs()) == 1
    assert invoke("report", runs()[0]).exit_code == 0
    assert not asked.exists()
    assert demo("--open").exit_code == 0
    assert invoke("report", runs()[0], "--open").exit_code == 0
    assert asked.read_text() == 2 * ((tmp_path / runs()[0] / "report.html").as_uri() + "\n")
    assert demo("--fresh").exit_code == 0
    assert len(runs()) == 2


def test_a_second_call_finishes_a_copy_that_was_interrupted() -> None:
    folder = Path("branchrank-demo")
    starter_files.copy_sample(folder, "fake")
    (folder / "sample" / "questions.jsonl").unlink()
    (folder / "sample" / "corpus" / "sqlite.md").unlink()
    (folder / "sample" / "corpus" / "qdrant.md").write_text("# Mine\n")
    starter_files.copy_sample(folder, "fake")
    for path in SAMPLE.rglob("*.*"):
        copied = folder / "sample" / path.relative_to(SAMPLE)
        mine = path.name == "qdrant.md"
        assert copied.read_bytes() == (b"# Mine\n" if mine else path.read_bytes())


@pytest.mark.parametrize("name", ["notes.txt", "branchrank.toml"])
def test_the_demo_does_not_change_a_folder_with_other_files(name: str) -> None:
    mine = Path("branchrank-demo", name)
    mine.parent.mkdir()
    mine.write_text("# mine\n")
    done = demo()
    assert done.exit_code == 2
    assert "fix: choose another folder: branchrank demo branchrank-demo-2" in done.output
    assert [path.name for path in mine.parent.iterdir()] == [name]
    assert mine.read_text() == "# mine\n"


def test_a_link_inside_is_not_followed(tmp_path: Path) -> None:
    starter_files.copy_sample(Path("branchrank-demo"), "fake")
    sample, away = Path("branchrank-demo/sample"), tmp_path / "away"
    sample.rename(away)
    sample.symlink_to(away)
    (away / "questions.jsonl").unlink()
    done = demo()
    assert (done.exit_code, "symbolic link" in done.output) == (4, True)
    assert not (away / "questions.jsonl").exists()
