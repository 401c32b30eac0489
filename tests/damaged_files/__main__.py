"""Run every trial, or a share of them: ``PYTHONPATH=tests python -m damaged_files SHARE OF``.

Prints a line of JSON: the number of trials, and each fault with its trial.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
from pathlib import Path

from damaged_files.trials import World, undrawn

#: Bytes of address space: libraries alone take some GiB.
ADDRESS_SPACE = 24 << 30


def main(share: int, of: int) -> None:
    """Run every ``of``-th trial, from the trial number ``share`` on."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    faults, count = [], 0
    with tempfile.TemporaryDirectory(prefix="branchrank-damaged-") as folder, undrawn():
        world = World(Path(folder))
        for number, trial in enumerate(world.trials()):
            if number % of != share:
                continue
            count += 1
            fault = world.judge(trial)
            if fault is not None:
                faults.append((fault[0], trial.name, fault[1]))
                print(f"{fault[0]}: {trial.name}\n{fault[1]}", file=sys.stderr, flush=True)
    print(json.dumps({"trials": count, "faults": faults}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
