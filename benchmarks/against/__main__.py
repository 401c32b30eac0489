"""Compare the speed of BranchRank and of other libraries, as ratios of times measured in one run.

    python -m benchmarks.against run [--write] [--only GROUP] [--data-dir DIR] [--questions FILE]
    python -m benchmarks.against check [--measured FILE]
    python -m benchmarks.against page

1. ``run`` prints the table. With ``--write``, ``run`` also writes ``benchmarks/table.json`` and
   ``docs/results/speed.md``.
2. ``check`` repeats the measurements and compares the ratios with those in ``benchmarks/table.json``. With
   ``--measured FILE``, the new ratios are read from ``FILE`` instead of being measured. The exit code is 1 if
   the whole 95% interval of a ratio is more than 20% below the stored ratio. The exit code is 2 if the tables
   can't be compared.
3. ``page`` writes ``docs/results/speed.md`` from ``benchmarks/table.json``.

``--data-dir`` defaults to ``data/symfony`` if that workspace exists, and to an index of the bundled sample
otherwise.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.against import dense, frameworks, lexical, models, processes, pyterrier, scores
from benchmarks.against.page import PAGE, page
from benchmarks.against.pairs import Source, measure
from benchmarks.against.table import (
    Corpus,
    Machine,
    Rate,
    Row,
    Skipped,
    Table,
    UnreadableTableError,
    markdown,
    problems,
    read_table,
    write_table,
)
from benchmarks.against.world import ROOT, World, cpu_name, opened

TABLE = ROOT / "benchmarks" / "table.json"
GROUPS: dict[str, tuple[Callable[[World], Source], ...]] = {
    "embedding": (models.pairs,),
    "lexical": (lexical.pairs, pyterrier.pairs),
    "vectors": (dense.pairs,),
    "measures": (scores.pairs,),
    "benchmark": (),  # _sources creates these pairs, because they need the hit rates
    "start": (processes.pairs,),
}


def run(options: argparse.Namespace) -> Table:
    """Measure every pair in the chosen groups, and print each ratio on standard error."""
    started, load = time.perf_counter(), os.getloadavg()[0]
    rows: list[Row] = []
    skipped: list[Skipped] = []
    rates: list[Rate] = []
    with opened(options.data_dir, options.questions) as world:
        for source in _sources(world, options.only or list(GROUPS), rates):
            for pair in source:
                if isinstance(pair, Skipped):
                    skipped.append(pair)
                    continue
                rows.append(measure(pair))
                done = time.perf_counter() - started
                print(
                    f"{done:4.0f} s  {pair.what} against {pair.against}: {rows[-1].ratio:.2f}",
                    file=sys.stderr,
                )
        manifest = world.index.manifest
        corpus = Corpus(
            name=manifest.corpus,
            digest=manifest.corpus_digest,
            chunks=len(world.ids),
            questions=len(world.questions),
        )
    return Table(
        machine=Machine(
            cpu=cpu_name(),
            cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
            python=platform.python_version(),
            load_before=round(load, 2),
            load_after=round(os.getloadavg()[0], 2),
        ),
        corpus=corpus,
        seconds=round(time.perf_counter() - started, 1),
        rows=rows,
        starts=processes.starts(rows),
        rates=rates,
        skipped=skipped,
    )


def _sources(world: World, groups: list[str], rates: list[Rate]) -> Iterator[Source]:
    """Yield the comparisons of each group in ``groups``, and add the frameworks' hit rates to ``rates``."""
    for group in groups:
        if group == "benchmark":
            found = list(frameworks.retrievers(world))
            rates += frameworks.hit_rates(world, found)
            yield frameworks.pairs(world, found, rates)
        if group == "start":
            dense.chroma_collection(world)  # SCRIPT in processes.py searches this collection
        for source in GROUPS[group]:
            yield source(world)


def check(options: argparse.Namespace) -> int:
    """Compare a new table with the committed table, and return the exit code."""
    before = read_table(options.table)
    now = read_table(options.measured) if options.measured else run(options)
    if not options.measured:
        print(markdown(now))
    found = problems(now, before)
    for line in found:
        print(f"worse: {line}")
    if not found:
        print(f"no ratio of {len(before.rows)} is more than 20% worse than in {options.table.name}")
    return int(bool(found))


def parsed() -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("run", "check", "page"))
    parser.add_argument(
        "--write", action="store_true", help="run: write benchmarks/table.json and docs/results/speed.md"
    )
    parser.add_argument(
        "--only", action="append", choices=list(GROUPS), help="run: only this group; repeatable"
    )
    parser.add_argument("--data-dir", type=Path, help="a workspace indexed with all-MiniLM-L6-v2")
    parser.add_argument("--questions", type=Path, help="questions about the workspace's corpus")
    parser.add_argument("--table", type=Path, default=TABLE, help="the table to compare with or to write")
    parser.add_argument(
        "--measured",
        type=Path,
        help="check: compare --table with the table in this file instead of measuring again",
    )
    options = parser.parse_args()
    if options.write and options.only:
        parser.error("--write needs all groups: remove --only")
    return options


def main() -> int:
    """Run the command ``run``, ``check`` or ``page``."""
    options = parsed()
    try:
        if options.command == "check":
            return check(options)
        if options.command == "run":
            table = run(options)
            print(markdown(table))
            if not options.write:
                return 0
            write_table(options.table, table)
        PAGE.write_text(page(read_table(options.table)), encoding="utf-8")
    except UnreadableTableError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
