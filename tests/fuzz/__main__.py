"""Fuzz targets and report: ``PYTHONPATH=tests python -m fuzz [TARGET ...] --seconds 60``.

Each target runs in a process of its own, which ends at its first failure. atheris chooses what Hypothesis
draws by coverage, where it is installed; else the draws are random. A failing input is kept below
``build/fuzz/TARGET/``. Once the product is right, copy it to ``tests/fuzz/found/TARGET/``, where
``make test`` runs it again.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import logging
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
OUTPUT = ROOT / "build" / "fuzz"
#: Seconds after its budget at which a process counts as hung, and the MiB that it may use.
PATIENCE_S, MEMORY_MIB = 120, 8192
_COUNTED = re.compile(rb"number_of_executed_units: *(\d+)")


def fuzz_here(name: str, seconds: float, seed: int) -> None:
    """Fuzz one target in this process until the time is over or an input fails."""
    logging.disable(logging.CRITICAL)
    guided = importlib.util.find_spec("atheris") is not None
    if guided:
        import atheris

        with atheris.instrument_imports(include=["branchrank"]):
            one = _fuzzed(name)
        flags = [f"-max_total_time={int(seconds)}", f"-seed={seed}", f"-rss_limit_mb={MEMORY_MIB}"]
        atheris.Setup(
            [sys.argv[0], *flags, "-print_final_stats=1", f"-artifact_prefix={OUTPUT / name}/"], one
        )
        atheris.Fuzz()
        return
    one, draw, ends, count = _fuzzed(name), random.Random(seed), time.monotonic() + seconds, 0
    while time.monotonic() < ends:
        one(draw.randbytes(4_096))
        count += 1
    print(f"number_of_executed_units: {count}", file=sys.stderr)


def _fuzzed(name: str) -> Callable[[bytes], object]:
    """Hypothesis's test of one target, as a function of the bytes that it draws from."""
    from hypothesis import given, settings

    from fuzz.mutation import inputs
    from fuzz.target import failure_of
    from fuzz.targets import TARGETS

    target = TARGETS[name]

    @settings(deadline=None, database=None)
    @given(content=inputs(target))
    def reads(content: bytes) -> None:
        if failure := failure_of(target, content):
            path = OUTPUT / name / hashlib.sha256(content).hexdigest()[:12]
            path.write_bytes(content)
            told = {"kind": failure.kind, "place": failure.place, "error": failure.error, "input": path.name}
            (OUTPUT / name / "failure.json").write_text(json.dumps(told))
            raise AssertionError(failure.error)

    found: Callable[[bytes], object] = reads.hypothesis.fuzz_one_input
    return found


def fuzz_one(name: str, seconds: float, seed: int) -> dict[str, Any]:
    """Fuzz one target in a process; returns its executions and its failure."""
    output = OUTPUT / name
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    told: dict[str, Any] = {"executions": 0, "failures": []}
    with tempfile.TemporaryDirectory(prefix="branchrank-fuzz-", dir=shared) as scratch:
        variables = {"BRANCHRANK_FUZZ_SCRATCH": scratch, "PYTHONPATH": str(ROOT / "tests")}
        words = [name, "--here", "--seconds", str(seconds), "--seed", str(seed)]
        try:
            ended = subprocess.run(
                [sys.executable, "-m", "fuzz", *words],
                env=os.environ | variables | {"PYTHONWARNINGS": "error::RuntimeWarning"},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=seconds + PATIENCE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return told | {"failures": [{"kind": "hung", "place": "", "error": "", "input": ""}]}
    if counted := _COUNTED.search(ended.stderr):
        told["executions"] = int(counted[1])
    if (output / "failure.json").exists():
        told["failures"] = [json.loads((output / "failure.json").read_text())]
    elif ended.returncode:
        error = ended.stderr.decode(errors="replace")[-2_000:]
        place = f"the process ended with {ended.returncode}"
        told["failures"] = [{"kind": "crashed", "place": place, "error": error, "input": ""}]
    return told


def fuzz(names: Iterable[str], seconds: float, seed: int, *, jobs: int = 1) -> dict[str, Any]:
    """Fuzz targets, some at a time; write and return the report."""
    started = time.monotonic()
    names = list(names)
    with ThreadPoolExecutor(jobs) as pool:
        found = list(pool.map(lambda name: fuzz_one(name, seconds, seed), names))
    targets = dict(zip(names, found, strict=True))
    kinds = Counter(failure["kind"] for told in found for failure in told["failures"])
    report = {
        "targets": len(names),
        "trials": sum(told["executions"] for told in found),
        **{kind: kinds[kind] for kind in ("crashed", "hung", "wrong")},
        "seconds": round(time.monotonic() - started),
        "seed": seed,
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
    parser.add_argument("--here", action="store_true", help="fuzz one target in this process")
    given = parser.parse_args()
    if given.here:
        fuzz_here(given.targets[0], given.seconds, given.seed)
        return
    from fuzz.targets import TARGETS

    report = fuzz(given.targets or TARGETS, given.seconds, given.seed, jobs=given.jobs)
    for name, failures in report["failures"].items():
        for failure in failures:
            print(f"{name}: {failure['kind']}: {failure['place']} ({OUTPUT / name / failure['input']})")
            print("    " + failure["error"].strip().replace("\n", "\n    "))
    print(", ".join(f"{key} {report[key]}" for key in ("targets", "trials", "crashed", "hung", "wrong")))
    sys.exit(bool(report["failures"]))


if __name__ == "__main__":
    main()
