"""compare, gate, explain, report, power: as a user gives them."""

from __future__ import annotations

import json
import re
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.commands import invoke
from support.made_runs import Planned, luck, make_corpus, make_questions, make_run

from branchrank.core.records import Question, Span
from branchrank.core.spec import Branch, Fuse, System
from branchrank.questions.labels import Choice, with_label
from branchrank.runs.directory import RunRecord


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    made = {
        "good": (Planned("local", 0.9),),
        "poor": (Planned("local", 0.2),),
        "close": (Planned("local", 0.8),),
        "named": (Planned("other", 0.9),),
    }
    return {name: make_run(folder, arms, experiment=name, top_k=5).directory for name, arms in made.items()}


@pytest.mark.parametrize(
    ("run", "baseline", "code", "element", "word"),
    [
        ("good", "good", 0, None, "passed"),
        ("good", "poor", 0, None, "passed"),
        ("poor", "good", 1, "failure", "failed"),
        ("close", "good", 0, "skipped", "undecided"),
        ("close --fail-undecided", "good", 10, "error", "undecided"),
    ],
)
def test_gate_has_an_exit_code_and_files_for_each_outcome(
    runs: dict[str, Path], tmp_path: Path, run: str, baseline: str, code: int, element: str | None, word: str
) -> None:
    files = ("--junit", tmp_path / "gate.xml", "--summary", tmp_path / "gate.md")
    run, *flags = run.split()
    result = invoke("gate", runs[run], *flags, "--baseline", runs[baseline], "--delta", "0.02", *files)
    assert result.exit_code == code
    assert result.output.startswith({"passed": "pass:", "failed": "fail:"}.get(word, f"{word}:"))
    assert "n = 60" in result.output
    suites = ElementTree.parse(tmp_path / "gate.xml").getroot()
    [case] = suites.iter("testcase")
    assert case.attrib == {"classname": "branchrank.gate", "name": "local strict_hit@1"}
    changed = [] if run == baseline else ["system-out"]
    assert [child.tag for child in case] == ([element] if element else []) + changed
    counts = [suites.attrib[name] for name in ("tests", "failures", "errors", "skipped")]
    assert counts == ["1", *(str(int(element == name)) for name in ("failure", "error", "skipped"))]
    lines = (tmp_path / "gate.md").read_text(encoding="utf-8").splitlines()
    assert lines[0].endswith(f": {word}")
    [row] = (line for line in lines if line.startswith("| local"))
    assert row.split(" | ")[1:3] == [word, "strict_hit@1"]
    assert ("[" not in result.output) == (run == baseline)


