"""Ranked lists are fused in one place, so every door ranks alike."""

from __future__ import annotations

import ast
from pathlib import Path

import branchrank

PACKAGE = Path(branchrank.__file__).parent


def imported(path: Path) -> set[str]:
    """The modules that a file imports, functions included."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def test_only_the_engine_and_its_stages_call_the_fusions() -> None:
    callers = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if "branchrank.ranking.fusion" in imported(path) and path.parent.name != "ranking"
    }
    assert callers == {"systems/engine.py", "systems/hits.py", "systems/rerank.py"}
