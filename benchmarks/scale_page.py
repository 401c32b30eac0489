"""Writes ``docs/results/scale.md`` from the results of ``benchmarks/scale.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

Result = dict[str, Any]


def write_page(result: Result, path: Path) -> None:
    """Write the page."""
    path.write_text("", encoding="utf-8")
