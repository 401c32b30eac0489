"""Make each listed defect in a copy of the project, and see whether its test fails.

1. The listed tests run once without a defect, and must pass.
2. For each defect, its test runs in a copy that has it. A defect that no test notices is a gap in the tests.

Where a seed is given to draw from the campaigns (``support.draw``), it draws the defects, too.

The exit code is 1 where a test passes in spite of its defect.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from support import draw

from mutants.copies import copy_working_tree, pytest_words, variables
from mutants.table import ROOMS, Mutant

WORKERS = 2
#: Seconds after which a test that has not ended counts as failed.
TIME_LIMIT = 240


def passes(tree: Path, tests: list[str], processes: int = 0) -> bool:
    """Whether the tests pass in a copy."""
    try:
        done = subprocess.run(
            pytest_words(tests, processes),
            cwd=tree,
            env=variables(tree),
            capture_output=True,
            timeout=TIME_LIMIT,
        )
    except subprocess.TimeoutExpired:
        return False
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stdout.decode()[-2_000:])
    return done.returncode == 0


def survives(mutant: Mutant, tree: Path) -> bool:
    """Whether the test of a defect passes in spite of it."""
    file = tree / mutant.path
    original = file.read_text(encoding="utf-8")
    file.write_text(mutant.mutated(original), encoding="utf-8")
    try:
        return passes(tree, [mutant.test])
    finally:
        file.write_text(original, encoding="utf-8")


def main() -> int:
    """Run the table, print it, and return the exit code."""
    parser = argparse.ArgumentParser(prog="mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--room", nargs="+", default=list(ROOMS), choices=ROOMS)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="run these defects")
    given = parser.parse_args()
    listed = [each for room in given.room for each in ROOMS[room] if each.name in (given.only or [each.name])]
    chosen = draw.some(listed)
    trees: SimpleQueue[Path] = SimpleQueue()

    def tried(mutant: Mutant) -> bool:
        tree = trees.get()
        try:
            survived = survives(mutant, tree)
        finally:
            trees.put(tree)
        print(f"{'SURVIVED' if survived else 'caught'}: {mutant.name} ({mutant.test})", flush=True)
        return survived

    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for number in range(WORKERS):
            trees.put(tree := copy_working_tree(Path(folder, str(number), "tree")))
        if not passes(tree, sorted({mutant.test for mutant in chosen}), WORKERS):
            sys.exit("a listed test fails without a defect")
        with ThreadPoolExecutor(WORKERS) as pool:
            survived = sum(pool.map(tried, chosen))
    print(f"{len(chosen)} defects: {survived} survived")
    return int(survived > 0)


if __name__ == "__main__":
    sys.exit(main())
