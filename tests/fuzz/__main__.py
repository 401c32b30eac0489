"""Fuzz targets and report: ``PYTHONPATH=tests python -m fuzz [TARGET ...] --seconds 60``.

Each target is fuzzed in a process of its own with a limit on its memory; a process that dies or hangs is a
failure of the input that it was running. Failing inputs are below ``build/fuzz/TARGET/``. Once the product is
right, copy them to ``tests/fuzz/found/TARGET/``, where ``make test`` runs them again.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
OUTPUT = ROOT / "build" / "fuzz"
#: Bytes of address space that a process may have: libraries alone take some GiB.
ADDRESS_SPACE = 24 << 30
#: Seconds after its budget at which a process counts as hung.
PATIENCE_S = 120
_LIMITED = (
    "import resource, runpy, sys; "
    f"resource.setrlimit(resource.RLIMIT_AS, ({ADDRESS_SPACE}, {ADDRESS_SPACE})); "
    "sys.argv = sys.argv[1:]; runpy.run_module('fuzz.campaign', run_name='__main__', alter_sys=True)"
)


def fuzz_one(name: str, seconds: float, seed: int, guided: bool) -> dict[str, Any]:
    """Fuzz one target; returns its executions and failures."""
    output = OUTPUT / name
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="branchrank-fuzz-", dir=shared) as scratch:
        words = ["campaign", name, str(seconds), str(seed), str(output), "guided" if guided else "unguided"]
        environment = os.environ | {
            "BRANCHRANK_FUZZ_SCRATCH": scratch,
            "PYTHONPATH": str(ROOT / "tests"),
            "PYTHONWARNINGS": "error::RuntimeWarning",
        }
        with (output / "log").open("wb") as log:
            try:
                ended = subprocess.run(
                    [sys.executable, "-c", _LIMITED, *words],
                    env=environment,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    timeout=seconds + PATIENCE_S,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                ended = None
    return _told(output, ended)


def _told(output: Path, ended: int | None) -> dict[str, Any]:
    """What a process recorded, and its own death."""
    progress = output / "progress.json"
    told: dict[str, Any] = {"executions": 0, "failures": []}
    if progress.exists():
        told = json.loads(progress.read_text())
    if ended != 0:
        kind = "hung" if ended is None else "crashed"
        log = (output / "log").read_text(errors="replace")[-2_000:]
        told["failures"].append(
            {"kind": kind, "place": f"the process ended with {ended}", "error": log, "input": "current"}
        )
    return told


def fuzz(names: Iterable[str], seconds: float, seed: int, *, guided: bool, jobs: int = 1) -> dict[str, Any]:
    """Fuzz targets, some at a time; write and return the report."""
    started = time.monotonic()
    names = list(names)
    with ThreadPoolExecutor(jobs) as pool:
        found = list(pool.map(lambda name: fuzz_one(name, seconds, seed, guided), names))
    targets = dict(zip(names, found, strict=True))
    kinds = Counter(failure["kind"] for told in found for failure in told["failures"])
    report = {
        "targets": len(names),
        "trials": sum(told["executions"] for told in found),
        **{kind: kinds[kind] for kind in ("crashed", "hung", "wrong")},
        "seconds": round(time.monotonic() - started),
        "seed": seed,
        "guided": guided,
        "by_target": {name: told["executions"] for name, told in targets.items()},
        "failures": {name: told["failures"] for name, told in targets.items() if told["failures"]},
    }
    (OUTPUT / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    return report


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", help="default: all")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each target")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--jobs", type=int, default=1, help="targets at a time")
    parser.add_argument("--unguided", action="store_true", help="without atheris")
    given = parser.parse_args()
    names = given.targets or target_names()
    guided = not given.unguided and importlib.util.find_spec("atheris") is not None
    report = fuzz(names, given.seconds, given.seed, guided=guided, jobs=given.jobs)
    for name, failures in report["failures"].items():
        for failure in failures:
            print(f"{name}: {failure['kind']}: {failure['place']} ({OUTPUT / name / failure['input']})")
            print("    " + failure["error"].strip().replace("\n", "\n    "))
    print(", ".join(f"{key} {report[key]}" for key in ("targets", "trials", "crashed", "hung", "wrong")))
    sys.exit(bool(report["failures"]))


def target_names() -> list[str]:
    """All targets."""
    from fuzz.targets import TARGETS

    return list(TARGETS)


if __name__ == "__main__":
    main()
