"""A class that a command names runs in a process of its own, with limits, and can't change its rivals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from support.commands import invoke, write_lines
from support.small_corpus import small_workspace

from branchrank import Hit, Run, Workspace, library
from branchrank.index.workspace_folder import WorkspaceFolder

CLASSES = """
import os
import sys
import time

import branchrank as br

HITS = [br.Hit(id="a", source="index.md", line_start=1, line_end=3, text="", score=1.0)]


class Plain:
    llm = "none"

    def retrieve(self, query, k):
        print("a line for the user")
        return HITS


class Vandal(Plain):
    def __init__(self):
        from branchrank.scoring import matching
        from branchrank.search.systems import engine

        engine.Engine.retrieve = None
        for name in dir(matching):
            if name.startswith(("is_", "judge", "has_")):
                setattr(matching, name, lambda *given, **named: True)


class Spy(Plain):
    def retrieve(self, query, k):
        frame, found = sys._getframe(), []
        while frame is not None:
            found += [str(value) for value in frame.f_locals.values() if "answer_quote" in str(value)]
            frame = frame.f_back
        return HITS if found else []


class Late(Plain):
    asked = 0

    def retrieve(self, query, k):
        Late.asked += 1
        return HITS if Late.asked <= 2 else []


class Sleeps(Plain):
    def retrieve(self, query, k):
        if query.startswith("Where"):
            time.sleep(60)
        return HITS


class Endless(Plain):
    def retrieve(self, query, k):
        while True:
            yield "tea"


class Exits(Plain):
    def retrieve(self, query, k):
        os._exit(3)


class BadUse(Plain):
    def retrieve(self, query, k):
        return br.Answer(hits=HITS, calls=[br.LLMUse(model="m", prompt_tokens=-5, completion_tokens=1)])


class EndlessWait(Plain):
    def retrieve(self, query, k):
        use = br.LLMUse(model="m", prompt_tokens=5, completion_tokens=1, latency_ms=float("inf"))
        return br.Answer(hits=HITS, calls=[use])
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("child")
    small_workspace(folder)
    (folder / "own.py").write_text(CLASSES)
    questions = [
        {"question": words, "source_file": "index.md", "answer_line_start": 1, "answer_line_end": 1}
        for words in ("How do I boil water?", "Where is the kettle?")
    ]
    write_lines(folder / "q.jsonl", questions)
    return folder


def ask(project: Path, monkeypatch: pytest.MonkeyPatch, *names: str, **flags: object) -> Result:
    monkeypatch.chdir(project)
    words = [word for name in names for word in ("--predictor", name)]
    words += [str(word) for name, value in flags.items() for word in (f"--{name.replace('_', '-')}", value)]
    more = () if "reports" in flags else ("--reports", project / "reports" / names[0].replace(":", "-"))
    return invoke("benchmark", "--questions", "q.jsonl", *words, *more)


def run_of(project: Path, name: str) -> Run:
    [folder] = (project / "reports" / name.replace(":", "-")).iterdir()
    return Run.load(folder)


def rows(run: Run, predictor: str) -> list[Any]:
    return [(row.question_id, row.status, row.hits) for row in run.rows if row.predictor == predictor]


def test_a_class_that_patches_its_process_changes_no_rival(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("own:Plain", "own:Vandal"):
        assert ask(project, monkeypatch, name, "bm25", latency_sample=0).exit_code == 0
    plain, vandal = run_of(project, "own:Plain"), run_of(project, "own:Vandal")
    assert rows(plain, "bm25") == rows(vandal, "bm25")
    assert rows(plain, "own:Plain") == rows(vandal, "own:Vandal")
    first = plain.record.predictors[0]
    assert (first.origin, len(first.source_digest)) == ("own:Plain", 64)


def test_the_caller_is_not_in_the_frames_of_a_class(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(project, monkeypatch, "own:Spy", latency_sample=0).exit_code == 0
    assert {len(hits) for _, _, hits in rows(run_of(project, "own:Spy"), "own:Spy")} == {0}


def test_other_answers_in_the_latency_pass_show_no_latency(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("own:Late", "own:Plain"):
        folder = project / "reports" / f"late-{name[-4:]}"
        assert ask(project, monkeypatch, name, reports=folder).exit_code == 0
        [row] = Run.load(next(folder.iterdir())).summary_rows
        late = name == "own:Late"
        assert (row.different_answers, row.latency_p50_ms is None) == (2 if late else 0, late)


def test_a_query_has_a_time_limit_and_the_next_one_is_answered(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = ask(project, monkeypatch, "own:Sleeps", latency_sample=0, predictor_timeout=2)
    assert done.exit_code == 0
    assert sorted(status for _, status, _ in rows(run_of(project, "own:Sleeps"), "own:Sleeps")) == [
        "failed",
        "ok",
    ]
    assert [row.error for row in run_of(project, "own:Sleeps").rows if row.error] == [
        "own:Sleeps did not answer within 2 seconds"
    ]


@pytest.mark.parametrize("name", ["Endless", "BadUse", "EndlessWait"])
def test_an_answer_that_is_no_answer_ends_the_run(
    name: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = ask(project, monkeypatch, f"own:{name}", latency_sample=0)
    assert done.exit_code == 2
    assert f"own:{name}: retrieve() returned" in done.stderr


def test_a_process_that_exits_fails_the_query(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = ask(project, monkeypatch, "own:Exits", "bm25", latency_sample=0)
    assert done.exit_code == 9
    run = run_of(project, "own:Exits")
    assert {status for _, status, _ in rows(run, "own:Exits")} == {"failed"}
    assert {status for _, status, _ in rows(run, "bm25")} == {"ok"}


def test_an_object_stays_in_the_process(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    asked = []

    class Here:
        def retrieve(self, query: str, k: int) -> list[Hit]:
            asked.append(query)
            return []

    with Workspace.open("data") as workspace:
        run = workspace.benchmark([Here()], questions="q.jsonl", latency_sample=0, reports="reports/here")
    assert len(asked) == 2
    assert run.record.predictors[0].source_digest == ""
    assert "object in the process of the benchmark" in (run.directory / "report.md").read_text()
    assert ask(project, monkeypatch, "own:Plain", latency_sample=0, reports="reports/named").exit_code == 0
    [report] = Path("reports/named").glob("*/report.md")
    assert "own:Plain, in a process of its own" in report.read_text()


def test_changed_code_is_another_plan(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    monkeypatch.syspath_prepend(project)
    digests = []
    for text in ("", "# changed\n"):
        (project / "changing.py").write_text(CLASSES + text)
        plan = library.plan_from_names(
            ["changing:Plain"],
            library.Plan(data_dir=Path("data"), settings=WorkspaceFolder.open(Path("data")).settings),
        )
        digests.append(plan.records[0].source_digest)
    assert len(set(digests)) == 2
