"""Write ``docs/results/scale.md`` from the results of ``benchmarks/scale.py``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

Result = dict[str, Any]

DIMENSION = 384
_GB = 1e9
_MISSING = "not measured"

_HEAD = """# Large indexes on one machine

```console
$ python benchmarks/scale.py --sizes 10000 100000 1000000 --folder FOLDER --write
```

The documents and vectors are synthetic: a chunk has about 550 characters, a document has 20 chunks, and a
vector has 384 dimensions. {machine}
If other programs are running, wall times are longer, and CPU times are up to two thirds longer.

- **Build**: the CPU time of one process, with the embedding cache and without the embedding model.
- **Memory**: the peak memory of the process (`VmHWM`), including mapped pages of the index.
- **Open**: the minimum of five attempts, with and without checking the documents for changes.
- **Queries**: 100 questions, one at a time, after three others, without cached results and without the
  time to embed the query. The first query reads vectors and columns from the disk, unless they are in
  memory.
"""


def write_page(result: Result, path: Path) -> None:
    """Write the results as a Markdown page."""
    sizes = {
        int(size): found for size, found in sorted(result["sizes"].items(), key=lambda item: int(item[0]))
    }
    parts = [
        _HEAD.format(machine=_machine(result["machine"])),
        "## Measured\n",
        *_measured(sizes),
        *_floors(sizes, result["floors"]),
        *_growth(sizes),
        _projected(sizes, result["model"]),
    ]
    path.write_text("\n".join(parts), encoding="utf-8")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _machine(machine: Result) -> str:
    memory = machine["memory_bytes"] / 2**30
    return (
        f"The machine has {machine['cores']} cores and {memory:.0f} GiB of memory; "
        f"the measurements were made on {machine['date']}."
    )


def _measured(sizes: dict[int, Result]) -> list[str]:
    columns = [f"{size:,} chunks" for size in sizes]
    each = list(sizes.values())

    def row(name: str, *path: str, form: str = "{:.1f}", scale: float = 1.0) -> list[str]:
        return [name, *(_shown(found, path, form, scale) for found in each)]

    stages = ("read", "embed", "chroma", "bm25")
    build = [
        ["vector stores", *(_stores(found) for found in each)],
        row("texts embedded (other texts were in the cache)", "build", "embedded", form="{:,.0f}"),
        row("build, CPU s", "build", "cpu_seconds"),
        *(row(f"build stage `{stage}`, CPU s", "build", "cpu_by_stage", stage) for stage in stages),
        row("build, wall s", "build", "seconds", form="{:.0f}"),
        row("build memory, GB", "build", "own_peak_bytes", form="{:.2f}", scale=_GB),
        row("the index on disk, GB", "disk_bytes", form="{:.2f}", scale=_GB),
        row("the embedding cache on disk, GB", "cache_bytes", form="{:.2f}", scale=_GB),
    ]
    query = [
        row("opening the index, ms", "open", "seconds", scale=1e-3),
        row(
            "opening the index without checking the documents for changes, ms",
            "open",
            "without_corpus_check",
            scale=1e-3,
        ),
        row("memory after opening, GB", "open", "opened_bytes", form="{:.2f}", scale=_GB),
        row("first query by `local` with exact search, ms", "open", "first_query_seconds", scale=1e-3),
        row("first query by `hybrid`, ms", "query", "hybrid_first_seconds", scale=1e-3),
    ]
    names = {"bm25": "BM25", "exact": "exact search", "local exact": "`local`", "hybrid exact": "`hybrid`"}
    for key, name in names.items():
        query.append([f"{name}, p50 / p95 ms", *(_percentiles(found, "query", key) for found in each)])
        query.append(row(f"{name}, CPU ms", "query", key, "cpu_ms", form="{:.2f}"))
    for key, name in {"chroma": "Chroma", "local chroma": "`local` with Chroma"}.items():
        query.append([f"{name}, p50 / p95 ms", *(_percentiles(found, "chroma", key) for found in each)])
    query += [
        row("recall@10 of Chroma against exact search", "chroma", "recall@10", form="{:.3f}"),
        row(
            "memory used by queries with exact search, GB",
            "query",
            "with_hybrid_peak_bytes",
            form="{:.2f}",
            scale=_GB,
        ),
        row("memory used by queries with Chroma, GB", "chroma", "own_peak_bytes", form="{:.2f}", scale=_GB),
    ]
    return [
        _table(["build", *columns], build),
        _table(["open and query", *columns], query),
        *_benchmark(sizes),
    ]


def _stores(found: Result) -> str:
    return "exact and Chroma" if found.get("store") == "chroma" else "exact, memory-mapped"


def _benchmark(sizes: dict[int, Result]) -> list[str]:
    texts = []
    for size, found in sizes.items():
        if bench := found.get("benchmark"):
            texts.append(
                f"A benchmark of {bench['questions']} questions with `local`, `hybrid` and `pageindex` over "
                f"{size:,} chunks\ntook {bench['cpu_seconds']:.0f} CPU seconds and "
                f"{bench['own_peak_bytes'] / _GB:.2f} GB of memory.\n"
            )
        if jobs := found.get("jobs"):
            texts.append(
                f"Reading and counting the words of {size:,} chunks took {jobs['1']:.1f} s in one process "
                f"and {jobs['2']:.1f} s with `--jobs 2`.\n"
            )
    return texts


def _shown(found: Result, path: Sequence[str], form: str, scale: float) -> str:
    value: Any = found
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return _MISSING if value is None else form.format(value / scale)


def _percentiles(found: Result, step: str, key: str) -> str:
    timed = found.get(step, {}).get(key)
    return _MISSING if timed is None else f"{timed['p50_ms']:.1f} / {timed['p95_ms']:.1f}"


def _floors(sizes: dict[int, Result], floors: Result) -> list[str]:
    """Return a table of measured times and of lower bounds computed from the hardware's bandwidth."""
    rows = []
    for size, found in sizes.items():
        chunks = found.get("build", {}).get("chunks", size)
        if "query" in found and "build" in found:
            floor = 1000 * 4 * DIMENSION * chunks / floors["memory"]
            taken = found["query"]["exact"]["cpu_ms"]
            rows.append((size, "exact search, CPU (read every vector)", floor, taken, "ms"))
        if "open" in found:
            floor = 1000 * found["build"]["documents"] * floors["stat_seconds"]
            rows.append(
                (size, "open (one `stat` per document)", floor, 1000 * found["open"]["seconds"], "ms")
            )
        if found.get("store") == "exact":
            floor = found["disk_bytes"] / floors["disk_write"] + found["disk_bytes"] / floors["sha256"]
            taken = sum(found["build"]["cpu_by_stage"].get(stage, 0) for stage in ("vectors", "digests"))
            rows.append((size, "write the index and compute its digests", floor, taken, "s"))
    intro = (
        f"From this machine's memory reads ({floors['memory'] / _GB:.1f} GB/s), disk writes "
        f"({floors['disk_write'] / _GB:.2f} GB/s),\nSHA-256 ({floors['sha256'] / _GB:.2f} GB/s) and `stat` "
        f"({1e6 * floors['stat_seconds']:.1f} µs). Vectors in the processor's cache are read faster.\n"
    )
    shown = (
        [f"{size:,}", what, f"{floor:.2f} {unit}", f"{taken:.2f} {unit}", f"{taken / floor:.1f}"]
        for size, what, floor, taken, unit in rows
    )
    return [
        "## Lower bounds from the hardware\n",
        intro,
        _table(["chunks", "what", "lower bound", "measured", "ratio"], shown),
    ]


