"""Systems over several datasets: the command and the library."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import invoke
from support.made_runs import Planned, make_questions, make_run

from branchrank import Run, library
from branchrank.core import errors
from branchrank.reports.datasets import MACRO


def arms(*names: str) -> list[Planned]:
    shares = {"local": 0.4, "hybrid": 0.7, "extra": 0.9}
    return [Planned(name, shares[name]) for name in names]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("datasets")
    both, more = arms("local", "hybrid"), arms("local", "hybrid", "extra")
    made = {
        "small": make_run(folder, both, make_questions(20), experiment="small", latency_sample=0),
        "large": make_run(folder, more, make_questions(60, per_page=2), experiment="large", latency_sample=0),
    }
    return {name: run.directory for name, run in made.items()}


def test_rows_are_systems_and_columns_datasets_with_a_macro_average(runs: dict[str, Path]) -> None:
    found = library.compare_datasets(list(runs.values()))
    assert found.datasets == ("small", "large")
    assert (found.questions, found.pages) == ((20, 60), (20, 30))
    assert [row.name for row in found.systems] == ["local", "hybrid"]
    small, large = (Run.load(path).summary.set_index("predictor")["strict_hit@1"] for path in runs.values())
    for row in found.systems:
        assert [row.means[name].value for name in found.datasets] == pytest.approx(
            [small[row.name], large[row.name]], abs=1e-6
        )
        assert row.means[MACRO].value == pytest.approx((small[row.name] + large[row.name]) / 2, abs=1e-6)
    [compared] = found.comparisons
    assert (compared.baseline, compared.candidate, compared.verdict) == ("local", "hybrid", "better")
    assert any("extra" in note for note in found.notes)
    frame = found.frame
    assert list(frame["dataset"]) == ["small", "large", "macro average"] * 2
    last = frame.iloc[-1]
    assert last["verdict"] == "better"
    assert last["mean"] == pytest.approx(found.systems[1].means[MACRO].value, abs=1e-6)
    assert last["ci_low"] == pytest.approx(compared.ci_low, abs=1e-6)


def test_the_command_prints_text_markdown_and_csv(runs: dict[str, Path], tmp_path: Path) -> None:
    named = [f"{name} docs={path}" for name, path in runs.items()]
    text = invoke("datasets", *named).output
    assert "small docs" in text
    assert "macro average" in text
    assert "hybrid vs local: better over 2 datasets. Macro difference +" in text
    markdown = invoke("datasets", *named, "--format", "markdown").output
    assert "| system | small docs | large docs | macro average |" in markdown
    assert "| **hybrid** |" in markdown
    target = tmp_path / "table.csv"
    assert invoke("datasets", *named, "--format", "csv", "--output", target).exit_code == 0
    assert len(target.read_text(encoding="utf-8").splitlines()) == 7


def test_another_baseline_and_measure(runs: dict[str, Path]) -> None:
    found = library.compare_datasets(runs, baseline="hybrid", measure="strict_MRR@5")
    assert (found.measure, found.baseline) == ("strict_MRR@5", "hybrid")
    assert found.comparisons[0].verdict == "worse"


def test_runs_that_do_not_form_a_table_are_refused(runs: dict[str, Path], tmp_path: Path) -> None:
    other = make_run(tmp_path, arms("extra"), make_questions(30), experiment="other", latency_sample=0)
    graded = make_run(tmp_path, arms("local"), make_questions(31), primary="strict_MRR@5", latency_sample=0)
    small = runs["small"]
    for words, says in (
        ((small,), "two or more datasets"),
        ((small, small), "given twice"),
        ((f"a={small}", f"b={small}"), "same questions"),
        ((small, other.directory), "the runs have no predictor in common"),
        ((small, graded.directory), "--primary"),
        ((small, runs["large"], "--baseline", "hybird"), "did you mean"),
        ((f"a={small}", f"a={runs['large']}"), "or the same name"),
        ((f"a={small}", runs["large"]), "NAME=RUN"),
        ((small, tmp_path / "nowhere"), "nowhere"),
    ):
        result = invoke("datasets", *words)
        assert result.exit_code != 0, words
        assert says in result.output, (words, result.output)
    with pytest.raises(errors.UsageError):
        library.compare_datasets({"one": small})


def test_the_table_as_latex(runs: dict[str, Path], tmp_path: Path) -> None:
    named = [f"{name}_docs={path}" for name, path in runs.items()]
    done = invoke("datasets", *named, "--latex", tmp_path / "table.tex")
    assert done.exit_code == 0, done.output
    text = (tmp_path / "table.tex").read_text(encoding="utf-8")
    found = library.compare_datasets({"small_docs": runs["small"], "large_docs": runs["large"]})
    interval = r"95\% interval"
    assert (
        rf"System & small\_docs & {interval} & large\_docs & {interval} & macro average & {interval} \\"
        in text
    )
    local, hybrid = found.systems
    small = local.means["small_docs"]
    assert f"local & {small.value:.4f} & {small.low:.4f}--{small.high:.4f} & " in text
    macro = hybrid.means[MACRO]
    shown = rf"\textbf{{{macro.value:.4f}}}\rlap{{$^{{\dagger}}$}} & {macro.low:.4f}--{macro.high:.4f} \\"
    assert shown in text
    assert "stratified by dataset" in " ".join(text.split())
    small, large = (len(Run.load(path).clusters) for path in runs.values())
    assert rf"on small\_docs ({small} questions), large\_docs ({large} questions)" in text
