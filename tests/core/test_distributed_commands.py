"""The commands with --jobs and --engine ray: same files, killed workers, Ctrl-C, resume, errors."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.commands import NO_LLM, ROOT, invoke, make_project, program, table, write_lines

from branchrank.runs.directory import read_run

DOOR = ROOT / "benchmark_run.py"
SLOW = "support.slow_predictor:Slow"
SYSTEMS = ("--predictor", "local", "--predictor", "hybrid", *NO_LLM, "--latency-sample", 2)
JOBS = ("--jobs", 2)
RAY = ("--engine", "ray", "--jobs", 2)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_project(tmp_path_factory.mktemp("distributed"))
    (folder / "notes").mkdir()
    return folder


def run(project: Path, reports: str, *words: object, **environment: str) -> Path:
    """A benchmark as a program; returns the run's directory."""
    done = program(
        DOOR,
        *words,
        *("--reports", reports, "--quiet"),
        cwd=project,
        environment={"PYTHONPATH": str(ROOT / "tests"), "SLOW_NOTES": str(project / "notes"), **environment},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "" or "a worker died" in done.stderr
    [directory] = (project / reports).iterdir()
    return directory


@pytest.fixture(scope="module")
def alone(project: Path) -> Path:
    """The run of one process."""
    return run(project, "alone", *SYSTEMS)


def assert_same(directory: Path, other: Path) -> None:
    """The files that don't depend on time are equal, and the run verifies."""
    for name in ("rows.jsonl", "questions.csv", "questions.jsonl", "gold.jsonl"):
        assert (directory / name).read_bytes() == (other / name).read_bytes(), name

    def untimed(path: Path) -> list[dict[str, str]]:
        return [
            {key: value for key, value in row.items() if "_ms" not in key}
            for row in table(path / "summary.csv")
        ]

    assert untimed(directory) == untimed(other)
    counted = [(run.computed, run.reused) for run in (read_run(directory), read_run(other))]
    assert counted[0] == counted[1]
    assert invoke("verify", directory).exit_code == 0


def index_digests(data: Path) -> dict[str, Any]:
    [manifest] = data.glob("indexes/*/current/manifest.json")
    return {name: json.loads(manifest.read_text())[name] for name in ("digests", "given")}


def test_jobs_give_the_files_of_one_process(project: Path, alone: Path) -> None:
    assert_same(run(project, "jobs", *SYSTEMS, *JOBS), alone)


def test_an_index_of_several_processes_is_the_index_of_one(project: Path) -> None:
    made = project / "by-jobs"
    result = invoke("index", project / "docs", "--data-dir", made, "--embedder", "fake", *JOBS, "--quiet")
    assert result.exit_code == 0, result.output
    other = project / "by-one"
    assert invoke("index", project / "docs", "--data-dir", other, "--embedder", "fake").exit_code == 0
    assert index_digests(made) == index_digests(other)
    written = (made / "branchrank.toml").read_text()
    assert "jobs" not in written


@contextlib.contextmanager
def slow_run(project: Path, reports: str, *words: object) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [
            *(sys.executable, str(DOOR), "--predictor", SLOW, "--latency-sample", "0"),
            *map(str, words),
            *("--reports", reports, "--quiet"),
        ],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests"), "SLOW_NOTES": str(project / "notes")},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for_rows(project: Path, reports: str, count: int) -> Path:
    ends = time.monotonic() + 90
    while time.monotonic() < ends:
        for path in (project / reports).glob("*/rows.jsonl"):
            if path.read_bytes().count(b"\n") >= count:
                return path.parent
        time.sleep(0.05)
    raise AssertionError("no rows")


def lives(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_is_resumed(project: Path, number: signal.Signals, tmp_path: Path) -> None:
    reports = f"interrupted-{number.name}"
    shutil.rmtree(project / "notes")
    (project / "notes").mkdir()
    many = [{"id": f"q{n}", "question": f"question {n}", "answerable": False} for n in range(12)]
    questions = ("--questions", write_lines(tmp_path / "questions.jsonl", many))
    with slow_run(project, reports, *questions, *JOBS) as process:
        directory = wait_for_rows(project, reports, 4)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert "interrupted" in said
    kept = (directory / "rows.jsonl").read_bytes()
    assert 4 <= kept.count(b"\n") < 12
    workers = [int(path.name) for path in (project / "notes").iterdir()]
    assert len(workers) == 2
    ends = time.monotonic() + 30
    while any(map(lives, workers)):
        assert time.monotonic() < ends, "workers are left"
        time.sleep(0.1)
    done = program(
        *("-m", "branchrank.frontends.cli.main", "resume", directory, "--trust", *JOBS, "--quiet"),
        cwd=project,
        environment={"PYTHONPATH": str(ROOT / "tests"), "SLOW_NOTES": str(project / "notes"), "SLOW_S": "0"},
    )
    assert done.returncode == 0, done.stderr
    rows = (directory / "rows.jsonl").read_bytes()
    assert rows.startswith(kept)
    assert rows.count(b"\n") == 12
    assert read_run(directory).resumed_rows == kept.count(b"\n")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--ray-address", "127.0.0.1:6379"), 2, "--ray-address needs --engine ray"),
        (
            ("--engine", "ray", "--ray-address", "127.0.0.1:9"),
            11,
            "the Ray address 127.0.0.1:9 does not answer",
        ),
        (("--jobs", "-1"), 2, "jobs"),
    ],
)
def test_wrong_flags_are_errors_before_any_work(
    project: Path, words: tuple[str, ...], code: int, said: str, tmp_path: Path
) -> None:
    flags = ("--data-dir", project / "data", "--predictor", "local", "--reports", tmp_path / "r")
    result = invoke("benchmark", *flags, *words)
    assert (result.exit_code, said in result.output) == (code, True), result.output
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("flag", ["--max-calls", "--max-tokens", "--llm-record"])
def test_flags_that_count_calls_in_one_process_are_refused(project: Path, flag: str) -> None:
    llm = ("--hybrid-base-url", "http://127.0.0.1:9/v1", "--hybrid-model", "m", flag, 5)
    result = invoke("benchmark", "--data-dir", project / "data", "--predictor", "hybrid", *llm, *JOBS)
    assert result.exit_code == 2
    assert flag in result.output


