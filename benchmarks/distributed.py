"""Measure how long it takes to index and benchmark the bundled sample with one process and with several.

    python benchmarks/distributed.py               # takes a few minutes
    python benchmarks/distributed.py --no-ray      # skips the configuration with Ray

1. The bundled sample is indexed and benchmarked in three configurations: in one process, with ``--jobs``, and
   with Ray. Each configuration uses a new workspace, and every command runs in a new process.
2. The wall time of each command is measured in seconds. The benchmark asks each of three predictors all
   questions, and has no latency pass.
3. The files that several processes write are compared with the files that one process writes.
4. The times depend on the machine's load, so the load before each configuration is printed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SAMPLE = Path(__file__).parents[1] / "data" / "sample"
WAYS: dict[str, tuple[str, ...]] = {
    "one process": (),
    "--jobs 2": ("--jobs", "2"),
    "--engine ray --jobs 2": ("--engine", "ray", "--jobs", "2"),
}
FILES = ("rows.jsonl", "questions.csv")


def run(*words: str) -> float:
    """Run a BranchRank command, and return its wall time in seconds."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "branchrank", *words, "--quiet"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def digest(folder: Path, names: tuple[str, ...]) -> str:
    """Return one digest of all files below ``folder`` that have one of the ``names``."""
    found = hashlib.sha256()
    for name in names:
        for path in sorted(folder.glob(f"**/{name}")):
            found.update(path.read_bytes())
    return found.hexdigest()


def measure(folder: Path, flags: tuple[str, ...], embedder: str) -> tuple[float, float, str]:
    """Return the times of the commands ``index`` and ``benchmark``, and a digest of the written files."""
    data, reports = str(folder / "data"), str(folder / "reports")
    index = run("index", str(SAMPLE / "corpus"), "--data-dir", data, "--embedder", embedder, *flags)
    words = ("benchmark", "--data-dir", data, "--questions", str(SAMPLE / "questions.jsonl"))
    no_llm = ("--hybrid-no-llm", "--pageindex-no-llm", "--latency-sample", "0")
    bench = run(*words, "--predictor", "all", *no_llm, "--reports", reports, *flags)
    return index, bench, digest(folder, (*FILES, "vectors.arrays"))


def main() -> None:
    """Index and benchmark the sample in each configuration, and print the times as a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-ray", action="store_true", help="skip the configuration with Ray")
    parser.add_argument("--embedder", default="all-MiniLM-L6-v2")
    options = parser.parse_args()
    print(f"{'':24}{'index s':>9}{'benchmark s':>13}{'load':>7}  files")
    first = ""
    for name, flags in WAYS.items():
        if options.no_ray and "ray" in flags:
            continue
        load = os.getloadavg()[0]
        with tempfile.TemporaryDirectory() as folder:
            index, bench, found = measure(Path(folder), flags, options.embedder)
        first = first or found
        same = "identical" if found == first else "DIFFERENT"
        print(f"{name:24}{index:>9.1f}{bench:>13.1f}{load:>7.1f}  {same}")


if __name__ == "__main__":
    main()
