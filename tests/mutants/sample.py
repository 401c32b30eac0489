"""``make mutants``: a seeded sample of the defects that cosmic-ray can make in the rooms that compute.

Each room has a copy of the project, and a number of defects drawn by the seed; two rooms run at a time. The
survivors are listed with their lines, and the share of each room that the tests caught is printed.
"""

from __future__ import annotations

import argparse
import json
import random
import shlex
import sqlite3
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

from mutants.copies import copy_working_tree, pytest_words, variables

#: The rooms, and what tests them.
ROOMS = {
    "search/ranking": [
        "tests/search/test_fusion.py",
        "tests/search/test_maxsim.py",
        "tests/search/test_neighborhood.py",
        "tests/search/test_passage_choice.py",
        "tests/search/test_passage_growth.py",
        "tests/search/test_tree_ranking.py",
        "tests/search/test_engine.py",
    ],
    "scoring": ["tests/scoring"],
    "runs": [
        "tests/runs",
        "tests/test_run.py",
        "tests/runs/test_resume.py",
        "tests/scoring/test_latency_and_risk.py",
        "tests/questions/test_labeling.py",
        "tests/reports/test_datasets.py",
        "tests/reports/test_latex.py",
        "tests/frontends/test_after_run.py",
        "tests/search/test_spanning_chunks.py",
    ],
    "search/llm": [
        "tests/search/test_cassette.py",
        "tests/search/test_client.py",
        "tests/search/test_completions.py",
        "tests/search/test_decision_caches.py",
        "tests/search/test_gateway.py",
        "tests/search/test_generation_commands.py",
        "tests/search/test_interrupted_recording.py",
        "tests/search/test_ledger.py",
        "tests/search/test_parsing.py",
        "tests/search/test_real_server.py",
        "tests/search/test_secrets.py",
        "tests/search/test_two_endpoints.py",
        "tests/search/test_whole_run.py",
    ],
}
#: Defects that change nothing: of annotations, which are not evaluated, and of what only other checks read.
IGNORED = ("core/ReplaceBinaryOperator_BitOr_", "core/RemoveDecorator")
#: The same, where the line contains a text: the sign before keyword-only parameters, and what records and
#: loops do if they are used wrongly.
IGNORED_WITH = {
    "core/ReplaceBinaryOperator_Mul_": ("*,",),
    "core/ReplaceTrueWithFalse": ("kw_only=True", "strict=True"),
}
SEED = 42
COSMIC_RAY = (sys.executable, "-m", "cosmic_ray.cli")
#: Least share that the tests of a room must catch.
LEAST = 0.8


def changes_nothing(operator: str, file: Path, row: int) -> bool:
    """Whether no test can notice a defect, because the program does the same with it."""
    words = next((found for begin, found in IGNORED_WITH.items() if operator.startswith(begin)), ())
    line = file.read_text(encoding="utf-8").splitlines()[row - 1]
    return operator.startswith(IGNORED) or any(word in line for word in words)


def tried(room: str, folder: Path, count: int, seconds: float, seed: int) -> tuple[int, list[str]]:
    """How many defects of a room were tried within the time, and the survivors."""
    tree, session = copy_working_tree(folder / room / "tree"), folder / room / "session.sqlite"
    command = shlex.join(pytest_words(ROOMS[room])).replace("full or not full", "not full")
    config = folder / room / "cosmic.toml"
    config.write_text(
        f'[cosmic-ray]\nmodule-path = "branchrank/{room}"\ntimeout = 300.0\nexcluded-modules = []\n'
        f'test-command = {json.dumps(command)}\n[cosmic-ray.distributor]\nname = "local"\n'
    )
    run = {"cwd": tree, "env": variables(tree), "check": True, "stdout": subprocess.DEVNULL}
    subprocess.run([*COSMIC_RAY, "init", config, session], **run)
    with closing(sqlite3.connect(session)) as database:
        listed = database.execute(
            "SELECT job_id, operator_name, module_path, start_pos_row FROM mutation_specs "
            "ORDER BY module_path, operator_name, occurrence"
        ).fetchall()
        jobs = [job for job, operator, path, row in listed if not changes_nothing(operator, tree / path, row)]
        kept = set(random.Random(seed).sample(jobs, min(count, len(jobs))))
        for table in ("mutation_specs", "work_items"):
            left_out = [(job,) for job, *_ in listed if job not in kept]
            database.executemany(f"DELETE FROM {table} WHERE job_id = ?", left_out)
        database.commit()
    with suppress(subprocess.TimeoutExpired):
        subprocess.run([*COSMIC_RAY, "exec", config, session], timeout=seconds, **run)
    with closing(sqlite3.connect(session)) as database:
        found = database.execute(
            "SELECT test_outcome, module_path, start_pos_row, operator_name, diff FROM work_results "
            "JOIN mutation_specs USING (job_id)"
        ).fetchall()
    survivors = [
        f"{path}:{line}: {operator.removeprefix('core/')}\n{diff}"
        for outcome, path, line, operator, diff in found
        if "SURVIVED" in outcome
    ]
    return len(found), survivors


def main() -> int:
    """Try the sample, print the shares and the survivors, and return the exit code."""
    parser = argparse.ArgumentParser(prog="mutants.sample", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rooms", nargs="*", default=list(ROOMS), help=f"of {', '.join(ROOMS)}; default: all")
    parser.add_argument("--count", type=int, default=60, help="defects for each room")
    parser.add_argument("--minutes", type=float, default=25, help="limit for each room; two run at a time")
    parser.add_argument("--seed", type=int, default=SEED, help=f"of the drawn defects; default: {SEED}")
    given = parser.parse_args()
    seconds = 60 * given.minutes
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(2) as pool:
        shares = list(
            pool.map(lambda room: tried(room, Path(folder), given.count, seconds, given.seed), given.rooms)
        )
    enough = True
    for room, (count, survivors) in zip(given.rooms, shares, strict=True):
        share = 1 - len(survivors) / count if count else 0.0
        enough = enough and share >= LEAST
        print("\n".join(survivors))
        print(f"{room}: {count - len(survivors)} of {count} caught ({share:.0%})", flush=True)
    return int(not enough)


if __name__ == "__main__":
    sys.exit(main())
