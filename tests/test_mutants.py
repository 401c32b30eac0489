"""Every mutant still applies to the files as they are, and the tests that it lists exist."""

from __future__ import annotations

import ast
from functools import cache

import pytest
from mutants.mutant import ROOT, Mutant
from mutants.table import ROOMS

ALL = [(room, mutant) for room, mutants in ROOMS.items() for mutant in mutants]


@pytest.mark.parametrize("mutant", [pytest.param(mutant, id=f"{room}/{mutant.name}") for room, mutant in ALL])
def test_the_mutant_applies_and_its_tests_exist(mutant: Mutant) -> None:
    text = mutant.mutated()
    if text is not None and mutant.path.endswith(".py"):
        compile(text, mutant.path, "exec")
    assert mutant.tests
    for test in mutant.tests:
        file, *names = test.partition("[")[0].split("::")
        assert tuple(names) in _names(file), test


def test_there_are_enough_mutants_and_each_has_its_own_name() -> None:
    names = [mutant.name for _, mutant in ALL]
    assert len(set(names)) == len(names) >= 60


def test_every_acceptance_class_has_a_mutant_of_its_own() -> None:
    classes = {
        f"{path.relative_to(ROOT).as_posix()}::{name[0]}"
        for path in (ROOT / "tests" / "acceptance").glob("test_*.py")
        for name in _names(path.relative_to(ROOT).as_posix())
        if len(name) == 1 and name[0].startswith("Test")
    }
    caught = [{"::".join(test.split("::")[:2]) for test in mutant.tests} for _, mutant in ALL]
    assert classes
    assert {each for each in classes if {each} not in caught} == set()


@cache
def _names(file: str) -> set[tuple[str, ...]]:
    """The ids, without the file, that pytest finds in a file of tests: functions, classes and methods."""
    found: set[tuple[str, ...]] = {()}

    def walk(body: list[ast.stmt], above: tuple[str, ...]) -> None:
        for statement in body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add((*above, statement.name))
            if isinstance(statement, ast.ClassDef):
                walk(statement.body, (*above, statement.name))

    walk(ast.parse((ROOT / file).read_text(encoding="utf-8")).body, ())
    return found
