"""Kills and failing disks wherever a command writes: nothing is lost, nothing is silently wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support import draw, harness
from support.faults.scenarios import SCENARIOS, Scenario
from support.needs import need

SOURCE = Path(__file__).parents[1] / "support" / "faults" / "disk_faults.c"
#: The commands of the short form, and at how many of the places where they write.
SAMPLED = {"labels": 3, "index of changed documents": 2}

#: The places in the code of which one operation fails where campaigns are drawn.
DRAWN = 12

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD is Linux's")


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("faults") / "disk_faults.so"
    subprocess.run([need("cc"), "-shared", "-fPIC", "-O1", "-o", built, SOURCE, "-ldl"], check=True)
    return built


def trials(
    library: Path, scenario: str, count: int, seed: int = draw.SEED
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What the program counted, and its trials."""
    # A torn or short write of a compiled module would break every later import of it.
    without_compiled = {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "support.faults.trials", scenario, str(count), str(seed)],
        env=os.environ
        | without_compiled
        | {"LD_PRELOAD": str(library), "PYTHONPATH": str(SOURCE.parents[2])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    counted, *told = map(json.loads, done.stdout.splitlines())
    return counted, told


def check(told: list[dict[str, Any]]) -> None:
    wrong = [each for each in told if each["problems"]]
    assert not wrong, json.dumps(wrong[:3], indent=1)
    # The faults did happen: a killed process is killed, a full disk is an error.
    ends = Counter((each["kind"], each["first"]) for each in told)
    assert {first for kind, first in ends if kind in ("kill", "torn")} == {-9}
    assert {first for kind, first in ends if kind == "enospc"} <= {0, 8}
    assert {first for kind, first in ends if kind == "sigint"} <= {0, 130}


@pytest.mark.parametrize(("scenario", "sites"), SAMPLED.items())
def test_some_disk_operations_fail_once(library: Path, scenario: str, sites: int) -> None:
    _, told = trials(library, scenario, -sites)
    assert len(told) == sites
    check(told)


@pytest.mark.campaign
@pytest.mark.parametrize("scenario", [each.name for each in SCENARIOS])
def test_every_disk_operation_fails_once(library: Path, scenario: str) -> None:
    _, told = trials(library, scenario, 0 if draw.DRAWN_WITH is None else -DRAWN, draw.seed())
    assert len(told) >= 6
    check(told)


def test_the_long_form_has_five_thousand_trials() -> None:
    assert sum(each.trials for each in SCENARIOS) == 5_000


@pytest.mark.campaign
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_operations_fail_at_random(library: Path, scenario: Scenario) -> None:
    started = time.monotonic()
    count = draw.number(scenario.trials)
    counted, told = trials(library, scenario.name, count, draw.seed())
    assert len(told) == count
    print(f"\n{scenario.name}: {counted['operations']} operations, {len(told)} trials")
    problems = Counter(
        word for each in told for word in {text.partition(":")[0] for text in each["problems"]}
    )
    harness.record(
        f"faults-{scenario.name.replace(' ', '-')}",
        harness.Part(
            part="crash loop",
            trials=len(told),
            lost=problems["lost"],
            silent=problems["silent"],
            crashed=problems["traceback"],
            hung=problems["hang"],
            seconds=round(time.monotonic() - started, 1),
            seed=draw.seed(),
        ),
    )
    check(told)
