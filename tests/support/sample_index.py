"""A few pages of the bundled sample, or its index with all-MiniLM-L6-v2, built once for all processes."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from pathlib import Path

import pytest
from support.commands import ROOT

from branchrank import Workspace

SAMPLE = ROOT / "data" / "sample"
CORPUS = SAMPLE / "corpus"
#: Pages that take a tenth of the time that the whole sample takes, with 46 of its questions.
FEW = ("grep-tools.md", "index.rst", "mcp.md", "sqlite.md", "terminal.md", "tutorial.rst", "mining.md")
_SOURCE = re.compile(r'"source_file": ?"([^"]+)"')


def copy_few_pages(folder: Path) -> Path:
    """Put a copy of the sample with a few pages, and the questions about them, into ``folder``."""
    (folder / "corpus").mkdir(parents=True)
    for name in FEW:
        shutil.copy(CORPUS / name, folder / "corpus")
    lines = (SAMPLE / "questions.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if {*_SOURCE.findall(line)} <= {*FEW} and '"answerable":' not in line]
    (folder / "questions.jsonl").write_text("".join(kept), encoding="utf-8")
    return folder


def copy_sample_index(factory: pytest.TempPathFactory, data_dir: Path) -> Path:
    """Put a copy of the index into ``data_dir``; a build there embeds only what has changed."""
    base = factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "sample-index"
    with shared.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not shared.exists():
            Workspace.build(CORPUS, shared, embedder="all-MiniLM-L6-v2").close()
    own = shutil.ignore_patterns("branchrank.toml", ".build.lock")
    return Path(shutil.copytree(shared, data_dir, symlinks=True, ignore=own, dirs_exist_ok=True))
