"""Find the number of vectors above which Chroma is faster than exact vector search.

    python benchmarks/vector_crossover.py [--sizes 3000 10000 30000 100000] [--dimension 384]

Vectors are sampled around random cluster centers, because embeddings of text have clusters too. Queries are
vectors from the collection with added noise. After a warm-up, each query searches for the 40 nearest vectors.
Queries run one at a time, in one process.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from branchrank.index.embedders.protocol import Vectors
from branchrank.index.stores.chroma import ChromaVectors, build_collection
from branchrank.index.stores.vectors import (
    EXACT_UP_TO,
    ExactVectors,
    load_vectors,
    recall_against_exact,
    save_vectors,
)

TOP = 40
QUERIES = 200


def clustered(size: int, dimension: int, generator: np.random.Generator) -> Vectors:
    """Return clustered unit vectors as a float32 array of shape ``(size, dimension)``."""
    centers = generator.normal(size=(max(1, size // 30), dimension))
    rows = centers[generator.integers(len(centers), size=size)] + 0.7 * generator.normal(
        size=(size, dimension)
    )
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def milliseconds(stores: Sequence[ExactVectors], queries: Vectors) -> list[tuple[float, float]]:
    """Return the median and the 95th percentile of each store's query times, in milliseconds."""
    times: list[list[float]] = [[] for _ in stores]
    for query in [*queries[:20], *queries]:
        for store, taken in zip(stores, times, strict=True):
            start = time.perf_counter()
            store.search(query, TOP)
            taken.append(time.perf_counter() - start)
    return [
        (float(np.median(taken[20:])) * 1e3, float(np.percentile(taken[20:], 95)) * 1e3) for taken in times
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", type=int, default=[3_000, 10_000, 20_000, 40_000])
    parser.add_argument("--dimension", type=int, default=384)
    options = parser.parse_args()
    print(f"`--vector-store auto` uses exact search for up to {EXACT_UP_TO} vectors")
    print("vectors  dimension  exact p50/p95 ms  Chroma p50/p95 ms  build s  recall@40")
    for size in options.sizes:
        generator = np.random.default_rng(size)
        matrix = clustered(size, options.dimension, generator)
        noise = 0.3 * generator.normal(size=(QUERIES, options.dimension)) / np.sqrt(options.dimension)
        queries = matrix[generator.integers(size, size=QUERIES)] + noise
        queries = (queries / np.linalg.norm(queries, axis=1, keepdims=True)).astype(np.float32)
        ids = [f"k{number:07}" for number in range(size)]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "vectors.arrays")
            save_vectors(path, matrix)
            mapped = load_vectors(path, size, options.dimension)
            exact = ExactVectors(ids, mapped)
            start = time.perf_counter()
            build_collection(Path(folder, "chroma"), "vectors", ExactVectors(ids, mapped))
            built = time.perf_counter() - start
            chroma = ChromaVectors(Path(folder, "chroma"), "vectors", ExactVectors(ids, mapped))
            exact_times, chroma_times = milliseconds([exact, chroma], queries)
            recall = recall_against_exact(chroma, exact, queries, TOP)
            chroma.close()
        print(
            f"{size:7}  {options.dimension:9}  {exact_times[0]:7.2f} /{exact_times[1]:6.2f}  "
            f"{chroma_times[0]:8.2f} /{chroma_times[1]:6.2f}  {built:7.1f}  {recall:.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
