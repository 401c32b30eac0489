"""One workspace in eight threads: the hits of one thread, from the first use on."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from support.worlds import QUERIES, make_workspace

from branchrank import Workspace
from branchrank import workspace as workspace_module
from branchrank.core.spec import AGENT
from branchrank.index.index_build import build_index
from branchrank.search.systems.branches import KINDS, branch_kind

THREADS = 8
PREDICTORS = ("local", "pageindex", "hybrid", "grep", "qdrant", "sqlite", "late-interaction", "bm25", "dense")


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_workspace(tmp_path_factory.mktemp("threads"))
    build_index(folder).close()
    return folder.data_dir


def together(work: Callable[[int], object], count: int = THREADS) -> list[object]:
    """The results of threads that start at once. A thread that does not end fails the test."""
    start = threading.Barrier(count)
    results: list[object] = [None] * count
    errors: list[BaseException] = []

    def run(number: int) -> None:
        start.wait()
        try:
            results[number] = work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "the threads wait for one another"
    assert errors == []
    return results


def hits(workspace: Workspace, first: int) -> list[object]:
    """What all predictors find, in an order of the queries that depends on the thread."""
    queries = (QUERIES[(first + number) % len(QUERIES)] for number in range(len(QUERIES)))
    return [workspace.search(query, name, 3) for query in queries for name in PREDICTORS]


def test_everything_is_opened_once_and_the_hits_are_those_of_one_thread(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Workspace.open(data_dir) as alone:
        expected = [hits(alone, number) for number in range(THREADS)]
    opened: Counter[str] = Counter()
    kinds = [name for name in KINDS.builtin if name != AGENT]  # which needs an LLM
    for name in kinds:
        kind = branch_kind(name)

        def counted(opening, name=name, open_=kind.open):
            opened[name] += 1
            time.sleep(0.02)  # long enough for another thread to come
            return open_(opening)

        monkeypatch.setattr(kind, "open", counted)
    real = workspace_module.open_index

    def slow(folder):
        opened["index"] += 1
        time.sleep(0.05)
        return real(folder)

    monkeypatch.setattr(workspace_module, "open_index", slow)
    with Workspace.open(data_dir) as workspace:
        found = together(lambda number: (hits(workspace, number), workspace.tools))
        assert found == [(each, workspace.tools) for each in expected]
    assert opened == Counter(["index", *kinds])


class SlowLock:
    """A lock whose first holder waits, so that the other thread comes while it is held."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.held = threading.Event()

    def __enter__(self) -> None:
        self.lock.acquire()
        if not self.held.is_set():
            self.held.set()
            time.sleep(0.3)

    def __exit__(self, *exception: object) -> None:
        self.lock.release()


def test_the_index_and_the_engine_can_be_first_used_at_once(data_dir: Path) -> None:
    workspace = Workspace.open(data_dir)
    workspace._lock = lock = SlowLock()

    def use(number: int) -> object:
        if number == 0:
            return workspace.engine
        lock.held.wait(30)
        return workspace.index

    engine, index = together(use, 2)
    assert engine.index is index
    workspace.close()
