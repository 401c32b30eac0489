"""Run one step of ``benchmarks/scale.py``, and print its result as JSON.

python benchmarks/scale_steps.py STEP DATA_DIR
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scale_corpus import SyntheticEmbedder, queries, source_of

QUESTIONS = 100
Result = dict[str, Any]


def _workspace(data_dir: Path, store: str = "", flags: dict[str, object] | None = None) -> Any:
    """Open a workspace with the synthetic embedder in place of a model."""
    from branchrank.index import index_build as build
    from branchrank.index import reader
    from branchrank.index.workspace_folder import WorkspaceFolder

    embedder = SyntheticEmbedder()
    for module in (build, reader):
        module.open_embedder = lambda *_, **__: embedder  # type: ignore[attr-defined]
    chosen = {"index.vector_store": store} if store else {}
    return WorkspaceFolder.open(data_dir, flags=chosen | (flags or {}))


def _build(data_dir: Path) -> Result:
    from branchrank.index import index_build as build
    from branchrank.index.index_build import build_index

    workspace = _workspace(data_dir)
    cpu_by_stage: dict[str, float] = {}
    timed = build._Build.timed

    @contextlib.contextmanager
    def timed_with_cpu(self: build._Build, stage: str) -> Iterator[None]:
        start = time.process_time()
        with timed(self, stage):
            yield
        cpu_by_stage[stage] = cpu_by_stage.get(stage, 0.0) + time.process_time() - start

    build._Build.timed = timed_with_cpu
    start, cpu = time.perf_counter(), time.process_time()
    with build_index(workspace, force=True) as index:
        seconds = time.perf_counter() - start
        return {
            "seconds": seconds,
            "cpu_seconds": time.process_time() - cpu,
            "stages": index.report.seconds,
            "cpu_by_stage": cpu_by_stage,
            "embedded": index.report.embedded,
            "chunks": index.manifest.chunks,
            "nodes": index.manifest.nodes,
            "documents": index.manifest.documents,
            "own_peak_bytes": _status("VmHWM:"),
        }


def _open(data_dir: Path) -> Result:
    """Open the index five times, then answer one query with the ``local`` system and exact search."""
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
    from branchrank.index.reader import open_index
    from branchrank.search.systems.builtin import builtin_systems
    from branchrank.search.systems.engine import Engine
    from branchrank.search.systems.memo import Memo

    engine = Engine(
        open_index(workspace), workspace.corpus_root, workspace.settings, memo=Memo(one_query=True)
    )
    (system,) = builtin_systems((name,), workspace.settings)
    return engine, system


def _timed(answer: Callable[[str], object], asked: list[str]) -> Result:
    """Return the p50 and p95 wall time and the mean CPU time per question in ms, after three warm-ups."""
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
    from branchrank.search.systems.builtin import builtin_systems

    workspace = _workspace(data_dir, "exact")
    asked = queries(QUESTIONS)
    found: Result = {"load": _load()}
    engine, system = _engine(workspace, "local")
    found["local exact"] = _timed(lambda text: engine.retrieve(system, text, 10), asked)
    index = engine.index
    found["bm25"] = _timed(lambda text: index.bm25_chunks.search(text, 10), asked)
    found["exact"] = _timed(lambda text: index.vectors.search(index.embedder.embed_query(text), 10), asked)
    found["own_peak_bytes"] = _status("VmHWM:")
    found["matching_chunks"] = _matching(index.bm25_chunks, asked)
    (hybrid,) = builtin_systems(("hybrid",), workspace.settings)
    start = time.perf_counter()
    engine.retrieve(hybrid, asked[0], 10)
    found["hybrid_first_seconds"] = time.perf_counter() - start
    found["first_hybrid_peak_bytes"] = _status("VmHWM:")
    found["hybrid exact"] = _timed(lambda text: engine.retrieve(hybrid, text, 10), asked)
    found["with_hybrid_peak_bytes"] = _status("VmHWM:")
    return found


def _matching(bm25: Any, asked: list[str]) -> float:
    """Return the mean number of chunks that contain at least one word of a query."""
    scored = [int((bm25.scores(text) > 0).sum()) for text in asked]
    return float(np.mean(scored))


def _chroma(data_dir: Path) -> Result:
    workspace = _workspace(data_dir, "chroma")
    asked = queries(QUESTIONS)
    engine, system = _engine(workspace, "local")
    found: Result = {"load": _load()}
    found |= {"local chroma": _timed(lambda text: engine.retrieve(system, text, 10), asked)}
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


def _jobs(data_dir: Path) -> Result:
    """Measure the time of the build stage ``read`` in one process and in two processes."""
    from branchrank.core.execution.executors import open_executor
    from branchrank.index.contents import read_contents

    found: Result = {}
    for jobs in (1, 2):
        workspace = _workspace(data_dir, "exact", {"engine.jobs": jobs})
        start = time.perf_counter()
        with (
            tempfile.TemporaryDirectory() as temporary,
            open_executor(workspace.settings, workspace.notify) as executor,
        ):
            read_contents(workspace, Path(temporary), SyntheticEmbedder(), executor, lambda *done: None)
            found[str(jobs)] = time.perf_counter() - start
    found["load"] = _load()
    return found


def _benchmark(data_dir: Path) -> Result:
    """Run a benchmark with 500 questions and three predictors without an LLM."""
    import branchrank

    _workspace(data_dir, "exact")
    with tempfile.TemporaryDirectory() as temporary:
        questions = Path(temporary, "questions.jsonl")
        gold = [
            {
                "id": f"q{number}",
                "question": text,
                "source_file": source_of(7 * number % 500),
                "gold_level": "file",
            }
            for number, text in enumerate(queries(500))
        ]
        questions.write_text("".join(json.dumps(each) + "\n" for each in gold), encoding="utf-8")
        settings = {"index.vector_store": "exact", "hybrid.no_llm": True, "pageindex.no_llm": True}
        start, cpu = time.perf_counter(), time.process_time()
        with branchrank.Workspace.open(data_dir, settings=settings) as workspace:
            workspace.benchmark(
                ["local", "hybrid", "pageindex"],
                questions=questions,
                latency_sample=0,
                reports=Path(temporary, "reports"),
            )
        rows = next(Path(temporary, "reports").rglob("rows.jsonl*"))
        return {
            "questions": len(gold),
            "seconds": time.perf_counter() - start,
            "cpu_seconds": time.process_time() - cpu,
            "rows_bytes": rows.stat().st_size,
            "own_peak_bytes": _status("VmHWM:"),
        }


def _load() -> float:
    return float(Path("/proc/loadavg").read_text().split()[0])


def _status(name: str) -> int:
    """Return a value from ``/proc/self/status`` in bytes."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024


STEPS: dict[str, Callable[[Path], Result]] = {
    "build": _build,
    "open": _open,
    "query": _query,
    "chroma": _chroma,
    "benchmark": _benchmark,
    "jobs": _jobs,
}

if __name__ == "__main__":
    print(json.dumps(STEPS[sys.argv[1]](Path(sys.argv[2]))))