def test_lost_questions_are_named_with_their_gold_and_what_is_first_now(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    lost = {each.id: each for each in make_questions(60) if 0.8 <= luck("local", each.id, 0) < 0.9}
    files = ("--junit", tmp_path / "gate.xml", "--summary", tmp_path / "gate.md")
    result = invoke("gate", runs["close"], "--baseline", runs["good"], *files)
    printed = [line for line in result.output.splitlines() if line.startswith("local: lost: ")]
    [case] = ElementTree.parse(tmp_path / "gate.xml").getroot().iter("testcase")
    output = case.findtext("system-out") or ""
    rows = [line.split(" | ") for line in (tmp_path / "gate.md").read_text().splitlines()]
    for line, kept, (key, question) in zip(printed, output.splitlines(), lost.items(), strict=True):
        source = question.gold[0].source_file
        gold, first = question.gold[0].span.citation, f"{source}:35-37"
        assert line == f"local: {kept}"
        assert all(text in line for text in (key, question.question, gold, first))
        assert [f"| {key}", question.question, gold, f"{first} |"] in rows


def test_an_undecided_gate_passes_from_the_delta_that_it_prints(runs: dict[str, Path]) -> None:
    def outcome(*flags: object) -> str:
        return invoke("gate", runs["close"], "--baseline", runs["good"], *flags).output

    [found] = re.findall(r"--delta ([0-9.]+)", outcome("--delta", "0.02"))
    assert outcome("--delta", found).startswith("pass:")
    assert outcome("--delta", float(found) - 0.0001).startswith("undecided:")


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_failed_queries_of_the_candidate_fail_the_gate(tmp_path: Path, share: float) -> None:
    questions = make_questions(10)
    old = make_run(tmp_path / "a", (Planned("local", share),), questions=questions, latency_sample=0)
    fails = (Planned("local", share, fails="q0003"),)
    new = make_run(tmp_path / "b", fails, questions=questions, latency_sample=0)
    result = invoke("gate", new.directory, "--baseline", old.directory, "--delta", 1)
    assert result.exit_code == 1
    assert result.output.startswith("fail:")


@pytest.mark.parametrize(
    ("names", "outcomes", "code"),
    [("good close", "pass undecided", 10), ("close poor good", "undecided fail pass", 1)],
)
def test_several_runs_are_gated_and_the_worst_decides(
    runs: dict[str, Path], tmp_path: Path, names: str, outcomes: str, code: int
) -> None:
    given = [runs[name] for name in names.split()]
    files = ("--junit", tmp_path / "gate.xml", "--summary", tmp_path / "gate.md")
    words = ("gate", *given, "--baseline", runs["good"], "--delta", "0.02", *files)
    result = invoke(*words, "--fail-undecided")
    assert result.exit_code == code
    lines = [line for line in result.stdout.splitlines() if not line.startswith("local: ")]
    assert lines[::2] == [f"{run}:" for run in given]
    assert [line.split(":")[0] for line in lines[1::2]] == outcomes.split()
    cases = ElementTree.parse(tmp_path / "gate.xml").getroot().iter("testcase")
    assert [case.attrib["name"] for case in cases] == [f"{run.name}: local strict_hit@1" for run in given]
    heading, *rest = (tmp_path / "gate.md").read_text(encoding="utf-8").splitlines()
    assert heading.endswith(": failed" if code == 1 else ": undecided")
    assert [line.split(" | ")[0] for line in rest if ": local | " in line] == [
        f"| {run.name}: local" for run in given
    ]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("gate good --baseline close poor", 2),
        ("gate good --delta 0.02 --baseline close poor", 2),
        ("gate good --baseline close --baseline poor", 2),
        ("gate --baseline good close", 0),
        ("gate --delta 0.02 --baseline good close --fail-undecided", 10),
        ("gate close --baseline good --delta 0.02 --fail-undecided", 10),
    ],
)
def test_the_gate_has_one_baseline(runs: dict[str, Path], words: str, code: int) -> None:
    assert invoke(*(runs.get(word, word) for word in words.split())).exit_code == code


def test_one_failing_predictor_fails_the_gate(tmp_path: Path) -> None:
    asked = make_questions(30)
    old = make_run(tmp_path / "a", (Planned("local", 0.9), Planned("hybrid", 0.9)), asked, latency_sample=0)
    new = make_run(tmp_path / "b", (Planned("local", 0.9), Planned("hybrid", 0.1)), asked, latency_sample=0)
    result = invoke("gate", new.directory, "--baseline", old.directory)
    assert result.exit_code == 1
    assert result.output.splitlines()[0].startswith("pass: local")
    assert result.output.splitlines()[1].startswith("fail: hybrid")


def test_names_in_the_files_of_the_gate_are_escaped(tmp_path: Path) -> None:
    name = 'a<b>|"c"\x1b'
    made = make_run(tmp_path, (Planned(name, 0.9),), make_questions(5), latency_sample=0)
    files = ("--junit", tmp_path / "x", "--summary", tmp_path / "m")
    invoke("gate", made.directory, "--baseline", made.directory, *files)
    [case] = ElementTree.parse(tmp_path / "x").getroot().iter("testcase")
    assert case.attrib["name"].startswith('a<b>|"c"')
    assert "\x1b" not in (tmp_path / "m").read_text()
    assert 'a\\<b\\>\\|"c"' in (tmp_path / "m").read_text()


def test_compare_lists_the_flips(runs: dict[str, Path]) -> None:
    result = invoke("compare", runs["poor"], runs["close"])
    assert result.exit_code == 0
    assert "local (candidate) vs local (baseline): better." in result.output
    ids = [question.id for question in make_questions(60)]
    won = [key for key in ids if 0.2 <= luck("local", key, 0) < 0.8]
    assert f"won ({len(won)}): {', '.join(won)}" in result.output
    assert "lost (0): none" in result.output


def test_compare_lists_other_changes(tmp_path: Path) -> None:
    asked = make_questions(5)
    a = make_run(tmp_path / "a", questions=asked, latency_sample=0, trace_depth=5)
    b = make_run(tmp_path / "b", questions=asked, latency_sample=0, trace_depth=6)
    result = invoke("compare", a.directory, b.directory)
    assert "changed: benchmark.trace_depth: 5 -> 6" in result.output


