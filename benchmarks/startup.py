"""Measure the time of imports, `--help` and a first query, relative to the time of `python -c pass`.

    python benchmarks/startup.py

Each case runs in a new process. All cases use one workspace, which is built from the bundled sample before
the first case. Each round runs every case once. The minimum of each case is printed, because other programs
can only make a process slower. CPU time includes all threads, and varies less than wall time on a busy
machine. Warm queries run in this process. For each vector store, all questions of the sample are asked twice,
and the second pass is timed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import branchrank

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT / "data" / "sample" / "corpus"
QUERY = "how do I compare two runs"
#: Environment variables that enable Python's bytecode cache, as in an installed program.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def cases(data: Path) -> dict[str, list[str]]:
    """Return the interpreter's arguments for each case."""
    search = f"import branchrank; branchrank.Workspace.open({str(data)!r}).search({QUERY!r}, system="
    exact = search.replace(").search", ", settings={'index.vector_store': 'exact'}).search")
    return {
        "python -c pass": ["-c", "pass"],
        "import branchrank": ["-c", "import branchrank"],
        "branchrank.Hit": ["-c", "import branchrank; branchrank.Hit"],
        "branchrank.Workspace": ["-c", "import branchrank; branchrank.Workspace"],
        "branchrank --help": ["-m", "branchrank", "--help"],
        "a cold query, BM25 alone": ["-c", f"{search}'bm25')"],
        "a cold query, local, exact vectors": ["-c", f"{exact}'local')"],
        "a cold query, local, Chroma": ["-c", f"{search}'local')"],
    }


def times(arguments: list[str]) -> tuple[float, float]:
    """Return the CPU time and the wall time of one process in milliseconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True, cwd=ROOT, env=ENVIRONMENT)
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime), 1000 * wall


def warm_milliseconds(data: Path, store: str) -> float:
    """Return the median CPU time in milliseconds of a ``local`` query whose vector is in the cache."""
    lines = (ROOT / "data" / "sample" / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    questions = [json.loads(line)["question"] for line in lines]
    taken = []
    with branchrank.Workspace.open(data, settings={"index.vector_store": store}) as workspace:
        for question in [*questions, *questions]:  # more questions than fit in the memo
            started = time.process_time()
            workspace.search(question, system="local")
            taken.append(time.process_time() - started)
    return 1000 * statistics.median(taken[len(questions) :])


def main() -> None:
    """Measure every case and every vector store, and print Markdown tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "data")
        build = ["-m", "branchrank", "index", str(CORPUS), "--data-dir", str(data)]
        subprocess.run(
            [sys.executable, *build, "--embedder", "all-MiniLM-L6-v2", "--quiet"],
            check=True,
            capture_output=True,
            cwd=ROOT,
        )
        measured = cases(data)
        spent: dict[str, list[tuple[float, float]]] = {name: [] for name in measured}
        for _ in range(rounds):
            for name, arguments in measured.items():
                spent[name].append(times(arguments))
        warm = {store: warm_milliseconds(data, store) for store in ("exact", "chroma")}
    bare = min(cpu for cpu, _ in spent["python -c pass"])
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, least of {rounds} rounds\n")
    print("| process | CPU ms | ratio to `python -c pass` | wall ms |")
    print("| --- | --- | --- | --- |")
    for name, found in spent.items():
        cpu, wall = min(cpu for cpu, _ in found), min(wall for _, wall in found)
        print(f"| {name} | {cpu:.0f} | {cpu / bare:.1f} | {wall:.0f} |")
    print("\n| a warm query, local | median CPU ms |")
    print("| --- | --- |")
    for store, milliseconds in warm.items():
        print(f"| {store} | {milliseconds:.1f} |")


if __name__ == "__main__":
    main()
