"""Damaged and made-up files: every command refuses them in words, or gives a right result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from damaged_files.trials import World, undrawn

ROOT = Path(__file__).parents[2]
REPORT = ROOT / "build" / "harness" / "given.json"
SAMPLE, SEED = 50, 42
PROCESSES = 2


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with undrawn():
        yield World(tmp_path_factory.mktemp("damaged"))


def test_a_sample_of_damaged_files_is_refused_or_read(world: World) -> None:
    faults = [(trial.name, fault) for trial in world.sample(SAMPLE, SEED) if (fault := world.judge(trial))]
    assert not faults, "\n".join(f"{fault[0]}: {name}\n{fault[1]}" for name, fault in faults)


def test_changes_are_listed_for_every_file_and_kind(world: World) -> None:
    """The lists come from the files: an empty list would let every mutant pass."""
    trials = list(world.trials())
    by_artefact = Counter(trial.artefact.name for trial in trials)
    assert len(by_artefact) == 6
    assert all(count > 50 for count in by_artefact.values()), by_artefact
    fields = {(trial.file.name, trial.change.name) for trial in trials}
    for expected in (
        ("run.json", "top_k: -1"),
        ("run.json", "predictors.*.name: lone surrogate"),
        ("rows.jsonl", "hits.*.line_start: Infinity"),
        ("manifest.json", "digests: {}"),
        ("branchrank.toml", "embedder: 7"),
        ("timings.csv", "ms: nan"),
        ("vectors.npy", "header: huge shape"),
        ("calls.sqlite", "calls.recorded: invalid UTF-8"),
        ("chunks.jsonl", "text: 10 MB"),
        ("nodes.jsonl", "pipe"),
    ):
        assert expected in fields, expected


@pytest.mark.full
def test_all_damaged_files_are_refused_or_read() -> None:
    """``build/harness/given.json`` has the counts."""
    started = time.monotonic()
    environment = os.environ | {"PYTHONPATH": str(ROOT / "tests")}
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "damaged_files", str(share), str(PROCESSES)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for share in range(PROCESSES)
    ]
    told = [json.loads(process.communicate()[0] or '{"trials": 0, "faults": []}') for process in running]
    faults = [fault for each in told for fault in each["faults"]]
    kinds = Counter(fault[0] for fault in faults)
    report = {
        "part": "damaged files",
        "trials": sum(each["trials"] for each in told),
        "silent": 0,
        **{kind: kinds[kind] for kind in ("lost", "leaked", "crashed", "hung", "wrong")},
        "seconds": round(time.monotonic() - started),
        "seed": SEED,
    }
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(json.dumps(report, indent=1) + "\n")
    assert not faults, faults[:5]
    assert all(process.returncode == 0 for process in running)
    assert report["trials"] > 10_000
