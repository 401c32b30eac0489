"""Compare the time of an index build with the time of its embedding stage.

    python benchmarks/indexing.py [CORPUS] [--embedder all-MiniLM-L6-v2] [--bar 1.15]

1. The corpus (by default this project's docs) is indexed into an empty workspace, so every text is embedded.
2. The ratio is the wall time of the build divided by the wall time of the embedding stage. The embedding
   stage includes the time to write the embedding cache.
3. To time the stages other than embedding, the same index is built again from the cache.
4. The index is opened in a new process, and the first search is timed.

The exit code is 1 if the ratio is above ``--bar``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from branchrank.index.index_build import build_index
from branchrank.index.workspace_folder import WorkspaceFolder, configure

COLD = """
import sys, time
start = time.perf_counter()
from pathlib import Path
from branchrank.index.reader import open_index
from branchrank.index.workspace_folder import WorkspaceFolder
imported = time.perf_counter()
index = open_index(WorkspaceFolder.open(Path(sys.argv[1])))
opened = time.perf_counter()
index.bm25_chunks.search("how to configure it", 80)
index.vectors.search(index.vectors.vector(index.vectors.ids[0]), 40)
answered = time.perf_counter()
print(f"cold process: import {imported - start:.3f} s, open {opened - imported:.3f} s, "
      f"first BM25 and vector search {answered - opened:.3f} s")
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", nargs="?", default=Path(__file__).parent.parent / "docs", type=Path)
    parser.add_argument("--embedder", default="all-MiniLM-L6-v2")
    parser.add_argument("--bar", default=1.15, type=float, help="largest ratio that passes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder, "data")
        configure(data_dir, corpus=options.corpus, settings={"index.embedder": options.embedder})
        workspace = WorkspaceFolder.open(data_dir)
        start = time.perf_counter()
        with build_index(workspace) as index:
            whole = time.perf_counter() - start
            report, manifest = index.report, index.manifest
        start = time.perf_counter()
        build_index(workspace, force=True).close()
        again = time.perf_counter() - start
        embedding = report.seconds["embed"]
        ratio = whole / embedding
        sizes = (f"{getattr(manifest, name)} {name}" for name in ("documents", "nodes", "chunks"))
        print(f"{', '.join(sizes)}, {report.bytes} bytes")
        print(f"stages in s: {json.dumps(report.seconds)}")
        print(f"build {whole:.2f} s, embedding {embedding:.2f} s: ratio {ratio:.3f} (bar {options.bar})")
        print(f"without embedding {whole - embedding:.2f} s; second build, from the cache, {again:.2f} s")
        sys.stdout.flush()
        subprocess.run([sys.executable, "-c", COLD, str(data_dir)], check=True)
    return int(ratio > options.bar)


if __name__ == "__main__":
    sys.exit(main())
