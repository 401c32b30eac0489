"""The examples in the public docstrings run, in a folder with ``docs/``, an indexed ``data/`` and a run."""

from __future__ import annotations

import doctest
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import agent_policies
from support.artifacts import make_chroma, write_objects
from support.beir_folders import beir_folder
from support.commands import benchmark, make_project
from support.scripted_llm import ScriptedLLM

MODULES = (
    "branchrank.run",
    "branchrank.workspace",
    "branchrank.library",
    "branchrank.runs.exchange",
    "branchrank.runs.bench.tuning",
    "branchrank.questions.starter_files",
    "branchrank.runs.directory",
    "branchrank.core.io.progress",
    "branchrank.core.records",
    "branchrank.core.records",
)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = make_project(tmp_path_factory.mktemp("docstrings"))
    theirs = [
        {"id": str(number), "file_path": "guide/cleaning.md", "text": text}
        for number, text in enumerate(("Baking soda removes tannin stains.", "Descale the boiler"))
    ]
    write_objects(made / "theirs" / "chunks.jsonl", theirs)
    make_chroma(made / "theirs" / "chroma", theirs)
    beir_folder(made / "beir" / "small", documents=12, queries=4)
    benchmark(made, "--predictor", "local", "--predictor", "hybrid", "--hybrid-no-llm")
    return made


@pytest.fixture(scope="module")
def agent_url() -> Iterator[str]:
    with ScriptedLLM(agent_policies.greps) as server:
        yield server.base_url


def examples() -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder()
    found = [
        test for name in MODULES for test in finder.find(importlib.import_module(name), name) if test.examples
    ]
    return list({test.name: test for test in found}.values())


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_an_example_of_a_docstring_runs(
    example: doctest.DocTest, project: Path, agent_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    monkeypatch.setenv("BRANCHRANK_AGENT_BASE_URL", agent_url)
    report: list[str] = []
    failed, tried = doctest.DocTestRunner(optionflags=FLAGS).run(
        example, out=report.append, clear_globs=False
    )
    assert (failed, "".join(report)) == (0, "")
    assert tried


def test_the_entry_points_have_examples() -> None:
    names = {example.name.removeprefix("branchrank.") for example in examples()}
    assert {
        "workspace.Workspace",
        "workspace.Workspace.build",
        "workspace.Workspace.adopt",
        "workspace.Workspace.benchmark",
        "run.Run",
    } <= names
