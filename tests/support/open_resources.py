"""What a workspace leaves open after it is closed; run as a script, it writes the answer as JSON.

python open_resources.py FOLDER STORE EMBEDDER
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sqlite3
import sys
import threading
from pathlib import Path
from typing import Any

QUERY = "clear the cache"


def open_files(folder: Path) -> list[str]:
    """Files below ``folder`` that this process holds open or mapped."""
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    with open("/proc/self/maps", encoding="utf-8") as maps:
        found += [
            line.split(maxsplit=5)[5].rstrip("\n") for line in maps if line.count(" ") > 5 and "/" in line
        ]
    return sorted({path for path in found if path.startswith(str(folder.resolve()))})


def counts() -> dict[str, int]:
    """Descriptors, native threads and sqlite connections of this process."""
    gc.collect()
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "native threads": len(os.listdir("/proc/self/task")),
        "python threads": threading.active_count(),
        "connections": sum(isinstance(each, sqlite3.Connection) for each in gc.get_objects()),
    }


def use(folder: Path) -> None:
    """Open the workspace, search it in every way, close it."""
    from branchrank import Workspace

    settings = {"hybrid.no_llm": True, "pageindex.no_llm": True, "grep.vector_score_threshold": 4.0}
    with Workspace.open(folder / "data", settings=settings) as workspace:
        for system in ("local", "pageindex", "hybrid", "grep", "qdrant", "sqlite", "late-interaction"):
            assert workspace.search(QUERY, system=system, k=3)


def main() -> None:
    """Build once, then open and close again and again."""
    from branchrank import Workspace

    folder, store, embedder = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    settings: dict[str, Any] = {"index.vector_store": store}
    Workspace.build(folder / "docs", folder / "data", embedder=embedder, settings=settings).close()
    use(folder)
    first = counts()
    for _ in range(4):
        use(folder)
    answer = {"files": open_files(folder), "first": first, "last": counts()}
    (folder / "open.json").write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    main()
