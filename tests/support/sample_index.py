"""The bundled sample with all-MiniLM-L6-v2, embedded once for all processes of a test run."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

import pytest
from support.commands import ROOT

from branchrank import Workspace

CORPUS = ROOT / "data" / "sample" / "corpus"


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
