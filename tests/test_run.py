"""The public Run: tables, comparisons, cuts and reports of a finished benchmark."""

from __future__ import annotations

import json
import shutil
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from support.commands import invoke
from support.made_runs import Planned, luck, make_questions, make_run

from branchrank.core.errors import RunError, UsageError
from branchrank.library import CompareOptions
from branchrank.run import Run

PLANNED = (Planned("local", 0.4), Planned("hybrid", 0.9), Planned("asked", 0.6, llm="tiny", fails="q0003"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    made = make_run(
        tmp_path_factory.mktemp("run"), PLANNED, make_questions(60, unanswerable=2), latency_sample=5
    )
    return Run.load(made.directory)


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run whose primary measure is not a standard one, with more measures asked for."""
    made = make_run(
        tmp_path_factory.mktemp("named"),
        PLANNED[:2],
        make_questions(60, unanswerable=2),
        latency_sample=0,
        primary="nDCG@10",
        measures="AP, relaxed_R@5, Success(rel=2)@1, strict_hit@1",
    )
    return Run.load(made.directory)


@pytest.mark.parametrize(
    ("frame", "file"),
    [
        ("summary", "summary.csv"),
        ("questions", "questions.csv"),
        ("calls", "llm_calls.csv"),
        ("timings", "timings.csv"),
    ],
)
def test_each_frame_is_its_csv_file(tmp_path: Path, run: Run, frame: str, file: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run.directory, copy)
    if file != "timings.csv":
        (copy / file).unlink()  # the rows are enough
    found = getattr(Run.load(copy), frame)
    texts = list(found.select_dtypes(exclude=["number", "bool"]).columns)
    expected = pd.read_csv(
        run.directory / file, dtype=dict.fromkeys(texts, str), keep_default_na=False, na_values=[""]
    )
    expected[texts] = expected[texts].fillna("")
    pd.testing.assert_frame_equal(found, expected, check_dtype=False, check_exact=True)
    assert len(expected) > 0


def test_frames_keep_text_that_the_csv_files_guard(tmp_path: Path) -> None:
    made = make_run(tmp_path, (Planned("=local", 0.5),), make_questions(4), latency_sample=0)
    assert (made.directory / "summary.csv").read_text().splitlines()[1].startswith("'=local,")
    assert list(made.summary["predictor"]) == ["=local"]


def test_a_positive_difference_means_that_the_candidate_is_better(run: Run) -> None:
    found = run.compare("hybrid", "local")
    questions = [each.id for each in run.asked if each.answerable]
    rates = [
        sum(luck(name, key, 0) < share for key in questions) / 60
        for name, share in (("hybrid", 0.9), ("local", 0.4))
    ]
    assert found.difference == pytest.approx(rates[0] - rates[1])
    assert found.difference > 0
    assert (found.candidate, found.baseline, found.verdict) == ("hybrid", "local", "better")
    back = run.compare("local", "hybrid")
    assert back.difference == pytest.approx(-found.difference)
    assert back.verdict == "worse"


def test_a_declared_comparison_is_the_one_of_the_report(run: Run) -> None:
    assert run.compare("hybrid") == run.judgment.comparisons[0]
    assert run.compare("hybrid").family == 2
    assert run.compare("asked", "hybrid").family == 1
    assert run.compare("hybrid", "local", "relaxed_hit@5").measure == "relaxed_hit@5"
    assert run.compare("hybrid", "local", delta=0.2).delta == 0.2


def test_unknown_predictors_get_the_nearest_name(run: Run) -> None:
    for ask in (
        lambda: run.compare("hybird", "local"),
        lambda: run.compare("local", "hybird"),
        lambda: run.explain("q0000", ["hybird"]),
        lambda: run.compare_with(run, CompareOptions(predictor="hybird")),
    ):
        with pytest.raises(UsageError, match=r"no predictor 'hybird'\n.*did you mean `hybrid`") as refused:
            ask()
        assert refused.value.exit_code == 2
    with pytest.raises(UsageError, match="did you mean `q0001`"):
        run.explain("q00001")
    with pytest.raises(UsageError, match="did you mean `kind`"):
        run.where("kinds=howto")
    with pytest.raises(UsageError, match="compared with itself"):
        run.compare("local")


def test_two_runs_are_compared_with_the_sign_of_the_candidate(tmp_path: Path) -> None:
    old = make_run(tmp_path / "a", (Planned("local", 0.3),), latency_sample=0)
    new = make_run(tmp_path / "b", (Planned("local", 0.9),), latency_sample=0)
    [pair] = new.compare_with(old).pairs
    assert pair.comparison.difference > 0
    assert pair.comparison.verdict == "better"
    assert new.gate(old).outcome == "pass"
    assert old.gate(new).outcome == "fail"
    printed = invoke("compare", old.directory, new.directory)
    assert printed.stdout.splitlines()[:2] == [f"baseline: {old.directory}", f"candidate: {new.directory}"]
    assert f"+{100 * pair.comparison.difference:.1f} points" in printed.stdout


def test_runs_of_other_predictors_are_compared_if_there_is_one_in_each(tmp_path: Path) -> None:
    def made(*names: str) -> Run:
        planned = [Planned(name, 0.5) for name in names]
        return make_run(tmp_path / "-".join(names), planned, make_questions(6), latency_sample=0)

    one, other, two = made("one"), made("other"), made("three", "four")
    [pair] = other.compare_with(one).pairs
    assert (pair.comparison.baseline, pair.comparison.candidate) == ("one", "other")
    for candidate, baseline in ((two, one), (one, two), (two, made("five", "six"))):
        with pytest.raises(UsageError, match="in common"):
            candidate.compare_with(baseline)
    [chosen] = two.compare_with(one, CompareOptions(predictor="four", baseline="one")).pairs
    assert (chosen.comparison.baseline, chosen.comparison.candidate) == ("one", "four")


@pytest.mark.full
def test_a_run_loads_from_another_working_directory(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    loaded = Run.load(str(run.directory))
    pd.testing.assert_frame_equal(loaded.summary, run.summary)
    assert loaded.report(into=tmp_path / "again")[0].is_file()
    with pytest.raises(RunError, match="nowhere"):
        Run.load("nowhere")


def test_a_run_without_its_questions_is_damaged(run: Run, tmp_path: Path) -> None:
    damaged = Path(shutil.copytree(run.directory, tmp_path / "run"))
    (damaged / "questions.jsonl").unlink()
    with pytest.raises(RunError, match=r"questions\.jsonl") as refused:
        Run.load(damaged)
    assert "--questions" not in refused.value.remedy


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"predictor": "other"}, "unknown predictor 'other'"),
        ({"question_id": "other"}, "unknown: 'other'"),
        ("questions.jsonl", "questions.jsonl does not have the question 'q0000'"),
    ],
)
def test_a_run_with_rows_of_something_else_is_refused(
    run: Run, tmp_path: Path, change: dict[str, str] | str, reason: str
) -> None:
    damaged = Path(shutil.copytree(run.directory, tmp_path / "run"))
    path = damaged / (change if isinstance(change, str) else "rows.jsonl")
    first, rest = path.read_text(encoding="utf-8").split("\n", 1)
    changed = "" if isinstance(change, str) else json.dumps(json.loads(first) | change) + "\n"
    path.write_text(changed + rest, encoding="utf-8")
    with pytest.raises(RunError) as refused:
        Run.load(damaged)
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"predictors": []}, "does not list at least one predictor and one question"),
        ({"schema_version": 1}, "schema_version"),
    ],
)
def test_a_record_that_is_empty_or_of_another_version_is_refused(
    run: Run, tmp_path: Path, changes: dict[str, object], reason: str
) -> None:
    damaged = Path(shutil.copytree(run.directory, tmp_path / "run"))
    path = damaged / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes), encoding="utf-8")
    with pytest.raises(RunError, match=reason):
        Run.load(damaged)


def test_a_mistyped_run_gets_the_nearest_one(run: Run) -> None:
    shown = invoke("show", run.directory.with_name(f"{run.directory.name}x"))
    assert shown.exit_code == RunError.exit_code
    assert f"did you mean `{run.directory}`?" in shown.stderr


class Texts(HTMLParser):
    """The tags and the text of a piece of HTML."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.cells: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.cells.append(data)


def test_a_notebook_shows_the_table_and_the_plot_escaped(tmp_path: Path) -> None:
    nasty = "<script>alert(1)</script>"
    made = make_run(
        tmp_path, (Planned("local", 0.5), Planned(nasty, 0.6)), latency_sample=0, experiment="<b>x"
    )
    page = made._repr_html_()
    found = Texts(page)
    assert "script" not in found.tags
    assert "b" not in found.tags
    assert nasty in found.cells
    assert found.tags.count("svg") == 1
    assert any(cell.startswith("<b>x, 60 questions") for cell in found.cells)
    svg = ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])
    assert nasty in "".join(svg.itertext())
    rate = made.summary_rows[0].rates["strict_hit@1"]
    assert rate is not None
    assert f"{100 * rate:.1f}%" in found.cells


