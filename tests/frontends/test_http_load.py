"""Many clients at once: no error, no wrong answer, overload is answered by 503, and service afterwards.

The benchmark that these tests run, ``benchmarks/http_load.py``, also measures latency, memory and recovery.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "http_load.py"


@pytest.fixture
def http_load(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("http_load", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "http_load", module)
    spec.loader.exec_module(module)
    return module


def check(http_load: ModuleType, clients: int, queue: int, seconds: float) -> None:
    [(load, exit_code)] = http_load.run([(clients, queue)], seconds)
    assert load.errors == ()
    assert load.wrong == 0
    assert load.answered >= clients
    # Two queries are answered at a time; the clients beyond these and the queue are refused.
    assert (load.refused > 0) == (clients > queue + 2)
    assert load.afterwards == http_load.LONE
    assert load.memory_after - load.memory_before < 64
    assert exit_code == 143


@pytest.mark.full
@pytest.mark.parametrize(("clients", "queue"), [(8, 64), (50, 64), (50, 10)])
def test_a_minute_of_load(http_load: ModuleType, clients: int, queue: int) -> None:
    check(http_load, clients, queue, seconds=60.0)
