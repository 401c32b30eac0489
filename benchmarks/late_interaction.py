"""Measure the size and the build time of token vectors, and the query times of late interaction.

    python benchmarks/late_interaction.py [CORPUS] [--embedder all-MiniLM-L6-v2] [--queries 200]

1. The corpus (by default this project's docs) is indexed without token vectors, with int8 token vectors, and
   with fp16 token vectors. Sizes and times are scaled to 10,000 chunks.
2. The `late-interaction` system is queried with the headings of the corpus. Queries run one at a time in one
   process, without cached results.
3. The time to embed the query's tokens is printed separately from the time to get the candidates' token
   vectors and to compute MaxSim.
4. The index without token vectors is measured twice. In the "cold" rows, the candidates are embedded for each
   query. In the "warm" rows, the candidates' token vectors are read from the workspace's cache.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from branchrank.index.index_build import build_index
from branchrank.index.reader import Index
from branchrank.index.workspace_folder import WorkspaceFolder, configure
from branchrank.search.systems.builtin import builtin_systems
from branchrank.search.systems.engine import Engine
from branchrank.search.systems.memo import Memo

SCALE = 10_000
BESIDE = ("candidate tokens", "maxsim")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", nargs="?", default=Path(__file__).parent.parent / "docs", type=Path)
    parser.add_argument("--embedder", default="all-MiniLM-L6-v2")
    parser.add_argument("--queries", default=200, type=int)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder, "data")
        configure(data_dir, corpus=options.corpus, settings={"index.embedder": options.embedder})
        for precision in ("none", "int8", "fp16"):
            workspace = WorkspaceFolder.open(data_dir, flags={"index.token_vectors": precision})
            with build_index(workspace) as index:
                print_index(index, precision)
                queries = [node.title for node in index.tree.sections][: options.queries]
                if precision == "none":
                    print_queries("none, cold", times(workspace, index, queries[:20]))
                    times(workspace, index, queries, cached=True)
                    print_queries("none, warm", times(workspace, index, queries, cached=True))
                else:
                    print_queries(precision, times(workspace, index, queries))


def print_index(index: Index, precision: str) -> None:
    """Print the size and the build time of the token vectors, scaled to 10,000 chunks."""
    scale = SCALE / len(index.chunks)
    folder = index.directory / "tokens"
    size = sum(path.stat().st_size for path in folder.iterdir()) if precision != "none" else 0
    seconds = index.report.seconds
    print(
        f"{precision}: {len(index.chunks)} chunks, token vectors of {size / len(index.chunks) / 1e3:.1f} kB; "
        f"per {SCALE:,} chunks: index {index.report.bytes * scale / 1e6:.0f} MB, including token vectors of "
        f"{size * scale / 1e6:.0f} MB, built in {seconds.get('tokens', 0.0) * scale:.0f} s"
        + (f", in addition to {seconds['embed'] * scale:.0f} s of embedding" if precision == "none" else "")
    )


def times(
    workspace: WorkspaceFolder, index: Index, queries: Sequence[str], *, cached: bool = False
) -> list[dict[str, float]]:
    """Return the stage times of each query, in milliseconds."""
    (system,) = builtin_systems(("late-interaction",), workspace.settings)
    cache = workspace.open_token_cache if cached else None
    with Engine(
        index, workspace.corpus_root, workspace.settings, memo=Memo(one_query=True), open_token_cache=cache
    ) as engine:
        engine.open(system)
        engine.retrieve(system, "warm up", 5)
        return [engine.retrieve(system, query, 5).stage_ms for query in queries]


def print_queries(name: str, found: Sequence[dict[str, float]]) -> None:
    """Print the p50 and p95 of the time to embed the query's tokens and of the time to score candidates."""
    for label, stages in (
        ("query's token vectors", ("embed tokens",)),
        ("candidates' vectors and MaxSim", BESIDE),
    ):
        taken = [sum(each.get(stage, 0.0) for stage in stages) for each in found]
        p50, p95 = np.percentile(taken, [50, 95])
        print(f"  {name}: {label} p50 {p50:.2f} ms, p95 {p95:.2f} ms ({len(taken)} queries)")


if __name__ == "__main__":
    main()
