"""Fuzz one target in this process: ``PYTHONPATH=tests python -m fuzz TARGET SECONDS SEED``.

atheris chooses what Hypothesis draws by coverage, where it is installed; else the draws are random. The
process ends at its first failure, whose input is kept below ``build/fuzz/TARGET/``. After the repair,
copy it to ``tests/fuzz/found/TARGET/``, where ``make test`` runs it again.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

OUTPUT = Path(__file__).parents[2] / "build" / "fuzz"
#: MiB that the process may use.
MEMORY_MIB = 8192


def main(name: str, seconds: float, seed: int) -> None:
    """Fuzz one target until the time is over or an input fails."""
    logging.disable(logging.CRITICAL)
    (OUTPUT / name).mkdir(parents=True, exist_ok=True)
    if importlib.util.find_spec("atheris") is not None:
        import atheris

        with atheris.instrument_imports(include=["branchrank"]):
            one = _fuzzed(name)
        flags = [f"-max_total_time={int(seconds)}", f"-seed={seed}", f"-rss_limit_mb={MEMORY_MIB}"]
        atheris.Setup(
            [sys.argv[0], *flags, "-print_final_stats=1", f"-artifact_prefix={OUTPUT / name}/"], one
        )
        atheris.Fuzz()
        return
    one, draw, ends, count = _fuzzed(name), random.Random(seed), time.monotonic() + seconds, 0
    while time.monotonic() < ends:
        one(draw.randbytes(4_096))
        count += 1
    print(f"number_of_executed_units: {count}", file=sys.stderr)


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
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
