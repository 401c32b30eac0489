"""Measure the build time and the query time of a Chroma collection, in this process and on a server.

    python benchmarks/chroma_server.py --vectors 10000

1. Unit vectors of 384 dimensions are sampled around random cluster centers, with one center per 100 vectors.
   The random seed is fixed.
2. A Chroma server (`chroma run`) is started on this machine and stopped at the end of the benchmark.
3. Three collections are built: one in this process, one on the server with one upload at a time, and one on
   the server with four concurrent uploads. In each collection, 200 queries search for the 40 nearest vectors.
4. The table shows the build time in seconds, including the checks of `branchrank index`. The table also shows
   the p50 and p95 query latency in milliseconds, and the recall@40 of the first 50 queries.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from branchrank.index.embedders.protocol import Vectors
from branchrank.index.stores import chroma
from branchrank.index.stores.chroma import ChromaVectors, Location
from branchrank.index.stores.vectors import ExactVectors, recall_against_exact

DIMENSION, TOP, QUERIES = 384, 40, 200


def drawn(count: int, seed: int) -> Vectors:
    draw = np.random.default_rng(seed)
    centers = np.random.default_rng(1).normal(size=(max(10, count // 100), DIMENSION))
    rows = centers[draw.integers(len(centers), size=count)] + draw.normal(size=(count, DIMENSION))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@contextlib.contextmanager
def server(directory: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [str(Path(sys.executable).with_name("chroma")), "run", "--path", str(directory)]
    process = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--vectors", type=int, default=10_000)
    count: int = parser.parse_args().vectors
    matrix, queries = drawn(count, 2), drawn(QUERIES, 3)
    ids = [f"k{number:07}" for number in range(count)]
    exact = ExactVectors(ids, matrix)
    print(f"{count} vectors of {DIMENSION} dimensions, load average {os.getloadavg()[0]:.1f}")
    print("| place | uploads | build, s | p50, ms | p95, ms | recall@40 |")
    with tempfile.TemporaryDirectory() as folder, server(Path(folder, "server")) as url:
        places: tuple[tuple[Location, int], ...] = ((Path(folder, "embedded"), 1), (url, 1), (url, 4))
        for location, uploads in places:
            chroma.UPLOADS = uploads
            name = f"vectors-{uploads}"
            began = time.perf_counter()
            chroma.build_collection(location, name, ExactVectors(ids, matrix), made_for="benchmark")
            built = time.perf_counter() - began
            store = ChromaVectors(location, name, ExactVectors(ids, matrix), made_for="benchmark")
            times = []
            for query in queries:
                began = time.perf_counter()
                store.search(query, TOP)
                times.append(1000 * (time.perf_counter() - began))
            recall = recall_against_exact(store, exact, queries[:50], TOP)
            store.close()
            p50, p95 = np.percentile(times, [50, 95])
            place = "server" if isinstance(location, str) else "embedded"
            print(f"| {place} | {uploads} | {built:.1f} | {p50:.1f} | {p95:.1f} | {recall:.3f} |", flush=True)


if __name__ == "__main__":
    main()