def _growth(sizes: dict[int, Result]) -> list[str]:
    """Return a table of the cost per additional chunk, computed from the differences between corpus sizes."""
    rows = []
    known = [(size, found) for size, found in sizes.items() if "build" in found]
    for (size, small), (larger, large) in pairwise(known):
        more = large["build"]["chunks"] - small["build"]["chunks"]
        cpu = sum(_without_chroma(large)) - sum(_without_chroma(small))
        memory = large["build"]["own_peak_bytes"] - small["build"]["own_peak_bytes"]
        row = [f"{size:,} to {larger:,}", f"{1e3 * cpu / more:.2f} ms", f"{memory / more:,.0f} bytes"]
        if "query" in small and "query" in large:
            query = large["query"]["local exact"]["cpu_ms"] - small["query"]["local exact"]["cpu_ms"]
            row.append(f"{1e6 * query / more:.0f} ns")
        else:
            row.append(_MISSING)
        rows.append(row)
    head = ["from", "CPU time of the build without Chroma", "build memory", "CPU time per query with `local`"]
    return ["## Cost of an additional chunk\n", _table(head, rows)]


def _without_chroma(found: Result) -> Iterable[float]:
    stages: dict[str, float] = found["build"]["cpu_by_stage"]
    return (seconds for stage, seconds in stages.items() if stage != "chroma")


def _projected(sizes: dict[int, Result], model: Result) -> str:
    """Return the projected times to embed the texts with the model."""
    rate = model["texts_per_second"]
    hours = ", ".join(f"{_hours(found, size, rate):.2f}" for size, found in sizes.items())
    return (
        "## Projected time of the model\n\n"
        f"In this run, {model['name']} embedded {rate:.0f} texts of 84 words each per second, so the\n"
        f"texts of these sizes would take {hours} hours.\n"
    )


def _hours(found: Result, size: int, rate: float) -> float:
    return float(found.get("build", {}).get("chunks", size) / rate / 3600)
