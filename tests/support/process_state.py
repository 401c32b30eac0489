"""State of the whole process that a library must leave alone; run as a script, it uses the library between.

    python process_state.py FOLDER STORE EMBEDDER

It builds, searches and benchmarks the documents in ``FOLDER/docs`` and writes what changed to
``FOLDER/changes.json``.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import json
import locale
import logging
import multiprocessing
import os
import random
import resource
import signal
import socket
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np


def process_state() -> dict[str, Any]:
    """Everything that is compared, by name."""
    state = {
        "environment": dict(os.environ),
        "garbage collector": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()),
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "warnings": list(warnings.filters),
        "logging": (logging.root.level, list(logging.root.handlers), logging.root.manager.disable),
        "random": random.getstate(),
        "numpy random": str(np.random.get_state()),
        "numpy errors": np.geterr(),
        "numpy printing": np.get_printoptions(),
        "path": list(sys.path),
        "directory": os.getcwd(),
        "locale": locale.setlocale(locale.LC_ALL),
        "umask": _umask(),
        "streams": (sys.stdin, sys.stdout, sys.stderr),
        "hooks": (sys.excepthook, sys.displayhook, sys.unraisablehook, threading.excepthook),
        "tracing": (sys.gettrace(), sys.getprofile()),
        "interpreter": (sys.getrecursionlimit(), sys.getswitchinterval(), faulthandler.is_enabled()),
        "limits": [resource.getrlimit(which) for which in (resource.RLIMIT_NOFILE, resource.RLIMIT_AS)],
        "socket timeout": socket.getdefaulttimeout(),
        "processes": multiprocessing.get_start_method(allow_none=True),
        "event loops": type(asyncio.get_event_loop_policy()),
    }
    if "torch" in sys.modules:
        import torch

        state["torch"] = (torch.get_num_threads(), torch.get_num_interop_threads(), torch.initial_seed())
    return state


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def use_the_library(folder: Path, store: str, embedder: str) -> None:
    """Build an index, search it, run a benchmark, compare, report and verify it."""
    import branchrank as br

    class Fixed:
        def retrieve(self, query: str, k: int) -> list[br.Hit]:
            return []

    settings = {
        "index.vector_store": store,
        "hybrid.no_llm": True,
        "pageindex.no_llm": True,
        "grep.vector_score_threshold": 4.0,
    }
    corpus, data = folder / "docs", folder / "data"
    (folder / "questions.jsonl").write_text(
        '{"id": "q", "question": "clear the cache", "source_file": "cache.rst", '
        '"answer_line_start": 9, "answer_line_end": 9}\n'
    )
    with br.Workspace.build(corpus, data, embedder=embedder, settings=settings) as workspace:
        for system in ("local", "pageindex", "hybrid", "grep", "sqlite", "late-interaction"):
            assert workspace.search("clear the cache", system=system, k=3)
        run = workspace.benchmark(
            ["local", "hybrid", Fixed()],
            questions=folder / "questions.jsonl",
            latency_sample=1,
            reports=folder / "reports",
        )
        assert len(run.summary) == 3
        assert run.compare("hybrid", "local").n == 1
        assert br.Run.load(run.directory).verify().findings == ()


def main() -> None:
    """Compare the state before and after."""
    folder, store, embedder = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    before = process_state()
    use_the_library(folder, store, embedder)
    after = process_state()
    changes: dict[str, Any] = {
        name: [repr(before[name])[:2000], repr(after[name])[:2000]]
        for name in before
        if before[name] != after[name]
    }
    if "warnings" in changes:
        old, new = ([repr(each) for each in state["warnings"]] for state in (before, after))
        changes["warnings"] = {
            "gone": [each for each in old if each not in new],
            "new": [each for each in new if each not in old],
        }
    (folder / "changes.json").write_text(json.dumps(changes, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