def test_compare_lists_what_changed_in_a_system_of_an_experiment(tmp_path: Path) -> None:
    runs = []
    for fuse in (Fuse(method="rrf"), Fuse(method="score")):
        system = System(name="mine", branches=(Branch(kind="bm25"),), fuse=fuse)

        def change(run: RunRecord, system: System = system) -> RunRecord:
            mine = tuple(msgspec.structs.replace(each, system=system) for each in run.predictors)
            return msgspec.structs.replace(run, predictors=mine)

        arms, asked = [Planned("mine", 0.5)], make_questions(5)
        made = make_run(tmp_path / fuse.method, arms, asked, latency_sample=0, change=change)
        runs.append(made.directory)
    changed = [line for line in invoke("compare", *runs).output.splitlines() if "changed" in line]
    assert changed == ["changed: mine.fuse.method: rrf -> score"]


@pytest.mark.parametrize(
    ("verb", "questions", "says"),
    [
        ("compare", make_questions(11), "1 are in only one of the runs (q0010)"),
        ("gate", make_questions(11), "1 are in only one of the runs (q0010)"),
        (
            "compare",
            make_questions(10, per_page=2),
            "gold of these questions differs between the two runs: q0001",
        ),
    ],
)
def test_other_questions_and_gold_are_refused(
    tmp_path: Path, verb: str, questions: list[Question], says: str
) -> None:
    a = make_run(tmp_path / "a", questions=make_questions(10), latency_sample=0).directory
    b = make_run(tmp_path / "b", questions=questions, latency_sample=0).directory
    result = invoke(verb, a, *(["--baseline"] if verb == "gate" else []), b)
    assert result.exit_code == 3
    assert says in result.output


@pytest.mark.parametrize(("label", "code"), [("no", 0), ("partly", 0), ("yes", 3)])
def test_only_labels_that_add_gold_make_runs_incomparable(tmp_path: Path, label: Choice, code: int) -> None:
    first, *others = make_questions(10)
    span = Span(source="page-0.md", line_start=1, line_end=3)
    lines = {"page-0.md": ["# Page 0", "", "kettle"]}
    labeled = [with_label(first, span, label, lines, annotator="ada"), *others]
    a = make_run(tmp_path / "a", questions=[first, *others], latency_sample=0).directory
    b = make_run(tmp_path / "b", questions=labeled, latency_sample=0).directory
    result = invoke("compare", a, b)
    assert (result.exit_code, f"runs: {first.id}" in result.output) == (
        code,
        code == 3,
    )


def test_explain_shows_the_gold_rank_at_each_stage(runs: dict[str, Path]) -> None:
    ids = [question.id for question in make_questions(60)]
    missed = next(key for key in ids if luck("local", key, 0) >= 0.95)
    result = invoke("explain", runs["good"], missed, "--top", 2)
    assert result.exit_code == 0
    page = int(missed[1:])
    first = 5 if page % 2 else 25
    assert f"gold: page-{page}.md:{first}-{first + 3}" in result.output
    assert "local: gold not among the hits; lost at " in result.output
    assert "  fusion: gold at rank 1" in result.output
    assert f"    1. page-{page}.md@1  1  <- gold" in result.output
    assert f"    3. page-{page}.md@3" not in result.output
    assert f"    5. page-{page}.md:35-37" in result.output


def test_report_rewrites_the_files(runs: dict[str, Path], tmp_path: Path) -> None:
    run = shutil.copytree(runs["good"], tmp_path / "run")
    result = invoke("report", run)
    assert result.exit_code == 0
    assert "kettle 1 line 5" in (run / "report.html").read_text()
    assert invoke("verify", run).exit_code == 0
    assert invoke("report", run, "--no-text").exit_code == 0
    assert "kettle 1 line 5" not in (run / "report.html").read_text()
    assert invoke("verify", run).exit_code == 0


def test_a_report_over_another_corpus_shows_a_warning(runs: dict[str, Path], tmp_path: Path) -> None:
    run = shutil.copytree(runs["good"], tmp_path / "run")
    before = (run / "report.html").read_bytes() if (run / "report.html").exists() else None
    missing = invoke("report", run, "--corpus", tmp_path / "none")
    assert missing.exit_code == 3
    assert "corpus folder" in missing.stderr
    assert "fix: " in missing.stderr
    assert ((run / "report.html").read_bytes() if (run / "report.html").exists() else None) == before
    other = make_corpus(tmp_path / "other", 1)
    for flags, said in (((), True), (("--no-text",), False)):
        result = invoke("report", run, "--corpus", other, *flags)
        assert result.exit_code == 0
        assert ("other is not" in result.stderr) == said
    moved = shutil.copytree(runs["good"].parents[1] / "docs", tmp_path / "moved")
    result = invoke("report", run, "--corpus", moved)
    assert result.stderr == ""
    assert "kettle 1 line 5" in (run / "report.html").read_text()


