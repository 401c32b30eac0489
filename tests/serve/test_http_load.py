"""Fifty clients at once: no error, no wrong answer, bounded memory. The long version is a benchmark."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "http_load.py"


def test_fifty_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("http_load", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "http_load", module)
    spec.loader.exec_module(module)
    load, exit_code = module.run(clients=50, seconds=3.0)
    assert load.errors == ()
    assert load.wrong == 0
    assert load.requests >= 50
    assert load.memory_after - load.memory_before < 64
    assert exit_code == 143
