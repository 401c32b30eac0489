"""Measure the time to build, open and query indexes of 10,000 to a million synthetic chunks.

    python benchmarks/scale.py --sizes 10000 100000 1000000 --folder FOLDER --output results.json --write

1. Documents and vectors are synthetic and seeded (see :mod:`scale_corpus`), so no embedding model is needed.
   The time to embed the chunks with the bundled model is projected from the number of texts that the model
   embeds per second.
2. Every step (see :mod:`scale_steps`) runs in a new process. The memory used by a step is measured as the
   ``VmHWM`` of the step's process. The peak memory of the process and its descendants is measured, too (the
   sum of PSS, sampled every half second).
3. Queries run one at a time, without cached results. If the index has at most ``--chroma-up-to`` chunks, a
   Chroma collection is also built, and its recall@10 is measured against exact search.
4. Lower bounds for the times are computed from the size of the data and from the memory and disk bandwidths,
   which are measured too.
5. A step whose result is in ``--output`` is not run again, so the same command resumes an interrupted run.
   The vectors that an interrupted build computed are read from the embedding cache. With ``--steps``, the
   given steps are measured again.

``--write`` writes the page ``docs/results/scale.md`` (see :mod:`scale_page`).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scale_corpus import Words, write_corpus
from scale_page import write_page

HERE = Path(__file__).resolve().parent
STEPS = ("build", "open", "query", "chroma", "benchmark", "jobs")
Result = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="*", type=int, default=[10_000, 100_000])
    parser.add_argument(
        "--output", type=Path, default=Path("scale.json"), help="the JSON file for the results"
    )
    parser.add_argument(
        "--folder", type=Path, help="folder for the corpora and workspaces (default: a temporary folder)"
    )
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=(), help="measure these steps again")
    parser.add_argument("--chroma-up-to", type=int, default=100_000, help="largest size with Chroma")
    parser.add_argument(
        "--also-at",
        type=int,
        default=100_000,
        help="size for the steps `benchmark` and `jobs`",
    )
    parser.add_argument("--write", action="store_true", help="write docs/results/scale.md")
    options = parser.parse_args()
    result: Result = {"sizes": {}}
    if options.output.exists():
        result = json.loads(options.output.read_bytes())

    def save() -> None:
        options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")

    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name, measure in (
            ("machine", _machine),
            ("floors", lambda: _floors(folder)),
            ("model", _model),
        ):
            if name not in result:
                result[name] = measure()
        save()
        for size in options.sizes:
            found = result["sizes"].setdefault(str(size), {})
            _measure(folder, size, found, options, save)
    if options.write:
        write_page(result, HERE.parent / "docs" / "results" / "scale.md")
    return 0


def _measure(
    folder: Path, size: int, found: Result, options: argparse.Namespace, save: Callable[[], None]
) -> None:
    """Run the steps on a corpus of one size, except the steps whose results are in ``found``."""
    from branchrank.index.workspace_folder import configure

    corpus, data_dir = folder / f"corpus-{size}", folder / f"data-{size}"
    if not corpus.exists():
        unfinished = folder / f"unfinished-{size}"
        write_corpus(unfinished, size)
        unfinished.rename(corpus)
    store = "chroma" if size <= options.chroma_up_to else "exact"
    data_dir.mkdir(exist_ok=True)
    configure(data_dir, corpus=corpus, settings={"index.embedder": "synthetic", "index.vector_store": store})
    steps = ["build", "open", "query"]
    if store == "chroma":
        steps.append("chroma")
    if size == options.also_at:
        steps += ["benchmark", "jobs"]
    for step in steps:
        if step in found if not options.steps else step not in options.steps:
            continue
        found[step] = _child(step, data_dir)
        if step == "build":
            found |= {"store": store, "corpus_bytes": _bytes(corpus)}
            found |= {"disk_bytes": _bytes(data_dir / "indexes"), "cache_bytes": _bytes(data_dir / "hybrid")}
        print(json.dumps({size: {step: found[step]}}, indent=1), flush=True)
        save()


def _child(step: str, data_dir: Path) -> Result:
    """Run one step in a new process, and return its result and the memory of its process tree."""
    command = [sys.executable, str(HERE / "scale_steps.py"), step, str(data_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process, _watched(process.pid) as peak:
        output, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"the step {step} failed")
    found: Result = json.loads(output.splitlines()[-1])
    return found | {"tree_peak_bytes": peak["bytes"], "processes": peak["processes"]}


@contextmanager
def _watched(pid: int) -> Iterator[dict[str, int]]:
    """Sample the memory of a process and its descendants, and yield a dictionary with the peak."""
    peak = {"bytes": 0, "processes": 0}
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.5):
            tree = _descendants(pid)
            peak["bytes"] = max(peak["bytes"], sum(map(_pss, tree)))
            peak["processes"] = max(peak["processes"], len(tree))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def _descendants(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found += map(int, children.read_text().split())
            except OSError:
                continue
    return found


def _pss(pid: int) -> int:
    """Return a process's PSS (proportional set size) in bytes."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _bytes(folder: Path) -> int:
    files = (Path(root, name) for root, _, names in os.walk(folder) for name in names)
    return sum(path.stat().st_size for path in files if not path.is_symlink())


def _floors(folder: Path) -> Result:
    """Return the speed of memory reads, disk writes and SHA-256, and the duration of a ``stat`` call.

    The speeds are in bytes per second. The duration is in seconds.
    """
    array = np.ones(2**26, dtype=np.float32)
    block = os.urandom(2**20) * 256
    path = folder / "bandwidth"

    def write() -> None:
        with path.open("wb") as stream:
            stream.write(block)
            os.fsync(stream.fileno())

    found = {
        "memory": array.nbytes / _best(lambda: np.dot(array, array)),
        "disk_write": len(block) / _best(write),
        "sha256": len(block) / _best(lambda: hashlib.sha256(block)),
        "stat_seconds": _best(lambda: [os.stat(path) for _ in range(10_000)]) / 10_000,
    }
    path.unlink()
    return found


def _best(work: Callable[[], object]) -> float:
    times = []
    for _ in range(5):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def _model() -> Result:
    """Measure how many synthetic chunks the bundled model embeds per second."""
    from branchrank.index.embedders.minilm import MiniLMEmbedder

    words = Words()
    draw = np.random.default_rng(0)
    texts = [" ".join(words.sentence(draw, 84, number % 50)) for number in range(192)]
    model = MiniLMEmbedder()
    model.embed_documents(texts[:32])
    start = time.perf_counter()
    model.embed_documents(texts[32:])
    return {"name": model.identity.model, "texts_per_second": 160 / (time.perf_counter() - start)}


def _machine() -> Result:
    load, _, _ = os.getloadavg()
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cores": os.cpu_count(),
        "memory_bytes": memory,
        "load_at_start": load,
        "date": time.strftime("%F"),
    }


if __name__ == "__main__":
    sys.exit(main())
