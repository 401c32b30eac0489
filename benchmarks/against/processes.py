"""Compare the CPU time of a cold start with that of a bare interpreter and of a script without BranchRank.

Python's bytecode cache is enabled, as in an installed program. Only the first process compiles the modules,
so the compilation does not affect the median.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

from benchmarks.against.pairs import Pair
from benchmarks.against.table import Row, Start
from benchmarks.against.world import ROOT, World, named
from branchrank.index.embedders.minilm import find_model

GROUP = "cold start"
#: After this many seconds, no new round of a comparison starts, except to reach the minimum number of rounds.
BUDGET = 10.0
#: The CPU time limit of each command in seconds. The limits assume the index of Symfony's documentation.
BOUNDS = {"--help": 0.15, "--vector-store exact": 0.7, "--vector-store chroma": 1.6}
SCRIPT = """
import sys
import chromadb
from sentence_transformers import SentenceTransformer
model = SentenceTransformer(sys.argv[1], device="cpu", local_files_only=True)
collection = chromadb.PersistentClient(path=sys.argv[2]).get_collection("chunks")
vector = model.encode(sys.argv[3], normalize_embeddings=True, show_progress_bar=False)
found = collection.query(query_embeddings=[vector], n_results=5)
print(found["ids"][0], found["documents"][0][0])
"""


def pairs(world: World) -> Iterator[Pair]:
    """Compare three cold starts with the startup of a bare Python interpreter.

    One of the cold starts is also compared with a script that does the same search without BranchRank.
    """
    data = str(world.folder.data_dir.resolve())
    numbers = count(1)

    def ours(flags: str) -> float:
        # Each call uses a new question, because the vectors of earlier questions are cached.
        question = [] if flags == "--help" else ["--data-dir", data, f"how do I compare run {next(numbers)}"]
        return cpu_seconds("retrieve.py", *flags.split(), *question)

    empty = partial(cpu_seconds, "-c", "")
    for flags in BOUNDS:
        yield _pair(f"retrieve.py {flags}", "Python (empty program)", partial(ours, flags), empty)
    libraries = f"script with {named('sentence-transformers')} and {named('chromadb')}"
    folder, model = str(world.scratch / "chroma"), str(find_model())
    script = partial(cpu_seconds, "-c", SCRIPT, model, folder, "how do I compare two runs")
    chroma = "--vector-store chroma"
    yield _pair(f"retrieve.py {chroma}", libraries, partial(ours, chroma), script)


def _pair(what: str, against: str, ours: Callable[[], float], theirs: Callable[[], float]) -> Pair:
    def clock(side: Callable[[], object]) -> float:
        return theirs() if side is theirs else ours()

    return Pair(GROUP, what, against, ours, theirs, 1, "process, CPU", "-", clock, BUDGET)


def starts(rows: list[Row]) -> list[Start]:
    """Return the median CPU time in seconds of each command in ``BOUNDS``, with its upper limit."""
    found = {row.what.partition(" ")[2]: row for row in reversed(rows) if row.group == GROUP}
    return [
        Start(command=f"retrieve.py {flags}", cpu_s=round(found[flags].ours_ms / 1000, 3), bound_s=bound)
        for flags, bound in BOUNDS.items()
        if flags in found
    ]


def cpu_seconds(*arguments: str) -> float:
    """Return the CPU time in seconds of one Python process, including its child processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *arguments], check=True, capture_output=True, cwd=ROOT, env=with_bytecode()
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def with_bytecode() -> dict[str, str]:
    """Return environment variables that enable Python's bytecode cache."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
