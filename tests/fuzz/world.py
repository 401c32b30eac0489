"""What targets need once: a scratch folder, an indexed workspace, a run, files of every format."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from support.made_runs import Planned, make_questions, make_run
from support.small_index import small_workspace

from branchrank import Workspace
from branchrank.documents.loading import Corpus, load_corpus
from branchrank.index.index_build import build_index
from branchrank.index.reader import Index

CANARY = "canary-8d1c"


@cache
def scratch() -> Path:
    """A folder in memory, where the system has one; it is deleted when the process ends.

    Another process that owns and deletes it names it in ``BRANCHRANK_FUZZ_SCRATCH``.
    """
    if named := os.environ.get("BRANCHRANK_FUZZ_SCRATCH"):
        return Path(named)
    shared = Path("/dev/shm")
    root = shared if os.access(shared, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="branchrank-fuzz-", dir=root))
    owner = os.getpid()
    atexit.register(lambda: os.getpid() == owner and shutil.rmtree(folder, ignore_errors=True))
    return folder


def put(name: str, content: bytes) -> Path:
    """Write a scratch file."""
    path = scratch() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@cache
def workspace() -> Workspace:
    """An indexed workspace over a few pages, ``docs/`` beside a secret file."""
    folder = scratch() / "world"
    (folder / "docs").mkdir(parents=True)
    (folder / "secret.txt").write_text(CANARY, encoding="utf-8")
    made = small_workspace(folder)
    build_index(made).close()
    return Workspace(made)


def index() -> Index:
    """Its index."""
    return workspace().index


@cache
def corpus() -> Corpus:
    """Its documents."""
    workspace()
    return load_corpus(scratch() / "world" / "docs")


@cache
def run_directory() -> Path:
    """A finished run with an LLM predictor, unanswerable questions, times and traces."""
    predictors = (Planned("local", 0.6), Planned("hybrid", 0.5, llm="scripted"))
    made = make_run(scratch() / "run", predictors, make_questions(3, unanswerable=1), trace_depth=2)
    return made.directory