def test_the_repr_of_a_run_describes_it(run: Run) -> None:
    assert repr(run) == f"<Run {run.directory.name}: 62 questions, local, hybrid, asked>"
    assert repr(run.where("kind=lookup")).endswith(": 20 questions, kind=lookup, local, hybrid, asked>")


def test_a_run_prints_the_output_of_show(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.print()
    printed = capsys.readouterr().out
    assert invoke("show", run.directory).stdout == f"{printed}report: {run.directory}/report.html\n"
    run.print(verbose=True)
    assert "hybrid vs local: better" in capsys.readouterr().out


def test_a_cut_is_a_run_that_does_not_overwrite_reports(run: Run, tmp_path: Path) -> None:
    cut = run.where("kind=lookup")
    assert isinstance(cut, Run)
    assert set(cut.questions["kind"]) == {"lookup"}
    assert cut.summary["questions"].tolist() == [20, 20, 20]
    with pytest.raises(UsageError, match="into="):
        cut.report()
    with pytest.raises(UsageError, match=str(run.directory)):
        cut.report(into=run.directory)
    paths = cut.report(into=tmp_path / "cut")
    assert "kind=lookup" in paths[0].read_text(encoding="utf-8")


def test_a_run_is_reported_verified_explained_and_exported(run: Run, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run.directory, copy)
    own = Run.load(copy)
    (copy / "plots").mkdir(exist_ok=True)
    left = [folder / f".name.{16 * '0'}.tmp" for folder in (copy, copy / "plots")]
    for path in left:
        path.touch()
    assert [path.name for path in own.report()[:2]] == ["report.md", "report.html"]
    assert not any(path.exists() for path in left), "temporary files of killed commands"
    assert own.verify().findings == ()
    (copy / "summary.csv").write_text("predictor\n")
    assert {finding.file for finding in own.verify().findings} == {"summary.csv"}
    explained = own.explain("q0000", ["local"])
    assert [row.predictor for row in explained.rows] == ["local"]
    missed = next(
        row for row in own.rows if row.predictor == "local" and all(hit.gold is None for hit in row.hits)
    )
    assert "local: gold not" in str(own.explain(missed.question_id, ["local"]))
    assert str(explained) == invoke("explain", copy, "q0000", "--predictor", "local").stdout.rstrip("\n")
    names = {path.name for path in own.export_trec(tmp_path / "trec")}
    assert names == {"qrels.txt", "local.run", "hybrid.run", "asked.run"}


def test_measures_by_name_are_columns_after_the_others(run: Run, named: Run) -> None:
    asked = ["nDCG@10", "AP", "relaxed_R@5", "Success(rel=2)@1"]
    bounds = [f"{name}_{end}" for name in asked for end in ("low", "high")]
    assert list(named.summary.columns) == [*run.summary.columns, *asked, *bounds]
    assert list(named.questions.columns) == [*run.questions.columns, *asked]
    questions = named.questions[named.questions["outcome"] != "unanswerable"]
    means = questions.groupby("predictor")[asked].mean()
    text = named.report()[0].read_text(encoding="utf-8")
    for _, row in named.summary.iterrows():
        low, value, high = (row[f"AP{end}"] for end in ("_low", "", "_high"))
        assert low < value < high
        assert f"{value:.3f} ({low:.3f}–{high:.3f})" in text
    for _, row in named.summary.iterrows():
        for name in asked:
            assert row[name] == pytest.approx(means.loc[row["predictor"], name], abs=1e-5)
    # One gold item each, so that these are functions of its rank.
    ranks = questions["strict_rank"]
    assert questions["AP"].tolist() == pytest.approx((1 / ranks).fillna(0).tolist(), abs=1e-5)
    assert named.questions.loc[named.questions["outcome"] == "unanswerable", asked].isna().all(axis=None)


def test_the_primary_measure_is_in_every_table(named: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert named.judgment.measure == "nDCG@10"
    named.print()
    table = capsys.readouterr().out.split("\n\n")[2]
    _, header, *lines = table.splitlines()
    assert header.split()[5] == "nDCG@10"
    rate = named.summary_rows[0].rates["nDCG@10"]
    assert rate is not None
    assert lines[0].split()[5] == f"{rate:.3f}"
    text = named.report()[0].read_text(encoding="utf-8")
    [heading] = [line for line in text.splitlines() if line.startswith("| predictor | strict MRR@5")]
    assert heading.endswith("| nDCG@10 | AP | relaxed R@5 |")
    assert "relaxed hit@5 | nDCG@10 |" in text
    assert named.verify().findings == ()


def test_a_primary_of_another_name_is_shown_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = make_run(tmp_path, PLANNED[:2], latency_sample=0, primary="Success@1")
    assert made.summary["Success@1"].tolist() == made.summary["strict_hit@1"].tolist()
    made.print()
    assert "Success@1" not in capsys.readouterr().out.splitlines()[1]


def test_a_run_in_memory_is_the_run_on_the_disk(tmp_path: Path) -> None:
    made = make_run(tmp_path, PLANNED, latency_sample=3)
    loaded = Run.load(made.directory)
    assert made.record == loaded.record
    assert made.judgment == loaded.judgment
    for frame in ("summary", "questions", "calls", "timings"):
        pd.testing.assert_frame_equal(getattr(made, frame), getattr(loaded, frame))