def test_a_file_cannot_name_a_remote_cluster(project: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(project / "data", data, symlinks=True)
    with (data / "branchrank.toml").open("a") as stream:
        stream.write('\n[engine]\nkind = "ray"\nray_address = "192.0.2.77:6379"\n')
    result = invoke("benchmark", "--data-dir", data, "--predictor", "local")
    assert result.exit_code == 2
    assert "--ray-address 192.0.2.77:6379" in result.output


def test_without_ray_the_error_names_the_package(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchrank.core.execution.executors.find_spec", lambda name: None)
    result = invoke("benchmark", "--data-dir", project / "data", "--predictor", "local", *RAY)
    assert result.exit_code == 5
    assert re.search(r'pip install "?ray', result.output)


@pytest.mark.full
def test_ray_gives_the_files_of_one_process(project: Path, alone: Path) -> None:
    assert_same(run(project, "ray", *SYSTEMS, *RAY), alone)
    assert not list(Path("/tmp").glob("branchrank-ray-*"))


@contextlib.contextmanager
def cluster(nodes: int) -> Iterator[Any]:
    """A Ray cluster of several nodes on this machine, each with one CPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        from ray.cluster_utils import Cluster

        node = {"num_cpus": 1, "object_store_memory": 100 * 1024 * 1024}
        made = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
        try:
            for _ in range(nodes - 1):
                made.add_node(**node)
            made.wait_for_nodes()
            yield made
        finally:
            made.shutdown()


@pytest.mark.full
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("nodes", [1, 2, 3])
@pytest.mark.parametrize("ship", [(), ("--ray-ship",)], ids=["shared", "shipped"])
def test_a_cluster_of_any_size_gives_the_files_of_one_process(
    project: Path, alone: Path, nodes: int, ship: tuple[str, ...]
) -> None:
    with cluster(nodes) as made:
        words = ("--engine", "ray", "--ray-address", made.address, *ship)
        assert_same(run(project, f"cluster-{nodes}{'-'.join(ship)}", *SYSTEMS, *words), alone)
        data = project / f"index-{nodes}{'-'.join(ship)}"
        index = ("index", "docs", "--data-dir", data, "--embedder", "fake", "--quiet", *words)
        done = program("-m", "branchrank.frontends.cli.main", *index, cwd=project)
        assert done.returncode == 0, done.stderr
    other = project / f"one-{nodes}{'-'.join(ship)}"
    assert invoke("index", project / "docs", "--data-dir", other, "--embedder", "fake").exit_code == 0
    assert index_digests(data) == index_digests(other)


@pytest.mark.full
@pytest.mark.filterwarnings("default")
def test_a_node_killed_half_way_changes_nothing(project: Path, tmp_path: Path) -> None:
    many = [{"id": f"q{n}", "question": f"question {n}", "answerable": False} for n in range(60)]
    questions = ("--questions", write_lines(tmp_path / "questions.jsonl", many))
    whole = run(project, "node-alone", "--predictor", SLOW, "--latency-sample", 0, *questions, SLOW_S="0")
    with cluster(3) as made:
        words = ("--engine", "ray", "--ray-address", made.address)
        with slow_run(project, "node-killed", *questions, *words) as process:
            directory = wait_for_rows(project, "node-killed", 8)
            made.remove_node(next(iter(made.worker_nodes)), allow_graceful=False)
            _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert "a worker died" in said
    for name in ("rows.jsonl", "questions.csv"):
        assert (directory / name).read_bytes() == (whole / name).read_bytes()
