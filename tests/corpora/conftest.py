"""Whole documentation sets are read only when asked for: ``pytest -m corpora tests/corpora``."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "corpora" in config.getoption("markexpr"):
        return
    left_out = [item for item in items if item.get_closest_marker("corpora")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("corpora")]
