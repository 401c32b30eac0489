"""The library leaves the process as it found it, prints nothing, and closes what it opens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.commands import ROOT, invoke, program
from support.small_index import DOCUMENTS

from branchrank.core.io import temporary_environment

SUPPORT = ROOT / "tests" / "support"
STORES = [("exact", "fake:64"), ("chroma", "all-MiniLM-L6-v2")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for source, text in DOCUMENTS.items():
        path = tmp_path / "docs" / source
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def run(script: Path, *arguments: object, **environment: str) -> subprocess.CompletedProcess[bytes]:
    inherited = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    return subprocess.run(
        [sys.executable, script, *map(str, arguments)],
        capture_output=True,
        cwd=ROOT,
        env={**inherited, **environment},
        timeout=300,
        check=False,
    )


#: Warning filters that other libraries add when they are imported, by the start of their ``repr``.
FOREIGN_FILTERS = ("the matrix subclass is not the recommended way", "scipy.special", "opentelemetry")


@pytest.mark.parametrize(("store", "embedder"), [STORES[0], pytest.param(*STORES[1], marks=pytest.mark.full)])
def test_a_build_a_search_and_a_benchmark_leave_the_process_as_it_was(
    folder: Path, store: str, embedder: str
) -> None:
    done = run(SUPPORT / "process_state.py", folder, store, embedder)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    changes = json.loads((folder / "changes.json").read_text())
    filters = changes.pop("warnings", {"gone": [], "new": []})
    assert filters["gone"] == []
    assert [each for each in filters["new"] if not any(name in each for name in FOREIGN_FILTERS)] == []
    assert changes == {}


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
@pytest.mark.parametrize(("store", "embedder"), [STORES[0], pytest.param(*STORES[1], marks=pytest.mark.full)])
def test_a_closed_workspace_leaves_nothing_open(folder: Path, store: str, embedder: str) -> None:
    done = program(SUPPORT / "open_resources.py", folder, store, embedder, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads((folder / "open.json").read_text())
    assert answer["files"] == []
    # Chroma starts the threads and the socket pair of its runtime once in a process.
    left = {name: count for name, count in answer["last"].items() if count > answer["first"][name]}
    assert left == {}
    assert answer["last"]["connections"] == 0
    assert answer["last"]["python threads"] == 1


SUMS = """
import hashlib, sys
import numpy as np
from branchrank.scoring.significance import difference_interval
from branchrank.index.stores.vectors import ExactVectors

random = np.random.default_rng(7)
found = []
for rows in (100, 6_000, 20_000):
    matrix = random.standard_normal((rows, 384), dtype=np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    matrix[rows // 2] = matrix[3]  # an equal score
    store = ExactVectors([f"{row:05}" for row in range(rows)], matrix)
    for row in (3, 50, 99):
        found += [(entry.key, entry.score.hex()) for entry in store.search(matrix[row], 20)]
differences = random.normal(0.1, 0.3, 2_001)
interval = difference_interval(differences.clip(-1, 1), [f"{n // 3}" for n in range(2_001)])
found.append((interval.low.hex(), interval.high.hex()))
print(hashlib.sha256(repr(found).encode()).hexdigest())
"""


@pytest.mark.parametrize("number", ["7", *(pytest.param(each, marks=pytest.mark.full) for each in ("2", ""))])
def test_sums_have_the_same_bits_for_any_number_of_blas_threads(tmp_path: Path, number: str) -> None:
    script = tmp_path / "sums.py"
    script.write_text(SUMS)
    digests = {run(script, OPENBLAS_NUM_THREADS=threads).stdout for threads in ("1", number)}
    assert len(digests) == 1
    assert len(digests.pop()) == 65


@pytest.mark.full
def test_a_class_in_the_working_directory_is_importable_by_the_command_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from branchrank.core.errors import UsageError
    from branchrank.runs.bench.predictors import load_class_predictor

    name = "retriever_of_this_folder"
    (folder / f"{name}.py").write_text("class Mine:\n    def retrieve(self, query, k):\n        return []\n")
    monkeypatch.chdir(folder)
    before = list(sys.path)
    with pytest.raises(UsageError, match="No module named"):
        load_class_predictor(f"{name}:Mine")
    assert sys.path == before
    flags = ["--predictor", f"{name}:Mine", "--data-dir", "data", "--embedder", "fake:64", "--quiet"]
    flags += ["--latency-sample", "0"]
    (folder / "questions.jsonl").write_text(
        '{"id": "q", "question": "clear", "source_file": "cache.rst", '
        '"answer_line_start": 6, "answer_line_end": 9}\n'
    )
    assert invoke("index", "docs", *flags[2:-2]).exit_code == 0
    # -P: the interpreter does not add the working directory by itself.
    words = ["benchmark", "--questions", "questions.jsonl", *flags]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "branchrank", *words], capture_output=True, text=True, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    assert "Mine" in done.stdout


def test_variables_are_set_for_one_block_and_restored_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCHRANK_TEST_SET", "old")
    monkeypatch.delenv("BRANCHRANK_TEST_NEW", raising=False)
    before = dict(os.environ)
    with temporary_environment(BRANCHRANK_TEST_SET="new", BRANCHRANK_TEST_NEW="new"):
        assert os.environ["BRANCHRANK_TEST_SET"] == os.environ["BRANCHRANK_TEST_NEW"] == "new"
    assert dict(os.environ) == before

    @temporary_environment(BRANCHRANK_TEST_SET="new", BRANCHRANK_TEST_NEW="new")
    def fail() -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert dict(os.environ) == before


def test_threads_set_environment_variables_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BRANCHRANK_TEST_NEW", raising=False)

    def turn(number: int) -> bool:
        with temporary_environment(BRANCHRANK_TEST_NEW=str(number)):
            threading.Event().wait(0.001)
            return os.environ["BRANCHRANK_TEST_NEW"] == str(number)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(turn, range(80)))
    assert "BRANCHRANK_TEST_NEW" not in os.environ


def test_random_numbers_and_the_start_method_are_restored(tmp_path: Path) -> None:
    script = tmp_path / "restored.py"
    script.write_text(
        "import multiprocessing, random\n"
        "from branchrank.core.io import preserved_random_state, preserved_start_method\n"
        "random.seed(1)\n"
        "with preserved_random_state(), preserved_start_method():\n"
        "    random.random(), multiprocessing.RLock()\n"
        "assert multiprocessing.get_start_method(allow_none=True) is None\n"
        "multiprocessing.set_start_method('spawn')\n"
        "with preserved_start_method():\n"
        "    multiprocessing.RLock()\n"
        "assert multiprocessing.get_start_method(allow_none=True) == 'spawn'\n"
        "first = random.random()\n"
        "random.seed(1)\n"
        "assert random.random() == first\n"
    )
    done = run(script)
    assert (done.returncode, done.stderr) == (0, b"")
