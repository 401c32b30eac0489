"""One contract for the executors: this process, processes of this machine, actors of a Ray cluster."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.shard_tasks import FactsTask, ReadTask, SquareTask

from branchrank.core.errors import MissingDependencyError, UsageError, WorkerError
from branchrank.core.execution import Executor, thread_count, usable_cpus
from branchrank.core.execution.executors import open_executor
from branchrank.core.execution.workers import LostError, Pool, pack, unpack
from branchrank.core.settings import resolve

SHARDS = [[1, 2], [3], [], [4, 5, 6], [7], [8]]
SQUARES = [1, 4, 9, 16, 25, 36, 49, 64]

ENGINES: dict[str, dict[str, object]] = {
    "process": {},
    "processes": {"engine.jobs": 2},
    "ray": {"engine.kind": "ray", "engine.jobs": 2},
}


RAY = pytest.param("ray", marks=pytest.mark.full)
SEVERAL = pytest.mark.parametrize("executor", ["processes", RAY], indirect=True)


@pytest.fixture(scope="module", params=["process", "processes", RAY])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    flags = ENGINES[request.param] | {"engine.threads": 3}
    with open_executor(resolve(environment={}, flags=flags)) as opened:
        yield opened


def test_results_come_in_the_order_of_the_shards(executor: Executor, tmp_path: Path) -> None:
    task = SquareTask(tmp_path, script={1: "slow"})
    assert list(executor.map(task, SHARDS)) == SQUARES
    assert list(executor.map(task, [])) == []


def test_a_worker_opens_a_task_once(executor: Executor, tmp_path: Path) -> None:
    task = SquareTask(tmp_path)
    for _ in range(2 if not executor.in_process else 1):
        assert list(executor.map(task, SHARDS)) == SQUARES
    assert 1 <= len(list(tmp_path.glob("opened-*"))) <= executor.workers


def test_an_error_keeps_its_type_and_its_place(executor: Executor, tmp_path: Path) -> None:
    results = executor.map(SquareTask(tmp_path, script={4: "error"}), SHARDS)
    assert [next(results) for _ in range(3)] == SQUARES[:3]
    with pytest.raises(ValueError, match=r"^no square of 4"):
        list(results)
    with pytest.raises(MissingDependencyError) as raised:
        list(executor.map(SquareTask(tmp_path, script={1: "package"}), SHARDS))
    assert raised.value.exit_code == 5
    assert "pip install " in raised.value.remedy
    assert list(executor.map(SquareTask(tmp_path), SHARDS)) == SQUARES


def test_work_ends_when_the_iterator_is_closed(executor: Executor, tmp_path: Path) -> None:
    results = executor.map(SquareTask(tmp_path, script={7: "wait"}), SHARDS)
    assert next(results) == 1
    began = time.monotonic()
    results.close()  # type: ignore[attr-defined]
    assert time.monotonic() - began < 30
    assert list(executor.map(SquareTask(tmp_path), SHARDS)) == SQUARES


class Stuck:
    """A worker for which the cluster has no CPU."""

    def __init__(self) -> None:
        self._killed = threading.Event()

    def wait(self) -> None:
        assert self._killed.wait(20), "nobody else took the shard"
        raise LostError("killed")

    def kill(self) -> None:
        self._killed.set()


def test_a_worker_that_does_not_start_holds_up_no_shard(tmp_path: Path) -> None:
    with open_executor(resolve(environment={}, flags=ENGINES["processes"])) as pool:
        assert isinstance(pool, Pool)
        start, waiting = pool.start, [Stuck()]
        pool.start = lambda setup: waiting.pop() if waiting else start(setup)
        assert list(pool.map(SquareTask(tmp_path), SHARDS)) == SQUARES
        assert waiting == []


@pytest.mark.parametrize(
    ("executor", "library"),
    [
        ("process", "torch"),
        ("processes", ""),
        *(pytest.param(engine, "torch", marks=pytest.mark.full) for engine in ("processes", "ray")),
    ],
    indirect=["executor"],
)
def test_every_worker_has_the_thread_count_of_the_settings(executor: Executor, library: str) -> None:
    for facts in executor.map(FactsTask(), ["", library]):
        assert facts["threads"] == 3
        assert facts["torch"] in (0, 3)
        assert executor.in_process or facts["variable"] == "3"
        assert facts["folder"] == os.getcwd()
        assert executor.in_process == (facts["pid"] == os.getpid())


@SEVERAL
def test_the_work_of_a_killed_worker_is_done_again(executor: Executor, tmp_path: Path) -> None:
    assert list(executor.map(SquareTask(tmp_path, script={4: "die once"}), SHARDS)) == SQUARES
    assert (tmp_path / "died").exists()


@SEVERAL
def test_a_shard_that_keeps_killing_its_worker_is_an_error(executor: Executor, tmp_path: Path) -> None:
    results = executor.map(SquareTask(tmp_path, script={4: "die"}), SHARDS)
    assert [next(results) for _ in range(3)] == SQUARES[:3]
    with pytest.raises(WorkerError, match=r"3 workers .* shard 4 of 6"):
        list(results)


@SEVERAL
def test_a_task_that_cannot_be_sent_is_an_error(executor: Executor, tmp_path: Path) -> None:
    task = SquareTask(tmp_path)
    task.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="can't be sent"):
        list(executor.map(task, SHARDS))


@SEVERAL
def test_a_worker_reads_what_the_command_reads(
    executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "note.txt").write_text("read me", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    text, folder = executor.map(ReadTask(tmp_path / "note.txt"), ["note.txt"])
    assert (text, folder) == ("read me", str(tmp_path))
    with pytest.raises(WorkerError, match=r"has no .*absent"):
        list(executor.map(ReadTask(tmp_path / "absent"), ["note.txt"]))


def test_the_default_number_of_threads_comes_from_openmp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchrank.core.execution.torch_threads", lambda: 0)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert thread_count() == 7
    monkeypatch.setenv("OMP_NUM_THREADS", "several")
    assert thread_count() == usable_cpus()


def test_hard_links_to_the_same_file_are_all_shipped(tmp_path: Path) -> None:
    sent, received = tmp_path / "sent", tmp_path / "received"
    sent.mkdir()
    (sent / "a").write_text("text")
    os.link(sent / "a", sent / "b")
    (sent / "outside").symlink_to("/etc")
    unpack(pack([sent]), received)
    copy = received / str(sent).lstrip("/")
    assert sorted(path.name for path in copy.iterdir()) == ["a", "b"]
    assert (copy / "b").read_text() == "text"
