"""``make mutants``: break a copy of the product in listed ways, one at a time, and report what notices.

1. Two copies of the working tree are made; the checkout itself is never edited.
2. All listed tests run once without a defect. A mutant whose tests don't pass then is broken.
3. For each mutant, its text is replaced in a copy and only its listed tests run, up to the first failure.

The exit code is 1 when a mutant survived (no listed test failed) or is broken.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from mutants.mutant import BrokenMutantError, Mutant
from mutants.table import ROOMS
from mutants.worker import TestRun, Worker

WORKERS = 2
SEED = 42
Result = TypeVar("Result")
# Exit codes of pytest; those above say that nothing was collected, and so on.
ALL_PASSED, SOME_FAILED = 0, 1


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one mutant: ``caught``, ``survived`` or ``broken``, by which test or why, in seconds."""

    room: str
    mutant: Mutant
    status: str
    detail: str
    seconds: float


def main() -> int:
    """Run the table, print it, and return the exit code."""
    arguments = _arguments()
    chosen = choose(arguments.room, arguments.only, arguments.sample)
    if arguments.list:
        print(*(f"{room}: {mutant.name} ({mutant.path})" for room, mutant in chosen), sep="\n")
        return 0
    if not chosen:
        print("no mutant has that name or room; fix: --list shows them all")
        return 2
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        verdicts = examine(chosen, Path(folder))
    verdicts.sort(key=lambda verdict: (verdict.room, verdict.mutant.name))
    minutes = (time.monotonic() - started) / 60
    if arguments.report:
        arguments.report.parent.mkdir(parents=True, exist_ok=True)
        arguments.report.write_text(markdown(verdicts, minutes), encoding="utf-8")
    print(f"\n{summary(verdicts)} ({minutes:.1f} minutes)")
    return int(any(verdict.status != "caught" for verdict in verdicts))


def choose(rooms: Sequence[str], names: Sequence[str], sample: int | None) -> list[tuple[str, Mutant]]:
    """The mutants of some rooms and of some names, and ``sample`` others drawn by a seed; else all."""
    every = [(room, mutant) for room, mutants in ROOMS.items() for mutant in mutants]
    if not rooms and not names and sample is None:
        return every
    chosen = [(room, mutant) for room, mutant in every if room in rooms or mutant.name in names]
    others = [pair for pair in every if pair not in chosen]
    return chosen + random.Random(SEED).sample(others, min(sample or 0, len(others)))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="run these mutants")
    parser.add_argument("--room", nargs="+", default=[], choices=ROOMS, help="run the mutants of these rooms")
    parser.add_argument("--sample", type=int, metavar="N", help="run N others too, drawn by a seed")
    parser.add_argument("--list", action="store_true", help="print the names and run nothing")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the table as Markdown")
    return parser.parse_args()


def examine(chosen: Sequence[tuple[str, Mutant]], folder: Path) -> list[Verdict]:
    """Run every chosen mutant, in parallel; verdicts come in the order in which they finish."""
    free: SimpleQueue[Worker] = SimpleQueue()

    def on_a_worker(call: Callable[[Worker], Result]) -> Result:
        worker = free.get()
        try:
            return call(worker)
        finally:
            free.put(worker)

    for number in range(WORKERS):
        worker = Worker(folder / str(number))
        worker.check_isolation()
        free.put(worker)
    by_file: dict[str, set[str]] = {}
    for _, mutant in chosen:
        for test in mutant.tests:
            by_file.setdefault(test.partition("::")[0], set()).add(test)
    with ThreadPoolExecutor(WORKERS) as pool:
        print(f"the tests of {len(by_file)} files, first without a defect", flush=True)
        outcomes: dict[str, str] = {}
        for run in pool.map(
            lambda tests: on_a_worker(lambda worker: worker.run(sorted(tests), stop_at_first=False)),
            by_file.values(),
        ):
            outcomes |= run.outcomes
            if run.code != ALL_PASSED:
                print(run.output, flush=True)
        verdicts = []
        for verdict in pool.map(
            lambda pair: on_a_worker(lambda worker: judge(*pair, worker, outcomes)), chosen
        ):
            verdicts.append(verdict)
            print(
                f"{verdict.status:8} {verdict.room}/{verdict.mutant.name}: {verdict.detail} "
                f"({verdict.seconds:.0f} s)",
                flush=True,
            )
    return verdicts


def judge(room: str, mutant: Mutant, worker: Worker, healthy: dict[str, str]) -> Verdict:
    """Apply one mutant and run its tests."""
    started = time.monotonic()

    def verdict(status: str, detail: str) -> Verdict:
        return Verdict(room, mutant, status, detail, time.monotonic() - started)

    for test in mutant.tests:
        found = {outcome for each, outcome in healthy.items() if belongs(each, test)}
        if found != {"PASSED"}:
            state = ", ".join(sorted(found)).lower() or "not collected"
            return verdict("broken", f"{test} is {state} without the defect")
    try:
        with worker.broken_by(mutant):
            run = worker.run(mutant.tests)
    except BrokenMutantError as error:
        return verdict("broken", str(error))
    return verdict(*conclusion(run))


def conclusion(run: TestRun) -> tuple[str, str]:
    """Status and detail of a run of a mutant's tests."""
    if run.code == ALL_PASSED:
        return "survived", "no listed test failed"
    if run.code == SOME_FAILED and (failed := run.failed()):
        return "caught", failed[0]
    last = next((line for line in reversed(run.output.splitlines()) if line.strip()), "")
    return "broken", f"pytest ended with code {run.code}: {last}"


def belongs(test: str, listed: str) -> bool:
    """Whether a reported test id is one of those that a listed id (a file, class or function) selects."""
    return test == listed or test.startswith((f"{listed}[", f"{listed}::"))


def summary(verdicts: Iterable[Verdict]) -> str:
    """``83 mutants: 83 caught``."""
    counts = Counter(verdict.status for verdict in verdicts)
    return f"{counts.total()} mutants: " + ", ".join(f"{n} {status}" for status, n in sorted(counts.items()))


def markdown(verdicts: Sequence[Verdict], minutes: float) -> str:
    """The table as a Markdown page."""
    lines = [
        "# Mutants",
        "",
        f"{summary(verdicts)}, in {minutes:.1f} minutes.",
        "",
        "| room | mutant | file | verdict | test | s |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for verdict in verdicts:
        cells = (
            verdict.room,
            verdict.mutant.name,
            f"`{verdict.mutant.path}`",
            verdict.status,
            verdict.detail,
            f"{verdict.seconds:.0f}",
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
