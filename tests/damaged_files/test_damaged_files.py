"""Damaged and made-up files: every command refuses them in words, or gives a right result."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support import draw, harness

from damaged_files.chroma_files import ChromaWorld
from damaged_files.trials import World, undisturbed

#: Trials of the short form.
SAMPLE = 2
#: One of so many changes of the columns of Chroma's tables is tried; every other change of its files is.
CHROMA_FIELDS = 8
#: The number of tests that all trials are divided among, so that processes share them.
PARTS = 16


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with undisturbed():
        yield World(tmp_path_factory.mktemp("damaged"))


def test_a_sample_of_damaged_files_is_refused_or_read(world: World) -> None:
    trials = world.sample(SAMPLE, draw.SEED)
    faults = [(trial.name, fault) for trial in trials if (fault := world.judge(trial))]
    assert not faults, "\n".join(f"{fault[0]}: {name}\n{fault[1]}" for name, fault in faults)


def test_changes_are_listed_for_every_file_and_kind(world: World) -> None:
    """The lists come from the files: an empty list would let every mutant pass."""
    trials = world.every_trial
    by_artifact = Counter(trial.artifact.name for trial in trials)
    assert len(by_artifact) == 7
    assert all(count > 50 for count in by_artifact.values()), by_artifact
    assert len(trials) > 10_000
    fields = {(trial.file.name, trial.change.name) for trial in trials}
    for expected in (
        ("run.json", "top_k: -1"),
        ("run.json", "predictors.*.name: lone surrogate"),
        ("rows.jsonl", "hits.*.line_start: Infinity"),
        ("manifest.json", "digests: {}"),
        ("branchrank.toml", "embedder: -1"),
        ("timings.csv", "ms: nan"),
        ("vectors.arrays", "header: huge shape"),
        ("calls.sqlite", "calls.recorded: invalid UTF-8"),
        ("chunks.jsonl", "text: 10 MB"),
        ("nodes.jsonl", "pipe"),
        ("rows.jsonl.zst", "hits.*.line_start: Infinity"),
        ("rows.jsonl.zst", "lines: 80 MB"),
    ):
        assert expected in fields, expected


def test_links_and_decompression_bombs_are_refused(world: World) -> None:
    changes = {"lines: 80 MB", "link to a copy"}
    trials = [
        trial
        for trial in world.every_trial
        if trial.artifact.name == "compact run" and trial.change.name in changes
    ]
    assert {trial.change.name for trial in trials} == changes
    assert [trial.name for trial in trials if not world.refuses(trial)] == []


@pytest.mark.parametrize(
    ("artifact", "file", "change"),
    [
        ("index", "manifest.json", "pipe"),
        ("run", "rows.jsonl", "lost: 10 MB"),
        ("run", "run.json", 'settings.cache: "x"'),
        ("run", "run.json", "settings.bm25.stemmer: 10 MB"),
        ("run", "hard.jsonl", "link to a secret"),
        ("run", "run.json", "predictors.*.name: terminal codes"),
        ("run", "rows.jsonl", "pipe"),
        ("run", "timings.csv", "ms: nan"),
        ("run", "rows.jsonl", "calls.*.prompt_tokens: 400 digits"),
        ("index", "manifest.json", "given: {}"),
        ("index", "stamps.json", "pipe"),
        ("workspace", "questions.jsonl", "link to itself"),
        pytest.param("folder to adopt", "chunks.jsonl", "text: 10 MB", marks=pytest.mark.full),
        pytest.param("run", "questions.csv", "llm: 10 MB", marks=pytest.mark.full),
        pytest.param("workspace", "branchrank.toml", "corpus: 10 MB", marks=pytest.mark.full),
        pytest.param("workspace", "branchrank.toml", "embedder: 10 MB", marks=pytest.mark.full),
    ],
)
def test_changes_that_once_caused_a_traceback_or_a_hang_are_refused(
    world: World, artifact: str, file: str, change: str
) -> None:
    wanted = (artifact, file, change)
    chosen = [
        trial
        for trial in world.every_trial
        if (trial.artifact.name, trial.file.name, trial.change.name) == wanted
    ]
    assert chosen
    commands = [replace(trial, command=command) for trial in chosen for command in trial.artifact.commands]
    assert [fault for trial in commands if (fault := world.judge(trial))] == []


@pytest.mark.full
def test_a_database_that_crashes_chromas_compiled_code_is_refused(tmp_path: Path) -> None:
    world = ChromaWorld(tmp_path)
    [trial] = [
        (file, change)
        for file, change in world.trials()
        if (file.name, change.name) == ("chroma.sqlite3", "NUL bytes")
    ]
    assert world.judge(*trial) is None


@pytest.mark.campaign
@pytest.mark.parametrize("part", range(2))
def test_damaged_files_of_chroma_are_refused_or_read(tmp_path: Path, part: int) -> None:
    started = time.monotonic()
    world = ChromaWorld(tmp_path)
    trials = draw.some(
        (file, change)
        for number, (file, change) in enumerate(world.trials())
        if ": " not in change.name or number % CHROMA_FIELDS == 0
    )[part::2]
    faults = [
        (*fault, f"{file.name}: {change.name}")
        for file, change in trials
        if (fault := world.judge(file, change))
    ]
    record("damaged files of Chroma", len(trials), faults, started, part)
    assert not faults, faults[:5]
    assert len(trials) >= draw.number(150) // 2


@pytest.mark.campaign
@pytest.mark.parametrize("part", range(PARTS))
def test_all_damaged_files_are_refused_or_read(world: World, part: int) -> None:
    started = time.monotonic()
    trials = draw.some(world.every_trial)[part::PARTS]
    faults = [(*fault, trial.name) for trial in trials if (fault := world.judge(trial))]
    record("damaged files", len(trials), faults, started, part)
    assert not faults, "\n".join(f"{kind}: {name}\n{what[-500:]}" for kind, what, name in faults)


def record(
    part: str, trials: int, faults: Sequence[tuple[str, ...]], started: float, number: int = 0
) -> None:
    """Keep the numbers of trials and faults; those of all numbers of a part are added up."""
    kinds = Counter(fault[0] for fault in faults)
    counts = {kind: kinds[kind] for kind in ("lost", "leaked", "crashed", "hung", "wrong")}
    seconds = round(time.monotonic() - started)
    made = harness.Part(part=part, trials=trials, **counts, seconds=seconds, seed=draw.seed())
    harness.record(f"{part} {number}".lower().replace(" ", "-"), made)
