"""A plan: what predictors can be given, and that everything wrong with it is reported before any work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.commands import invoke, json_lines, make_project
from support.predictors import Failing, WholePages, passage

from branchrank.core.errors import UsageError
from branchrank.core.records import Hit
from branchrank.core.spec import Branch, System
from branchrank.index import workspace_folder
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.library import run_benchmark
from branchrank.runs import directory as names
from branchrank.runs.bench.experiment import plan_from_experiment
from branchrank.runs.bench.plan import Plan, check_plan, estimate_plan, plan_from_names
from branchrank.runs.bench.predictors import predictor_of
from branchrank.runs.directory import read_run
from branchrank.search.systems.builtin import GROUPS

NO_LLM = {"hybrid.no_llm": True, "pageindex.no_llm": True, "benchmark.latency_sample": 0}
WORDS = System(name="words", branches=(Branch(kind="bm25"),))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("plan"))


def plan(
    project: Path, predictors: Sequence[object], flags: dict[str, Any] | None = None, **fields: Any
) -> Plan:
    folder = WorkspaceFolder.open(project / "data", flags={**NO_LLM, **(flags or {})})
    return plan_from_names(predictors, Plan(data_dir=project / "data", settings=folder.settings, **fields))


def first_page(query: str, k: int) -> list[Hit]:
    return [passage("guide/brewing.md", 1, 20)]


class Named:
    name = "given-name"
    retrieve = staticmethod(first_page)


class NeedsArguments:
    def __init__(self, model: str) -> None:
        self.model = model

    def retrieve(self, query: str, k: int) -> list[Hit]:
        return []


def test_names_systems_classes_objects_and_functions_are_predictors(project: Path, tmp_path: Path) -> None:
    given = [
        "local",
        WORDS,
        Failing,
        NeedsArguments("m"),
        Named(),
        first_page,
        "support.predictors:WholePages",
    ]
    made = run_benchmark(plan(project, given, reports=tmp_path))
    called = ["local", "words", "Failing", "NeedsArguments", "given-name", "first_page", "whole-pages"]
    assert [each.name for each in made.record.predictors] == called
    rows = json_lines(made.directory / names.ROWS)
    assert [row["predictor"] for row in rows[:7]] == called
    pages = {row["predictor"]: row["hits"][0]["source"] for row in rows[7:14] if row["hits"]}
    assert pages["first_page"] == pages["given-name"] == pages["whole-pages"] == "guide/brewing.md"


@pytest.mark.parametrize("thing", [3, None, object(), NeedsArguments])
def test_an_object_that_is_not_a_predictor_is_refused(thing: object) -> None:
    with pytest.raises(UsageError) as caught:
        predictor_of(thing)
    assert caught.value.remedy


def test_every_problem_of_a_plan_is_reported_at_once(project: Path, tmp_path: Path) -> None:
    wrong = plan(
        project,
        [System(name="bad", branches=()), WholePages(), WholePages],
        {"benchmark.baseline": "nobody"},
        questions=tmp_path / "none.jsonl",
    )
    with pytest.raises(UsageError) as caught:
        run_benchmark(wrong)
    for part in (
        "'bad' has no branches",
        "two predictors have the name 'whole-pages'",
        "'nobody'",
        "none.jsonl",
    ):
        assert part in caught.value.message
    assert not (project / "reports").exists()


def test_predictors_that_cannot_be_built_are_reported_with_the_other_problems(project: Path) -> None:
    with pytest.raises(UsageError) as caught:
        plan(project, ["locl", "no_such:Class", 3, "api"], {"benchmark.baseline": "nobody"})
    for part in (
        "no predictor is called 'locl'; did you mean `local`?",
        "no_such",
        "3 is not a predictor",
        "api",
    ):
        assert part in caught.value.message


def test_a_run_of_an_object_is_never_resumed(project: Path, tmp_path: Path) -> None:
    """Nobody knows whether the object still does what it did."""

    class Interrupted:
        asked = 0

        def retrieve(self, query: str, k: int) -> list[Hit]:
            type(self).asked += 1
            if type(self).asked == 4:
                raise KeyboardInterrupt
            return []

    with pytest.raises(KeyboardInterrupt):
        run_benchmark(plan(project, [Interrupted()], reports=tmp_path))
    [stopped] = tmp_path.iterdir()
    made = run_benchmark(plan(project, [Interrupted()], reports=tmp_path))
    assert made.directory != stopped
    assert Interrupted.asked == 4 + 8
    refused = invoke("resume", stopped, "--data-dir", project / "data")
    assert refused.exit_code == 3
    assert "'Interrupted'" in refused.stderr


def test_an_estimate_has_no_side_effects(project: Path, tmp_path: Path) -> None:
    llm = {"hybrid.no_llm": False, "hybrid.base_url": "http://127.0.0.1:9/v1", "hybrid.model": "m"}
    wanted = plan(
        project, ["hybrid", WORDS, WholePages], {**llm, "llm.repeats": 3}, reports=tmp_path / "none"
    )
    estimate = estimate_plan(wanted)
    hybrid, words, pages = estimate.predictors
    assert (hybrid.queries, words.queries, pages.queries) == (24, 8, 8)
    assert (hybrid.model, hybrid.index, words.llm, pages.index) == ("m", "default", None, "")
    assert hybrid.llm is not None
    assert hybrid.llm.calls == 2 * 24, "at most two batches a query"
    assert not (tmp_path / "none").exists()
    assert estimate.to_build == ()


def test_an_estimate_names_each_index_that_the_run_would_build(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    words = ("run", project / "x.toml", "--dry-run")
    (project / "x.toml").write_text(
        f"name = 'x'\ndata_dir = '{project / 'data'}'\n"
        f"questions = '{project / 'data' / 'benchmark' / 'questions.jsonl'}'\n"
        "[indexes.other]\nembedder = 'fake:32'\n"
        "[systems.bm25]\n[systems.second]\nfrom = 'bm25'\nindex = 'other'\n"
    )
    estimate = estimate_plan(plan_from_experiment(project / "x.toml"))
    assert ["fake:32" in each for each in estimate.to_build] == [True]
    (project / "docs" / "new.md").write_text("# New\n")
    estimate = estimate_plan(plan_from_experiment(project / "x.toml"))
    assert ["new.md" in each for each in estimate.to_build] == [True, False]
    shown = invoke(*words).stdout.splitlines()
    assert [line.partition("; ")[0].strip() for line in shown[1:3]] == [*estimate.to_build]


def test_a_benchmark_reads_the_settings_of_its_workspace_once(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []

    def counted(path: Path) -> workspace_folder.ConfigFile:
        read.append(path)
        return read_config(path)

    read_config = workspace_folder.read_config
    monkeypatch.setattr(workspace_folder, "read_config", counted)
    words = ("--predictor", "bm25", "--latency-sample", 0, "--quiet", "--reports", project / "once")
    assert invoke("benchmark", *words, "--data-dir", project / "data").exit_code == 0
    assert read == [project / "data" / "branchrank.toml"]


@pytest.mark.parametrize(
    ("embedder", "missing"),
    [
        ("fake", ()),
        ("openai:m", ("late-interaction",)),
        ("ollama:m", ("late-interaction",)),
        ("none", ("local", "hybrid", "grep", "qdrant", "sqlite", "late-interaction")),
    ],
)
def test_members_of_a_group_that_the_embedder_rules_out_are_listed_and_the_others_run(
    project: Path, embedder: str, missing: tuple[str, ...]
) -> None:
    flags = {"index.embedder": embedder, "index.embedding_url": "http://127.0.0.1:9/v1"}
    family = plan(project, ["family"], flags)
    assert family.names == tuple(name for name in GROUPS["family"] if name not in missing)
    assert tuple(line.partition(" is left out: ")[0] for line in family.left_out) == missing
    assert all(embedder in line for line in family.left_out)
    check_plan(family)
    named = plan(project, ["late-interaction", "family"], flags)
    assert "late-interaction" in named.names
    if missing:
        with pytest.raises(UsageError, match=embedder):
            check_plan(named)


def test_a_member_that_is_left_out_stands_in_the_run_and_in_the_terminal(
    project: Path, tmp_path: Path
) -> None:
    words = ("--embedder", "none", "--predictor", "all", "--latency-sample", 0, "--reports", tmp_path)
    done = invoke("benchmark", "--data-dir", project / "data", *words)
    assert done.exit_code == 0, done.output
    (made,) = tmp_path.iterdir()
    run = read_run(made)
    assert [each.name for each in run.predictors] == ["pageindex"]
    assert [line.split(" ")[0] for line in run.left_out] == ["local", "hybrid"]
    assert set(run.left_out) <= set(run.warnings)
    assert "local is left out" in done.output
    assert "local is left out" in (made / "report.md").read_text()
    assert invoke("verify", made).exit_code == 0
