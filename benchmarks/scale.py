"""How far one machine goes: build, open and query indexes of 10,000 to a million synthetic chunks.

    python benchmarks/scale.py --sizes 10000 100000 --output results.json

1. Documents and vectors are synthetic and seeded (:mod:`scale_corpus`), so no model runs. The time of a model
   is projected from the texts per second that the bundled model reaches in the same run.
2. Every step (build, open, query) runs in a fresh process. The build's memory is the peak of the sum over its
   process tree (PSS, sampled every half second), and ``VmHWM`` of the process itself.
3. Queries are asked one at a time, without a memo. Up to ``--chroma-up-to`` chunks the index also has a
   Chroma collection, whose recall@10 is measured against exact search.
4. Physical floors are measured in the same run: bytes that must be read, over the bandwidth of memory or
   disk.
"""

from __future__ import annotations

import argparse
import cProfile
import hashlib
import json
import os
import pstats
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
from scale_corpus import SyntheticEmbedder, queries, write_corpus

STEPS = ("build", "open", "query", "chroma", "profile")
QUESTIONS = 100
Result = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", type=int, default=[10_000, 100_000])
    parser.add_argument("--output", type=Path, help="the JSON file of the results, kept up to date")
    parser.add_argument(
        "--folder", type=Path, help="where corpora and workspaces are kept (default: temporary)"
    )
    parser.add_argument("--chroma-up-to", type=int, default=100_000, help="largest size with Chroma")
    parser.add_argument("--profile-at", type=int, default=100_000, help="the size that is profiled")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--data-dir", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        print(json.dumps(_STEPS[options.step](options.data_dir)))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        result: Result = {"machine": _machine(), "floors": _floors(folder), "sizes": {}}
        result["model"] = _model()
        for size in options.sizes:
            result["sizes"][str(size)] = found = _measure(folder, size, options)
            print(json.dumps({size: found}, indent=1), flush=True)
            if options.output:
                options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


def _measure(folder: Path, size: int, options: argparse.Namespace) -> Result:
    """Every step at one size."""
    from branchrank.index.workspace_folder import configure

    corpus, data_dir = folder / f"corpus-{size}", folder / f"data-{size}"
    if not corpus.exists():
        write_corpus(corpus, size)
    with_chroma = size <= options.chroma_up_to
    store = "chroma" if with_chroma else "exact"
    data_dir.mkdir(exist_ok=True)
    configure(data_dir, corpus=corpus, settings={"index.embedder": "synthetic", "index.vector_store": store})
    found: Result = {"corpus_bytes": _bytes(corpus), "store": store}
    found["build"] = _child("build", data_dir)
    found["disk_bytes"] = _bytes(data_dir / "indexes")
    found["cache_bytes"] = _bytes(data_dir / "hybrid")
    found["open"] = _child("open", data_dir)
    found["query"] = _child("query", data_dir)
    if with_chroma:
        found["chroma"] = _child("chroma", data_dir)
    if size == options.profile_at:
        found["profile"] = _child("profile", data_dir)
    return found


