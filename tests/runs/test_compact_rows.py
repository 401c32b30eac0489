"""Runs with ``--rows compact``: the same results in less space, and every reader knows them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from support.beir_folders import beir_folder
from support.commands import NO_LLM, ROOT, benchmark, invoke, make_project, program
from support.made_runs import Planned, make_questions, make_run
from support.refinished import refinish
from support.tamperings import on_record

from branchrank import Run
from branchrank.reports.verify import verify
from branchrank.reports.writing import write_report
from branchrank.runs import directory as names
from branchrank.runs.bench import beir_plan as beir
from branchrank.runs.directory import read_run
from branchrank.runs.rows import read_lines, write_lines

RACERS = ("--predictor", "local", "--predictor", "support.predictors:Killed", *NO_LLM)
SHARED = (names.QUESTIONS_CSV, names.SUMMARY_CSV, names.COMPARISONS_CSV, names.GOLD, names.QUESTIONS)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same run with plain and with compact rows."""
    folder = tmp_path_factory.mktemp("rows")
    planned = (Planned("local", 0.6), Planned("reranked", 0.7, llm="tiny", fails="q0004"))
    made = {}
    for rows in ("plain", "compact"):
        run = make_run(
            folder, planned, make_questions(20, per_page=2, unanswerable=2), latency_sample=0, rows=rows
        )
        write_report(run)
        made[rows] = run.directory
    return made


def unpacked(run: Path) -> bytes:
    return b"".join(line + b"\n" for line in read_lines(run / names.COMPACT_ROWS))


def test_compact_rows_decompress_to_the_plain_rows(runs: dict[str, Path]) -> None:
    plain, compact = runs["plain"], runs["compact"]
    assert not (compact / names.ROWS).exists()
    assert unpacked(compact) == (plain / names.ROWS).read_bytes()
    assert (compact / names.COMPACT_ROWS).stat().st_size < (plain / names.ROWS).stat().st_size / 5
    for name in SHARED:
        assert (compact / name).read_bytes() == (plain / name).read_bytes(), name


def test_every_command_reads_compact_rows(runs: dict[str, Path], tmp_path: Path) -> None:
    plain, compact = runs["plain"], runs["compact"]
    for words in (
        ("show", compact),
        ("verify", compact),
        ("compare", plain, compact),
        ("gate", compact, "--baseline", plain),
        ("explain", compact, "q0001"),
        ("export-trec", compact, "--output", tmp_path / "trec"),
        ("list", "--reports", compact.parent),
    ):
        result = invoke(*words)
        assert result.exit_code == 0, (words, result.output)
    copy = shutil.copytree(compact, tmp_path / compact.name)
    assert invoke("report", copy).exit_code == 0
    loaded = Run.load(compact)
    assert loaded.questions.equals(Run.load(plain).questions)


def on_packed_row(old: bytes, new: bytes) -> Callable[[Path], None]:
    def doctor(run: Path) -> None:
        lines = read_lines(run / names.COMPACT_ROWS)
        number = next(number for number, line in enumerate(lines) if old in line)
        lines[number] = lines[number].replace(old, new, 1)
        write_lines(run / names.COMPACT_ROWS, [line + b"\n" for line in lines])

    return doctor


def without_row(run: Path) -> None:
    lines = read_lines(run / names.COMPACT_ROWS)
    write_lines(run / names.COMPACT_ROWS, [line + b"\n" for line in lines[1:]])


DOCTORS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a judgment": (
        on_packed_row(b'"gain":0', b'"gain":2'),
        "rows.jsonl.zst: has changed since the run: its digest differs from the recorded digest",
    ),
    "a row is removed": (without_row, "rows.jsonl.zst: question"),
    "said to be plain": (
        on_record(lambda record: record["settings"]["benchmark"].update(rows="plain")),
        "rows.jsonl: is missing",
    ),
}


@pytest.mark.parametrize("name", DOCTORS)
def test_tampering_is_found(runs: dict[str, Path], tmp_path: Path, name: str) -> None:
    doctor, said = DOCTORS[name]
    copy = shutil.copytree(runs["compact"], tmp_path / runs["compact"].name)
    doctor(copy)
    if name == "a row is removed":
        refinish(copy)
    found = [str(finding) for finding in verify(copy).findings]
    assert any(said in text for text in found), found


def test_a_killed_run_is_resumed_with_the_same_rows(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    plain = benchmark(project, *RACERS[:2], *NO_LLM, reports=tmp_path / "plain")
    reports = tmp_path / "killed"
    words = (ROOT / "benchmark_run.py", *RACERS, "--rows", "compact", "--latency-sample", 0)

    def run(killed_at: int) -> Any:
        counting = {"KILLED_COUNTER": str(tmp_path / "counter"), "KILLED_BY": "SIGKILL"}
        variables = {"PYTHONPATH": str(ROOT / "tests"), "KILLED_AT": str(killed_at), **counting}
        return program(*words, "--reports", reports, cwd=project, environment=variables)

    assert run(3).returncode == -9
    [directory] = reports.iterdir()
    path = directory / names.COMPACT_ROWS
    kept = read_lines(path)
    assert len(kept) == 2 * 2 + 1
    path.write_bytes(path.read_bytes() + zstandard.compress(kept[0])[:-5])  # a row that was cut short
    done = run(0)
    assert done.returncode == 0, done.stderr
    assert "last row" in done.stderr
    assert read_run(directory).status == "finished"
    local = [line + b"\n" for line in read_lines(path) if b'"predictor":"local"' in line]
    assert b"".join(local) == (plain / names.ROWS).read_bytes()
    assert len((tmp_path / "counter").read_text()) == 8 + 1, "the killed question is asked again, no other"


def test_a_large_beir_run_reports_that_its_rows_are_compact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beir, "LARGE_RUN_HITS", 10 * 5)
    beir_folder(tmp_path / "tiny", queries=10)

    def kept(*words: object) -> tuple[str, list[str]]:
        reports = tmp_path / f"reports-{len(words)}-{words[-1] if words else ''}"
        result = invoke(
            *("beir", "run", tmp_path / "tiny", "--data-dir", tmp_path / "data", "--reports", reports),
            *("--quiet", "--measure", "nDCG@3", *words),
        )
        assert result.exit_code == 0, result.output
        [directory] = reports.iterdir()
        return result.output, sorted(path.name for path in directory.glob("rows.*"))

    said, files = kept("--top-k", 5)
    assert files == [names.COMPACT_ROWS]
    assert "compressed" in said
    assert kept("--top-k", 4)[1] == [names.ROWS]
    said, files = kept("--top-k", 5, "--rows", "plain")
    assert files == [names.ROWS]
    assert "compressed" not in said
