"""The doors at the top are thin, apart from each other, and above the package."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from support.commands import ROOT, program

DOORS = ("retrieve", "hybrid_retrieve", "benchmark_run", "pageindex_common")


def imported(path: Path) -> set[str]:
    """The modules that a file imports anywhere, functions included."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, path
            names.add(node.module or "")
    return names


@pytest.mark.parametrize("door", DOORS)
def test_a_script_is_short_and_imports_only_the_package(door: str) -> None:
    path = ROOT / f"{door}.py"
    assert len(path.read_text(encoding="utf-8").splitlines()) < 45
    roots = {name.partition(".")[0] for name in imported(path)}
    assert roots == {"branchrank"}


def test_there_are_no_other_scripts() -> None:
    assert {path.stem for path in ROOT.glob("*.py")} == set(DOORS)


def test_the_package_imports_no_script() -> None:
    modules = sorted((ROOT / "branchrank").rglob("*.py"))
    assert len(modules) > 100
    for path in modules:
        assert not {name.partition(".")[0] for name in imported(path)} & set(DOORS), path


@pytest.mark.parametrize("door", DOORS)
def test_importing_a_script_has_no_side_effects(door: str, tmp_path: Path) -> None:
    done = program("-c", f"import {door}", cwd=tmp_path, environment={"PYTHONPATH": str(ROOT)})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_importing_pageindex_common_gives_load_nodes() -> None:
    code = "from pageindex_common import load_nodes; print(load_nodes.__module__)"
    done = program("-c", code, cwd=ROOT)
    assert done.stdout == "branchrank.tree.store\n"
