"""Mutated files, queries and requests are read or refused: no crash, no hang, no wrong result."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from support import harness

from fuzz.__main__ import fuzz
from fuzz.mutation import inputs
from fuzz.target import Target, failure_of
from fuzz.targets import TARGETS

FOUND = Path(__file__).with_name("found")
#: Inputs of each target in the short form.
INPUTS = 12
#: Inputs of targets that start a program, or read a workspace, for each.
SLOW = {"grep-query": 4, "experiment": 4, "settings": 5, "run-with-rows": 6, "retrieve": 6}
#: Seconds for each target in the long form, for which atheris chooses what to change.
SECONDS = 10.0


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Servers log what they refuse."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_the_seeds_are_valid(target: Target) -> None:
    """Mutations of an input that is refused at once would test nothing."""
    for content in target.seeds:
        target.run(content)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_mutated_inputs_are_read_or_refused(target: Target) -> None:
    @settings(
        derandomize=True,
        max_examples=SLOW.get(target.name, INPUTS),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(content=inputs(target))
    def reads(content: bytes) -> None:
        failure = failure_of(target, content)
        assert failure is None, f"{failure.kind}: {failure.error}\ninput: {content[:500]!r}"

    reads()


def found_inputs() -> list[Path]:
    """Inputs that failed once."""
    return sorted(path for path in FOUND.glob("*/*") if path.is_file())


@pytest.mark.parametrize(
    "path", [pytest.param(path, id=f"{path.parent.name}/{path.name}") for path in found_inputs()]
)
def test_an_input_that_failed_once_is_read_or_refused(path: Path) -> None:
    failure = failure_of(TARGETS[path.parent.name], path.read_bytes())
    assert failure is None, f"{failure.kind}: {failure.error}"


@pytest.mark.full
def test_inputs_chosen_by_coverage_are_read_or_refused() -> None:
    """Each target in a process of its own, two at a time; ``build/fuzz/report.json`` has the counts."""
    pytest.importorskip("atheris")
    seconds = float(os.environ.get("BRANCHRANK_FUZZ_SECONDS", SECONDS))
    report = fuzz(TARGETS, seconds, 42, jobs=2)
    counts = {name: report[name] for name in ("trials", "crashed", "hung", "wrong", "seconds", "seed")}
    harness.record("fuzz", harness.Part(part="fuzzing", **counts))
    assert not report["failures"], report["failures"]
    assert all(report["by_target"].values()), report["by_target"]
