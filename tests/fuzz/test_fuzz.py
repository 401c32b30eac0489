"""Mutated files, queries and requests are read or refused: no crash, no hang, no wrong result."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from support import draw, harness

from fuzz.mutation import inputs
from fuzz.target import Target, failure_of
from fuzz.targets import TARGETS

FOUND = Path(__file__).with_name("found")
#: Inputs of each target in the short form.
INPUTS = 4
#: Inputs of targets that start a program, or read a workspace, for each.
SLOW = {"grep-query": 2, "experiment": 2, "settings": 3, "run-with-rows": 3, "retrieve": 3, "pdf": 2}
#: Seconds for each target in the long form, for which atheris chooses what to change.
SECONDS = 4


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


def fuzzed(names: list[str], seconds: float, scratch: Path) -> dict[str, tuple[int, str]]:
    """The executions of each target, and how it failed, if it did."""
    ended = subprocess.run(
        [sys.executable, "-m", "fuzz", str(scratch), str(seconds), str(draw.seed()), *names],
        env=os.environ
        | {"PYTHONPATH": str(Path(__file__).parents[1]), "PYTHONWARNINGS": "error::RuntimeWarning"},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    found = {}
    for name, code in (line.split() for line in ended.stdout.splitlines()):
        told = (scratch / f"{name}.log").read_text("utf-8", "replace")
        counted = re.search(r"number_of_executed_units: *(\d+)", told)
        kind = re.search(r"AssertionError: ((?:crashed|hung|wrong): .*)", told)
        failure = "hung" if code == "hung" else kind[1] if kind else f"crashed: {code}\n{told[-2_000:]}"
        found[name] = (int(counted[1]) if counted else 0, failure if code != "0" else "")
    return found


@pytest.mark.campaign
def test_inputs_chosen_by_coverage_are_read_or_refused(tmp_path: Path) -> None:
    """Two targets at a time."""
    if "BRANCHRANK_FUZZ_SECONDS" not in os.environ:
        pytest.importorskip("atheris")
    seconds = float(os.environ.get("BRANCHRANK_FUZZ_SECONDS", draw.number(SECONDS)))
    started = time.monotonic()
    names = list(TARGETS)
    with ThreadPoolExecutor(2) as pool:
        halves = pool.map(lambda half: fuzzed(half, seconds, tmp_path), (names[::2], names[1::2]))
        found = {name: ended for half in halves for name, ended in half.items()}
    assert found.keys() == TARGETS.keys()
    failures = {name: failure for name, (_, failure) in found.items() if failure}
    kinds = Counter(failure.partition(":")[0] for failure in failures.values())
    counts = {kind: kinds[kind] for kind in ("crashed", "hung", "wrong")}
    trials = sum(executions for executions, _ in found.values())
    wall = round(time.monotonic() - started)
    made = harness.Part(part="fuzzing", trials=trials, **counts, seconds=wall, seed=draw.seed())
    harness.record("fuzz", made)
    assert not failures, failures
    assert all(executions for executions, _ in found.values()), found
