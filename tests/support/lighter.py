"""Work that every benchmark and report does again, done once or left out in tests.

Versions of packages are read once, equal intervals are computed once, and plots are made without
Altair's checks of each part.
"""

from __future__ import annotations

import importlib.metadata
import sys
from functools import cache
from typing import Any

from numpy import asarray


class _Like(type):
    def __instancecheck__(cls, value: object) -> bool:
        return hasattr(value, "_schema") and hasattr(value, "to_dict")


class _SchemaLike(metaclass=_Like):
    """What Altair's protocol of this name accepts; the protocol's own check is a quarter of a plot's time."""


def lighten() -> None:
    """Let the modules that are loaded by now work like this."""
    importlib.metadata.version = _version
    schemas: Any = sys.modules.get("altair.utils.schemapi")
    if schemas:
        schemas.DEBUG_MODE, schemas.SchemaLike = False, _SchemaLike
    tests: Any = sys.modules.get("branchrank.scoring.significance")
    if tests and not hasattr(tests.FlipTest.interval, "original"):
        tests.FlipTest.interval = _remembered(tests.FlipTest.interval)


_version = cache(importlib.metadata.version)


def _remembered(original: Any) -> Any:
    """The interval of a test, computed once for equal samples."""
    known: dict[tuple[object, ...], Any] = {}

    def interval(test: Any, alpha: float) -> Any:
        sample = (asarray(part).tobytes() for part in test._totals)
        key = (alpha, test._asked, test._seed, test._draws, test.mean, *sample)
        if key not in known:
            known[key] = original(test, alpha)
        return known[key]

    interval.original = original  # type: ignore[attr-defined]
    return interval
