"""Work that every benchmark does again, left out in tests: checks of plots, and what is installed."""

from __future__ import annotations

import importlib.metadata
import sys
from functools import cache
from typing import Any


class _Like(type):
    def __instancecheck__(cls, value: object) -> bool:
        return hasattr(value, "_schema") and hasattr(value, "to_dict")


class _SchemaLike(metaclass=_Like):
    """What Altair's protocol of this name accepts; the protocol's own check is a quarter of a plot's time."""


def lighten() -> None:
    """Read the version of each package once, and make plots without Altair's checks of each part."""
    importlib.metadata.version = _version
    schemas: Any = sys.modules.get("altair.utils.schemapi")
    if schemas:
        schemas.DEBUG_MODE, schemas.SchemaLike = False, _SchemaLike


_version = cache(importlib.metadata.version)
