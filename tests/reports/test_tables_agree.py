"""The headline, the tables and the totals of one run say the same, each through its command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import scripted_llm
from support.commands import invoke, make_project, table
from support.made_runs import Planned, make_run
from support.scripted_llm import ScriptedLLM


class Fails(Planned):
    def predict(self, question, k, repeat=0):  # type: ignore[no-untyped-def]
        raise RuntimeError("the kettle is empty")


def latex_cells(path: Path) -> list[list[str]]:
    lines = re.findall(r"^ {4}(.*) \\\\$", path.read_text(), re.MULTILINE)
    return [[cell.strip() for cell in line.split("&")] for line in lines]


def test_only_the_tested_measure_is_marked_and_systems_without_a_test_are_named(tmp_path: Path) -> None:
    run = make_run(tmp_path, [Planned("low", 0.2), Planned("good", 0.9), Fails("broken", 0)])
    made = invoke("report", run.directory, "--latex", tmp_path / "t.tex")
    assert made.exit_code == 0, made.output
    heading, *rows = latex_cells(tmp_path / "t.tex")
    place = heading.index(r"strict\_hit@1")
    marked = {(row[0], at) for row in rows for at, cell in enumerate(row) if "dagger" in cell}
    assert marked == {("good", place)}
    [caption] = re.findall(r"\\caption\{(.*)\}", (tmp_path / "t.tex").read_text())
    assert caption.endswith("; not compared: broken.")


def test_the_headline_has_the_direction_of_the_table(tmp_path: Path) -> None:
    run = make_run(tmp_path, [Planned("first", 0.9), Planned("second", 0.3)], latency_sample=0)
    assert invoke("report", run.directory).exit_code == 0
    [row] = table(run.directory / "comparisons.csv")
    difference = 100 * float(row["difference"])
    assert difference < 0
    shown = f"second: −{-difference:.1f} points"
    for text in (invoke("show", run.directory).output, (run.directory / "report.md").read_text()):
        assert shown in " ".join(text.split())
        assert f"+{-difference:.1f} points" not in text


def test_the_total_of_the_calls_is_that_of_the_table(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    with ScriptedLLM(scripted_llm.first_shown) as server:
        words = ("--hybrid-base-url", server.base_url, "--hybrid-model", "m", "--latency-sample", 3)
        places = ("--data-dir", project / "data", "--reports", project / "reports")
        result = invoke("benchmark", *places, "--predictor", "hybrid", *words)
    assert result.exit_code == 0, result.output
    [made] = (project / "reports").iterdir()
    calls = table(made / "llm_calls.csv")
    tokens = sum(int(call["prompt_tokens"]) + int(call["completion_tokens"]) for call in calls)
    assert f"LLM: {len(calls)} calls, {tokens:,} tokens" in result.stderr


def test_chunk_tokens_above_the_embedders_limit_are_reported_with_the_effective_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path)
    monkeypatch.chdir(project)
    (project / "x.toml").write_text(
        'name = "sizes"\n[benchmark]\nlatency_sample = 0\n[systems.local]\nindex = "sizes"\n'
        "[indexes.sizes]\nsweep = { chunk_tokens = [256, 1024] }\n"
    )
    result = invoke("run", "x.toml")
    assert result.exit_code == 0, result.output
    assert "chunk_tokens is 1024" in result.stderr
    assert "at most 510" in result.stderr
    [made] = (project / "reports").iterdir()
    section = (made / "report.md").read_text().split("\n## Chunking\n")[1].split("\n## ")[0]
    assert "sections, 254 tokens (of 256) |" in section
    assert "sections, 510 tokens (of 1024) |" in section


def test_a_sweep_is_sorted_and_named_by_what_differs(tmp_path: Path) -> None:
    names = [f"local[rrf_k={k}, cap=20, bm25_weight=0.5]" for k in (2, 10, 60)]
    arms = [Planned(name, share) for name, share in zip(names, (0.2, 0.9, 0.5), strict=True)]
    run = make_run(tmp_path, [*arms, Planned("plain", 0.7)], latency_sample=0)
    assert invoke("report", run.directory).exit_code == 0
    order = ["rrf_k=10", "plain", "rrf_k=60", "rrf_k=2"]
    shown = invoke("show", run.directory).output.splitlines()
    assert [line.split()[0] for line in shown if re.match(r"(rrf_k=|plain )", line)] == order
    report = (run.directory / "report.md").read_text()
    first = report.split("| predictor | LLM |")[1].split("\n\n")[0].splitlines()[2:]
    assert [line.split("|")[1].strip(" *") for line in first] == order
    assert [row["predictor"] for row in table(run.directory / "summary.csv")] == [*names, "plain"]
