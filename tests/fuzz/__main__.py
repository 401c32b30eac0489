"""Fuzz targets, each in its own process: ``PYTHONPATH=tests python -m fuzz SCRATCH SECONDS SEED TARGET...``.

atheris chooses what Hypothesis draws by coverage, where it is installed; else the draws are random. A
target ends at its first failure, whose input is kept below ``build/fuzz/TARGET/``. After the repair,
copy it to ``tests/fuzz/found/TARGET/``, where ``make test`` runs it again. ``SCRATCH/TARGET.log`` is what
the target's process told; a line ``TARGET EXITCODE`` is printed when it ends. Instrumenting the package
takes ten seconds, so the processes are forks of one in which this was done.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

OUTPUT = Path(__file__).parents[2] / "build" / "fuzz"
WITH_ATHERIS = importlib.util.find_spec("atheris") is not None
#: MiB that a process may use.
MEMORY_MIB = 8192
#: Seconds after its time at which a process counts as hung.
PATIENCE_S = 120


def main(scratch: Path, seconds: float, seed: int, names: list[str]) -> None:
    """Fuzz the targets, one after the other; each until its time is over or an input fails."""
    logging.disable(logging.CRITICAL)
    with _instrumented():
        import fuzz.targets  # noqa: F401  (forks have the imported modules)
    forks = multiprocessing.get_context("fork")
    for name in names:
        process = forks.Process(target=_fuzz, args=(scratch, seconds, seed, name))
        process.start()
        process.join(seconds + PATIENCE_S)
        hung = process.is_alive()
        process.kill()
        process.join()
        print(name, "hung" if hung else process.exitcode, flush=True)


def _fuzz(scratch: Path, seconds: float, seed: int, name: str) -> None:
    """Fuzz one target in this process."""
    log = os.open(scratch / f"{name}.log", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ["BRANCHRANK_FUZZ_SCRATCH"] = str(scratch / name)
    (scratch / name).mkdir()
    (OUTPUT / name).mkdir(parents=True, exist_ok=True)
    with _instrumented():
        one = _fuzzed(name)
    if WITH_ATHERIS:
        import atheris

        flags = [f"-max_total_time={int(seconds)}", f"-seed={seed}", f"-rss_limit_mb={MEMORY_MIB}"]
        atheris.Setup(
            [sys.argv[0], *flags, "-print_final_stats=1", f"-artifact_prefix={OUTPUT / name}/"], one
        )
        atheris.Fuzz()
        return
    draw, ends, count = random.Random(seed), time.monotonic() + seconds, 0
    while time.monotonic() < ends:
        one(draw.randbytes(4_096))
        count += 1
    print(f"number_of_executed_units: {count}", file=sys.stderr)


def _instrumented() -> AbstractContextManager[object]:
    """Imports of the package count coverage."""
    if not WITH_ATHERIS:
        return nullcontext()
    import atheris

    return atheris.instrument_imports(include=["branchrank"])


def _fuzzed(name: str) -> Callable[[bytes], object]:
    """Hypothesis's test of one target, as a function of the bytes that it draws from."""
    from hypothesis import given, settings

    from fuzz.mutation import inputs
    from fuzz.target import failure_of
    from fuzz.targets import TARGETS

    target = TARGETS[name]

    @settings(deadline=None, database=None)
    @given(content=inputs(target))
    def reads(content: bytes) -> None:
        if failure := failure_of(target, content):
            path = OUTPUT / name / hashlib.sha256(content).hexdigest()[:12]
            path.write_bytes(content)
            raise AssertionError(f"{failure.kind}: {failure.place} ({path})\n{failure.error}")

    found: Callable[[bytes], object] = reads.hypothesis.fuzz_one_input
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
