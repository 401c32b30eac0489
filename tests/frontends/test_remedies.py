"""The fix of an error names flags that the command at hand has."""

from __future__ import annotations

import pickle
import sys
import tomllib
from pathlib import Path

import pytest
from support.commands import ROOT, every_command, invoke, make_project, write_lines
from support.extras import EXTRAS, declared, printed, write_documents
from support.front_doors import make_indexed

from branchrank.core.errors import MissingDependencyError, Remedy, UsageError
from branchrank.documents import reading
from branchrank.frontends.cli.terminal import fix_for

UNREACHABLE = (
    Remedy("start the server"),
    Remedy("use {}", "--hybrid-base-url --pageindex-base-url"),
    Remedy("leave out {}", "--hybrid-no-llm --pageindex-no-llm"),
)


@pytest.mark.parametrize(
    ("words", "alternatives"),
    [
        (
            "benchmark",
            [
                "use --hybrid-base-url or --pageindex-base-url",
                "or leave out --hybrid-no-llm or --pageindex-no-llm",
            ],
        ),
        ("hybrid", ["use --hybrid-base-url", "or leave out --hybrid-no-llm"]),
        ("questions generate", ["or use --base-url"]),
        (
            "run",
            [
                "use base_url in [hybrid] or base_url in [pageindex] of branchrank.toml",
                "or leave out --hybrid-no-llm or --pageindex-no-llm",
            ],
        ),
    ],
)
def test_suggested_alternatives_exist_in_the_command(words: str, alternatives: list[str]) -> None:
    fix = fix_for(UNREACHABLE, every_command()[tuple(words.split())])
    assert fix.split(", ") == ["start the server", *alternatives]


@pytest.mark.parametrize(
    ("command", "fix"),
    [("index", "use --embedder fake:64"), ("run", 'use embedder = "fake:64" in [index] of branchrank.toml')],
)
def test_a_flag_that_the_command_lacks_becomes_a_line_of_the_workspace(command: str, fix: str) -> None:
    assert fix_for([Remedy("use {}", "--embedder", "fake:64")], every_command()[command,]) == fix


def test_remedies_that_are_all_needed_are_joined_without_or() -> None:
    error = UsageError("two", remedy=["a", Remedy("b", instead=False), "c", Remedy("use {}", "--jobs", "1")])
    assert error.remedy == "a; b, c, or use --jobs 1"
    assert pickle.loads(pickle.dumps(error)).remedies == error.remedies


@pytest.mark.parametrize(
    ("words", "other"),
    [
        ("hybrid tea", ""),
        ("retrieve tea", ", or --predictor bm25"),
        ("search tea --mode semantic", ", or --mode keyword"),
        ("benchmark --sample-size 1 --predictor local", ", or --predictor bm25"),
    ],
)
def test_the_fix_for_an_index_without_vectors_works_at_the_command(
    words: str, other: str, tmp_path: Path
) -> None:
    data = make_indexed(tmp_path, {"tea.md": "# Tea\n\nGreen tea.\n"}, embedder="none") / "data"
    question = {"question": "tea", "source_file": "tea.md", "gold_level": "file"}
    write_lines(data / "benchmark" / "questions.jsonl", [question])
    reports = ["--reports", tmp_path / "reports"] if "benchmark" in words else []
    more = ("--data-dir", data, "--quiet", *reports)
    refused = invoke(*words.split(), *more)
    assert (refused.exit_code, refused.stderr.partition("fix: ")[2].strip()) == (
        2,
        f"use --embedder all-MiniLM-L6-v2 (or another model){other}",
    )
    assert invoke(*words.split(), "--embedder", "fake:64", *more).exit_code == 0
    fixed = f"{words.removesuffix(' --predictor local')} {other.removeprefix(', or ')}"
    assert not other or invoke(*fixed.split(), *more).exit_code == 0


WORDS = (
    "hybrid tea,retrieve tea,search tea,benchmark,serve,mcp,calibrate,index,questions check,pageindex check"
)


@pytest.mark.parametrize("words", WORDS.split(","))
def test_a_folder_that_is_not_a_workspace_is_refused_with_the_command_that_makes_one(
    words: str, tmp_path: Path
) -> None:
    folder = tmp_path / "nowhere"
    result = invoke(*words.split(), "--data-dir", folder)
    assert result.exit_code == 3
    assert f"error: {folder} is not" in result.stderr
    assert f"fix: branchrank init FOLDER --data-dir {folder}" in result.stderr
    assert "building" not in result.stderr
    assert not folder.exists()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_project(tmp_path_factory.mktemp("extras"))
    write_documents(folder)
    return folder


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_command_without_its_extra_prints_the_command_that_installs_it(
    extra: str, project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module, words = EXTRAS[extra]
    monkeypatch.chdir(project)
    # A pipeline runs in a process of its own, which has the import path of the command.
    (tmp_path / f"{module.partition('.')[0]}.py").write_text(
        f"raise ModuleNotFoundError(name={module.partition('.')[0]!r})"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for name in [module, *(each for each in sys.modules if each.startswith(f"{module}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "branchrank.frontends.serve.mcp", raising=False)
    reading._missing_extra.cache_clear()
    done = invoke(*words.split())
    reading._missing_extra.cache_clear()
    assert printed(done.output) == declared(extra), done.output
    assert not (project / "new" / "branchrank.toml").exists(), "the same command is given again"
    assert done.exit_code == (3 if extra in ("pdf", "code") else 5)


def test_every_extra_is_tried() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert EXTRAS.keys() == project["optional-dependencies"].keys() - {"all", "bench", "dev", "docs"}


@pytest.mark.parametrize(("pip", "command"), [(object(), "pip install"), (None, "uv pip install")])
def test_the_install_command_is_one_that_the_environment_has(
    pip: object, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: pip)
    assert MissingDependencyError("redis", purpose="x", extra="redis").remedy == f'{command} "redis>=5"'