def _child(step: str, data_dir: Path) -> Result:
    """Run one step in a fresh process; its result, and the memory of its process tree."""
    command = [sys.executable, __file__, "--step", step, "--data-dir", str(data_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process, _watched(process.pid) as peak:
        output, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"the step {step} failed")
    found: Result = json.loads(output.splitlines()[-1])
    return found | {"tree_peak_bytes": peak["bytes"], "processes": peak["processes"]}


@contextmanager
def _watched(pid: int) -> Iterator[dict[str, int]]:
    """Sample the memory of a process and its descendants; the dictionary gets the peak."""
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
    """The proportional set size of a process in bytes: shared pages are divided among the sharers."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _status(name: str) -> int:
    """A size from this process's ``/proc/self/status``, in bytes."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024


def _bytes(folder: Path) -> int:
    files = (Path(root, name) for root, _, names in os.walk(folder) for name in names)
    return sum(path.stat().st_size for path in files if not path.is_symlink())


def _workspace(data_dir: Path, store: str = "") -> Any:
    """The workspace with the synthetic embedder in place of a model."""
    from branchrank.index import build, reader
    from branchrank.index.workspace_folder import WorkspaceFolder

    embedder = SyntheticEmbedder()
    for module in (build, reader):
        module.open_embedder = lambda settings, notify=None: embedder  # type: ignore[attr-defined]
    return WorkspaceFolder.open(data_dir, flags={"index.vector_store": store} if store else {})


def _build(data_dir: Path) -> Result:
    from branchrank.index import build_index

    workspace = _workspace(data_dir)
    start, cpu = time.perf_counter(), time.process_time()
    with build_index(workspace, force=True) as index:
        seconds = time.perf_counter() - start
        return {
            "seconds": seconds,
            "cpu_seconds": time.process_time() - cpu,
            "stages": index.report.seconds,
            "chunks": index.manifest.chunks,
            "nodes": index.manifest.nodes,
            "documents": index.manifest.documents,
            "own_peak_bytes": _status("VmHWM:"),
        }


def _open(data_dir: Path) -> Result:
    """Open the index five times; answer one query by ``local`` with exact search and one by BM25."""
    import branchrank.index.reader as reader

    workspace = _workspace(data_dir, "exact")
    seconds, unchecked = [], []
    for _ in range(5):
        start = time.perf_counter()
        reader.open_index(workspace).close()
        seconds.append(time.perf_counter() - start)
        start = time.perf_counter()
        reader.open_index(workspace, check_corpus=False).close()
        unchecked.append(time.perf_counter() - start)
    opened = _status("VmHWM:")
    engine, system = _engine(workspace, "local")
    start = time.perf_counter()
    engine.retrieve(system, "the first query", 10)
    first = time.perf_counter() - start
    return {
        "seconds": min(seconds),
        "without_corpus_check": min(unchecked),
        "opened_bytes": opened,
        "first_query_seconds": first,
        "first_query_bytes": _status("VmHWM:"),
    }


def _engine(workspace: Any, name: str) -> tuple[Any, Any]:
    from branchrank.index import open_index
    from branchrank.systems.builtin import builtin_systems
    from branchrank.systems.engine import Engine
    from branchrank.systems.memo import QueryMemo

    engine = Engine(open_index(workspace), workspace.corpus_root, workspace.settings, memo=QueryMemo())
    (system,) = builtin_systems((name,), workspace.settings)
    return engine, system


def _timed(answer: Callable[[str], object], asked: list[str]) -> Result:
    """Percentiles of the wall time per question, in ms, and the mean CPU time, after three questions."""
    for text in asked[:3]:
        answer(text)
    walls = []
    cpu = time.process_time()
    for text in asked:
        start = time.perf_counter()
        answer(text)
        walls.append(1000 * (time.perf_counter() - start))
    cpu = 1000 * (time.process_time() - cpu) / len(asked)
    p50, p95 = np.percentile(walls, [50, 95])
    return {"p50_ms": float(p50), "p95_ms": float(p95), "cpu_ms": cpu}


def _query(data_dir: Path) -> Result:
    workspace = _workspace(data_dir, "exact")
    asked = queries(QUESTIONS)
    found: Result = {}
    engine, system = _engine(workspace, "local")
    found["local exact"] = _timed(lambda text: engine.retrieve(system, text, 10), asked)
    index = engine.index
    found["bm25"] = _timed(lambda text: index.bm25_chunks.search(text, 10), asked)
    found["exact"] = _timed(lambda text: index.vectors.search(index.embedder.embed_query(text), 10), asked)
    found["own_peak_bytes"] = _status("VmHWM:")
    found["matching_chunks"] = _matching(index.bm25_chunks, asked)
    (hybrid,) = _systems(workspace, "hybrid")
    start = time.perf_counter()
    engine.retrieve(hybrid, asked[0], 10)
    found["hybrid_first_seconds"] = time.perf_counter() - start
    found["hybrid exact"] = _timed(lambda text: engine.retrieve(hybrid, text, 10), asked)
    found["with_hybrid_peak_bytes"] = _status("VmHWM:")
    return found


def _systems(workspace: Any, name: str) -> Any:
    from branchrank.systems.builtin import builtin_systems

    return builtin_systems((name,), workspace.settings)


def _matching(bm25: Any, asked: list[str]) -> float:
    """The mean number of chunks that contain a word of a query."""
    scored = [int((bm25.scores(text) > 0).sum()) for text in asked]
    return float(np.mean(scored))


def _chroma(data_dir: Path) -> Result:
    workspace = _workspace(data_dir, "chroma")
    asked = queries(QUESTIONS)
    engine, system = _engine(workspace, "local")
    found: Result = {"local chroma": _timed(lambda text: engine.retrieve(system, text, 10), asked)}
    index = engine.index
    embed = index.embedder.embed_query
    found["chroma"] = _timed(lambda text: index.vectors.search(embed(text), 10), asked)
    shared = [
        len(
            {entry.key for entry in index.vectors.search(embed(text), 10)}
            & {entry.key for entry in index.exact_vectors.search(embed(text), 10)}
        )
        for text in asked
    ]
    found["recall@10"] = sum(shared) / (10 * len(asked))
    found["own_peak_bytes"] = _status("VmHWM:")
    return found


def _profile(data_dir: Path) -> Result:
    """The most expensive functions of a build (without Chroma), of opening, and of queries."""
    from branchrank.index import build_index

    asked = queries(QUESTIONS)
    found = {}
    workspace = _workspace(data_dir, "exact")
    profiler = cProfile.Profile()
    engine, system = profiler.runcall(_engine, workspace, "local")
    profiler.runcall(engine.retrieve, system, asked[0], 10)
    found["open and first query"] = _top(profiler)
    profiler = cProfile.Profile()
    profiler.runcall(lambda: [engine.retrieve(system, text, 10) for text in asked])
    found["100 queries"] = _top(profiler)
    engine.index.close()
    profiler = cProfile.Profile()
    profiler.runcall(lambda: build_index(workspace, force=True).close())
    found["build without Chroma, from the cache"] = _top(profiler)
    return found


def _top(profiler: cProfile.Profile, count: int = 8) -> list[tuple[str, int, float]]:
    """The functions with the most time of their own: name, calls, seconds."""
    stats = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    rows = sorted(stats.items(), key=lambda item: -item[1][2])[:count]
    return [(_named(where), calls[0], round(calls[2], 3)) for where, calls in rows]


def _named(where: tuple[str, int, str]) -> str:
    file, _, function = where
    return f"{Path(file).stem}.{function}" if file != "~" else function.strip("<>")


def _floors(folder: Path) -> Result:
    """Bytes per second: reading memory, writing and flushing a file, SHA-256; seconds per stat."""
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
    """Texts per second of the bundled model on synthetic chunks, for the projection."""
    from scale_corpus import Words

    from branchrank.embedders.minilm import MiniLMEmbedder

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


_STEPS: dict[str, Callable[[Path], Result]] = {
    "build": _build,
    "open": _open,
    "query": _query,
    "chroma": _chroma,
    "profile": _profile,
}

if __name__ == "__main__":
    sys.exit(main())
