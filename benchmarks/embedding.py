"""Compare how fast several libraries embed texts with the model all-MiniLM-L6-v2.

1. The corpus is divided into chunks in the same way as for an index. Every library embeds the same sample of
   the corpus's chunks.
2. The libraries are timed in turn, so that other running programs affect all libraries equally. The table
   shows each library's fastest round.
3. The first table shows the chunks embedded per second of wall time and of CPU time, and the CPU time of a
   query. The column "largest difference" compares each library's vectors with the vectors computed by
   sentence-transformers, coordinate by coordinate.
4. The second table shows how long the first query in a new process takes, including the imports.

    python benchmarks/embedding.py [CORPUS] [--chunks 60] [--rounds 3]
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from branchrank.core.execution.threads import usable_cpus
from branchrank.documents.chunking import chunk_document, token_counter
from branchrank.documents.loading import load_corpus
from branchrank.index.embedders import FakeEmbedder
from branchrank.index.embedders.minilm import MAX_TOKENS, MiniLMEmbedder, find_model

Vectors = npt.NDArray[np.float32]
QUERY = "how do I configure the routing of an application"
COLD = """
from branchrank.core.settings import IndexSettings
from branchrank.index.embedders import open_embedder
open_embedder(IndexSettings(embedder={embedder!r})).embed_query("route")
"""
COLD_ORIGINAL = """
from sentence_transformers import SentenceTransformer
SentenceTransformer({folder!r}, local_files_only=True).encode("route", show_progress_bar=False)
"""


class Route(NamedTuple):
    """A library's name, and its functions to embed documents and to embed a query."""

    name: str
    documents: Callable[[Sequence[str]], Vectors]
    query: Callable[[str], Vectors]


class Cost(NamedTuple):
    """The wall time and the CPU time of one call, in seconds."""

    wall: float
    cpu: float


def routes() -> list[Route]:
    """Return the libraries to compare. Ratios are relative to the first library."""
    from sentence_transformers import SentenceTransformer

    original = SentenceTransformer(str(find_model()), device="cpu", local_files_only=True)

    def encode(batch: int, texts: Sequence[str]) -> Vectors:
        rows: Vectors = original.encode(
            list(texts), batch_size=batch, normalize_embeddings=True, show_progress_bar=False
        )
        return rows

    def encode_query(text: str) -> Vectors:
        row: Vectors = encode(1, [text])[0]
        return row

    whole, single = MiniLMEmbedder(), MiniLMEmbedder(threads=1)
    fake = FakeEmbedder(384)
    return [
        *(Route(f"sentence-transformers, batch {n}", partial(encode, n), encode_query) for n in (32, 8, 1)),
        Route("all-MiniLM-L6-v2, 1 thread", single.embed_documents, single.embed_query),
        Route(f"all-MiniLM-L6-v2, {usable_cpus()} threads", whole.embed_documents, whole.embed_query),
        Route("fake", fake.embed_documents, fake.embed_query),
    ]


def sample(corpus: Path, number: int) -> list[str]:
    """Return a seeded random sample of ``number`` chunks from the corpus."""
    count = token_counter()
    chunks = [
        f"{chunk.breadcrumb}\n{chunk.text}"
        for document in load_corpus(corpus).documents
        for chunk in chunk_document(
            document, target_tokens=256, overlap_tokens=0, limit_tokens=MAX_TOKENS, count_tokens=count
        )
    ]
    return random.Random(42).sample(chunks, min(number, len(chunks)))


def cost(call: Callable[[], object]) -> Cost:
    """Return the wall time and the CPU time of one call in seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return Cost(time.perf_counter() - wall, time.process_time() - cpu)


def compare(texts: list[str], rounds: int) -> None:
    """Print a table of each library's speed, excluding its first call."""
    compared = routes()
    vectors = [route.documents(texts) for route in compared]
    documents: list[list[Cost]] = [[] for _ in compared]
    queries: list[list[float]] = [[] for _ in compared]
    for _ in range(rounds):
        for number, route in enumerate(compared):
            documents[number].append(cost(partial(route.documents, texts)))
            queries[number] += [cost(partial(route.query, QUERY)).cpu for _ in range(20)]
    print(
        f"{len(texts)} chunks, {usable_cpus()} CPUs, fastest of {rounds} rounds; ratios to the first line\n"
    )
    print("| route | chunks/s | ratio | chunks/CPU-s | ratio | query CPU ms | largest difference |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    first_wall = first_cpu = 0.0
    for number, route in enumerate(compared):
        wall = len(texts) / min(once.wall for once in documents[number])
        cpu = len(texts) / min(once.cpu for once in documents[number])
        first_wall, first_cpu = first_wall or wall, first_cpu or cpu
        query = float(np.median(queries[number])) * 1000
        difference = "-" if route.name == "fake" else f"{np.abs(vectors[number] - vectors[0]).max():.1e}"
        print(
            f"| {route.name} | {wall:.1f} | {wall / first_wall:.2f} | {cpu:.1f} | {cpu / first_cpu:.2f} "
            f"| {query:.1f} | {difference} |"
        )


def compare_starts(rounds: int) -> None:
    """Print a table of the time that each library takes for the first query in a new process."""
    programs = {
        "sentence-transformers": COLD_ORIGINAL.format(folder=str(find_model())),
        "all-MiniLM-L6-v2": COLD.format(embedder="all-MiniLM-L6-v2"),
        "fake": COLD.format(embedder="fake"),
    }
    print("\n| first query of a fresh process | wall s | ratio |")
    print("| --- | --- | --- |")
    first = 0.0
    for name, program in programs.items():
        start = partial(
            subprocess.run,
            [sys.executable, "-c", program],
            check=True,
            env=os.environ | {"TQDM_DISABLE": "1"},
        )
        seconds = min(cost(start).wall for _ in range(rounds))
        first = first or seconds
        print(f"| {name} | {seconds:.2f} | {seconds / first:.2f} |")


def main() -> None:
    """Print a table of embedding speeds and a table of first-query times."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path, nargs="?", default=Path(__file__).parents[1] / "docs")
    parser.add_argument("--chunks", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    compare(sample(arguments.corpus, arguments.chunks), arguments.rounds)
    compare_starts(arguments.rounds)


if __name__ == "__main__":
    main()
