"""Advice from finished runs: limits, runs over the same questions, and what to measure next."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import invoke
from support.made_runs import Planned, make_questions, make_run

from branchrank import library
from branchrank.reports.recommendation import recommendation_text
from branchrank.run import Run
from branchrank.runs.words import milliseconds
from branchrank.search.llm.ledger import ModelPrice, PriceTable

PRICES = PriceTable(date="2026-01-01", models={"model-a": ModelPrice(prompt=1.0, completion=1.0)})
QUESTIONS = make_questions(100, per_page=2)


def run_of(folder: Path, *arms: Planned, **settings: object) -> Run:
    return make_run(folder, arms, QUESTIONS, latency_sample=30, **settings)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    folder = tmp_path_factory.mktemp("advice")
    asked = Planned("asked", 0.9, llm="model-a")
    first = run_of(folder, Planned("local", 0.4), Planned("good", 0.85), experiment="first")
    return first, run_of(folder, Planned("local", 0.4), asked, experiment="second", prices=PRICES)


def test_the_advice_without_limits_is_the_recommendation_of_the_report(runs: tuple[Run, Run]) -> None:
    first, _ = runs
    said = invoke("advise", str(first.directory)).output
    [advice] = library.advise([first.directory])
    assert advice.recommendation == recommendation_text(first)
    assert advice.recommendation.startswith("Use good. ")
    assert advice.recommendation in said
    assert (advice.best, advice.cheapest, advice.open, advice.left_out) == ("good", "good", (), {})


def test_runs_over_the_same_questions_are_merged_and_limits_leave_systems_out(
    runs: tuple[Run, Run],
) -> None:
    paths = [str(run.directory) for run in runs]
    [both] = library.advise(paths)
    assert both.best == "asked"
    assert both.cheapest in ("asked", "good")
    said = invoke("advise", *paths, "--max-cost", "0").output
    assert "left out: asked (cost " in said
    assert "Use good. " in said
    rows = {row.predictor: row.latency_p95_ms for run in reversed(runs) for row in run.summary_rows}
    p95, fastest = min((p95, name) for name, p95 in rows.items())
    none = invoke("advise", *paths, "--max-p95", "0.000001").output
    assert f"fastest is {fastest}, with a p95 of {milliseconds(p95)} ms" in none
    assert "--latency-sample" not in none


def test_the_next_experiment_names_an_open_cheaper_system(tmp_path: Path) -> None:
    run = run_of(tmp_path, Planned("local", 0.5), Planned("close", 0.55))
    [advice] = library.advise([run.directory])
    assert advice.recommendation.startswith("Inconclusive")
    [opened] = advice.open
    assert opened.startswith(f"{'local' if advice.best == 'close' else 'close'} may lose ")
    assert " questions on " in advice.next
    assert "--predictor local" in advice.next
    [wide] = library.advise([run.directory], delta=0.9)
    assert (wide.open, wide.delta) == ((), "90 points")


def test_a_system_with_the_same_hits_is_not_open(tmp_path: Path) -> None:
    same = Planned("same", 0.5)
    same.predict = Planned("local", 0.5).predict  # type: ignore[method-assign]
    [advice] = library.advise([run_of(tmp_path, Planned("local", 0.5), same).directory])
    assert advice.open == ()


def test_without_latency_the_advice_says_so(tmp_path: Path) -> None:
    run = make_run(tmp_path, [Planned("local", 0.5), Planned("good", 0.9)], QUESTIONS, latency_sample=0)
    said = invoke("advise", str(run.directory), "--max-p95", "100").output
    assert "left out: good (" in said
    assert "next: measure the latency" in said


def test_one_name_for_two_systems_is_refused(tmp_path: Path, runs: tuple[Run, Run]) -> None:
    other = run_of(tmp_path, Planned("local", 0.9), Planned("good", 0.1))
    refused = invoke("advise", str(runs[0].directory), str(other.directory))
    assert refused.exit_code == 2
    assert "different hits in" in refused.stderr
