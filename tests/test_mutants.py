"""Every listed defect can still be made, and the test that it names exists."""

from __future__ import annotations

import re

import pytest
from mutants.copies import ROOT
from mutants.table import ROOMS, Mutant

ALL = [mutant for mutants in ROOMS.values() for mutant in mutants]


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)
def test_the_defect_can_be_made_and_its_test_exists(mutant: Mutant) -> None:
    compile(mutant.mutated((ROOT / mutant.path).read_text(encoding="utf-8")), mutant.path, "exec")
    file, *names = mutant.test.partition("[")[0].split("::")
    text = (ROOT / file).read_text(encoding="utf-8")
    assert all(re.search(rf"(?m)^\s*(class|def|async def) {name}\b", text) for name in names), mutant.test


def test_every_acceptance_class_has_a_defect_of_its_own() -> None:
    assert len({mutant.name for mutant in ALL}) == len(ALL)
    classes = {
        f"{path.relative_to(ROOT)}::{name}"
        for path in (ROOT / "tests" / "acceptance").glob("test_*.py")
        for name in re.findall(r"(?m)^class (Test\w+)", path.read_text(encoding="utf-8"))
    }
    assert classes - {"::".join(mutant.test.split("::")[:2]) for mutant in ALL} == set()