def test_power_works_without_a_run() -> None:
    result = invoke("power", "--questions", 20, "--questions", 100, "--difference", "0.1")
    assert result.exit_code == 0
    lines = [line.split() for line in result.output.splitlines()]
    assert lines[2][:2] == ["20", "20"]
    assert "none" in lines[2]
    assert lines[3][-1] == "54%"
    assert " 168 questions on" in result.output
    few = invoke("power", "--questions", 150, "--difference", "0.1", "--sources", 25)
    uneven = invoke("power", "--questions", 150, "--sources", 25, "--page-variation", "1.8")
    assert "4,099 questions on 25 pages" in few.output
    assert "it needs 168 questions." in few.output
    assert invoke("power", "--difference", 0).stderr.startswith("error: a difference of 0 can't be detected")
    never = invoke("power", "--difference", "0.05", "--sources", 30).output
    assert "30 pages can't confirm" in never
    assert "it needs 658 questions." in never
    assert int(uneven.output.splitlines()[2].split()[1]) < int(few.output.splitlines()[2].split()[1])


def test_power_accepts_the_number_of_pages_or_a_pilot(tmp_path: Path) -> None:
    arms = (Planned("local", 0.5), Planned("other", 0.6))
    pilot = make_run(tmp_path, arms, make_questions(60, per_page=3), latency_sample=0).directory

    def row(*words: object) -> list[str]:
        return invoke("power", "--questions", 154, *words).stdout.splitlines()[2].split()

    worth = int(row("--sources", 29)[1])
    assert worth < 154 == int(row()[1])
    assert int(row("--sources", 29, "--icc", 0.5)[1]) < worth
    assert int(row("--run", pilot)[1]) < 154
    wrong = invoke("power", "--run", pilot, "--measure", "strict_MRR@5")
    assert (wrong.exit_code, "strict_MRR@5" in wrong.stderr) == (2, True)
    alone = invoke("power", "--icc", 0.3)
    assert (alone.exit_code, "--sources" in alone.stderr) == (2, True)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    arms = (Planned("poor", 0.05), Planned("middling", 0.5), Planned("best", 0.95))
    return make_run(tmp_path_factory.mktemp("three"), arms, latency_sample=0).directory


def test_compare_takes_one_run_and_every_pair_or_several_baselines(three: Path) -> None:
    lines = invoke("compare", three, "--all-pairs").output.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "middling vs poor",
        "best vs poor",
        "best vs middling",
    ]
    assert all("95% interval adjusted for 3 comparisons" in line and "odds ratio" in line for line in lines)
    lines = invoke("compare", three, "--baseline", "middling").output.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["poor vs middling", "best vs middling"]
    [first, *_] = invoke("compare", three, "--primary", "strict_MRR@5").output.splitlines()
    assert first.startswith("middling vs poor")
    assert "d_z" in first


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--baseline", "bets"), "did you mean"),
        (("--baseline", "best", "--all-pairs"), "remove --baseline or --all-pairs"),
        (("--predictor", "best"), "add the second run"),
        (("--primary", "nonsense"), "nonsense"),
        (("--measure", "AP"), "--primary"),
    ],
)
def test_flags_of_compare_that_do_not_fit_one_run(three: Path, words: tuple[str, ...], says: str) -> None:
    result = invoke("compare", three, *words)
    assert result.exit_code == 2
    assert says in result.output


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"measures": ",".join(f"nDCG@{k}" for k in range(1, 102))}, "101 measures were requested"),
        ({"baseline": [f"p{number}" for number in range(3000)]}, "3000 baselines with 2 predictors"),
    ],
)
def test_a_run_with_endless_work_is_refused(tmp_path: Path, settings: dict[str, Any], says: str) -> None:
    run = make_run(tmp_path, questions=make_questions(5), latency_sample=0).directory
    record = json.loads((run / "run.json").read_text())
    record["settings"]["benchmark"] |= settings
    (run / "run.json").write_text(json.dumps(record))
    result = invoke("report", run)
    assert result.exit_code == 3
    assert says in result.stderr
