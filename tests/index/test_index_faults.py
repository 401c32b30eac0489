"""An index is the old one or the new one, whatever happens to a build: kills, bad disks, rivals."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support import killed_builds
from support.small_corpus import PAGES, small_workspace
from support.worlds import write_pages

from branchrank.core.errors import ArtifactError, StorageError
from branchrank.index.index_build import build_index
from branchrank.index.reader import open_index

#: The files after which a build is killed, and what a reader finds then.
OLD = ("chunks.jsonl", "chunks.arrays", "nodes.jsonl", "vectors.arrays", "documents.json", "modified.json")
OLD += ("manifest.json", "build.json")
NEW = ("current",)


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, bool], dict[str, object]]:
    plan = [(point, first) for first in (False, True) for point in OLD + NEW]
    root = tmp_path_factory.mktemp("killed")
    tests = Path(killed_builds.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "support.killed_builds", str(root), json.dumps(plan)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(tests)},
    )
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines()]
    return dict(zip(plan, results, strict=True))


@pytest.mark.parametrize("point", OLD + NEW)
def test_a_killed_rebuild_leaves_the_old_index_or_the_new(
    trials: dict[tuple[str, bool], dict[str, object]], point: str
) -> None:
    result = trials[point, False]
    assert result["signal"] == signal.SIGKILL
    assert result["found"] == ("new" if point in NEW else "old")
    assert result["fresh"] is (point in NEW)
    assert result["changed"]
    assert result["generations"] == ["000001", "000002"]
    assert result["leftovers"] == []


@pytest.mark.parametrize("point", OLD + NEW)
def test_a_killed_first_build_leaves_no_index_or_the_new_one(
    trials: dict[tuple[str, bool], dict[str, object]], point: str
) -> None:
    result = trials[point, True]
    assert result["signal"] == signal.SIGKILL
    if point in NEW:
        assert result["found"] == "new"
    else:
        assert str(result["found"]).startswith("ArtifactError")
    assert result["generations"] == ["000001"]
    assert result["leftovers"] == []


def test_embeddings_of_a_killed_build_are_reused(trials: dict[tuple[str, bool], dict[str, object]]) -> None:
    before, after = trials["nodes.jsonl", False], trials["vectors.arrays", False]
    assert (before["embedded"], after["embedded"]) == (1, 0)


def test_a_lock_ends_with_the_process_that_held_it(tmp_path: Path) -> None:
    workspace = small_workspace(tmp_path)
    code = (
        "import sys, os, signal; from pathlib import Path\n"
        "from branchrank.index.generations import build_lock\n"
        "with build_lock(Path(sys.argv[1])): os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, str(workspace.data_dir)], check=False)
    assert (workspace.data_dir / ".build.lock").exists()
    build_index(workspace).close()


def test_a_failed_write_leaves_the_old_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fsync fails in turn, until a build gets through without meeting the failing one."""
    workspace = small_workspace(tmp_path)
    with build_index(workspace) as index:
        before = killed_builds.answers(index)
    real_fsync = os.fsync
    failures: list[StorageError] = []
    for number in range(1, 500):
        calls = 0

        def fsync(descriptor: int, fail_at: int = number) -> None:
            nonlocal calls
            calls += 1
            if calls == fail_at:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            real_fsync(descriptor)

        monkeypatch.setattr(os, "fsync", fsync)
        try:
            build_index(workspace, force=True).close()
        except StorageError as error:
            failures.append(error)
        monkeypatch.setattr(os, "fsync", real_fsync)
        with open_index(workspace) as index:
            assert killed_builds.answers(index) == before
        if calls < number:
            break
    assert len(failures) > 20
    assert {error.exit_code for error in failures} == {8}
    assert all("free some space" in error.remedy for error in failures)
    assert len(list(workspace.generations.directory.glob("0*"))) <= 2


def test_readers_see_complete_generations_during_builds(tmp_path: Path) -> None:
    """Each text of a generation says its number; a reader never meets two numbers."""
    workspace = small_workspace(tmp_path)
    pages = tmp_path / "docs"

    def write(number: int) -> None:
        write_pages(pages, {f"page{page}.md": f"# Page {page}\n\nedition{number}\n" for page in range(4)})

    for source in PAGES:
        (pages / source).unlink()
    write(0)
    build_index(workspace).close()
    problems: list[str] = []
    done = threading.Event()
    seen: set[str] = set()

    def read() -> None:
        while not done.is_set():
            with open_index(workspace, check_corpus=False) as index:
                editions = {chunk.text.split()[-1] for chunk in index.chunks.values()}
                hits = {entry.key for entry in index.bm25_chunks.search(next(iter(editions)), 10)}
                if len(editions) != 1 or hits != set(index.chunks):
                    problems.append(f"{editions} {hits}")
                seen.update(editions)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        for number in range(1, 8):
            write(number)
            build_index(workspace, force=True).close()
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert problems == []
    assert len(seen) > 1


def test_a_reader_whose_generation_is_deleted_opens_the_newer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The generation is deleted between the look at ``current`` and the lock."""
    workspace = small_workspace(tmp_path)
    for _ in range(3):
        build_index(workspace, force=True).close()
    index_generations = workspace.generations
    numbers = iter([1, 3])
    monkeypatch.setattr(index_generations, "_current", lambda: next(numbers))
    pin = index_generations.pin()
    assert pin.directory.name == "000003"
    pin.close()
    pin.close()


@pytest.mark.parametrize("pointer", ["nonsense", "../../..", "000009"])
def test_a_pointer_to_a_missing_generation_is_an_error(tmp_path: Path, pointer: str) -> None:
    workspace = small_workspace(tmp_path)
    build_index(workspace).close()
    current = workspace.generations.directory / "current"
    current.unlink()
    current.symlink_to(pointer)
    with pytest.raises(ArtifactError, match="no index"):
        open_index(workspace)
    build_index(workspace).close()
