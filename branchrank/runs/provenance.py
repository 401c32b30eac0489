"""The code, the packages and the machine that a run used, recorded in ``run.json``."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
from pathlib import Path

from branchrank.core.execution import usable_cpus
from branchrank.core.records import Record

#: Packages whose version can change the results.
PACKAGES = (
    "bm25s",
    "chromadb",
    "docutils",
    "markdown-it-py",
    "numpy",
    "onnxruntime",
    "PyStemmer",
    "qdrant-client",
    "qdrant-edge-py",
    "ripgrep",
    "scipy",
    "sentence-transformers",
    "tokenizers",
    "torch",
    "transformers",
)


class Provenance(Record, frozen=True, kw_only=True):
    """The code and the machine that a run used."""

    branchrank: str
    git_commit: str
    git_dirty: bool | None
    python: str
    packages: dict[str, str]
    system: str
    machine: str
    processor: str
    cores: int
    memory_bytes: int


def gather() -> Provenance:
    """Return the code version, the package versions and the hardware that this process uses."""
    commit = _git("rev-parse", "HEAD")
    status = _git("status", "--porcelain") if commit else ""
    return Provenance(
        branchrank=_version("branchrank"),
        git_commit=commit,
        git_dirty=bool(status) if commit else None,
        python=platform.python_version(),
        packages={name: found for name in PACKAGES if (found := _version(name))},
        system=f"{platform.system()} {platform.release()}",
        machine=platform.machine(),
        processor=_processor(),
        cores=usable_cpus(),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    )


def _version(package: str) -> str:
    """Return the version of an installed package, or "" if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _git(*words: str) -> str:
    """Return the output of a read-only Git command in this package's checkout, or "" outside a checkout."""
    try:
        answer = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(Path(__file__).parent), *words],  # noqa: S607 - the user's own git
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip()


def _processor() -> str:
    try:
        found = re.search(
            r"^model name\s*:(.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE
        )
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor()
