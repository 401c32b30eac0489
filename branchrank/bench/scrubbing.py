"""Taking credentials out of what a run records of its own command and settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from branchrank.llm.secrets import hide_credentials
from branchrank.records import Record

R = TypeVar("R", bound=Record)


def scrubbed(record: R, environment: Mapping[str, str]) -> R:
    """The record without the environment's keys and without credentials in the URLs of its strings."""
    return msgspec.convert(_scrubbed(msgspec.to_builtins(record), environment), type(record))


def _scrubbed(value: Any, environment: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return hide_credentials(value, environment)
    if isinstance(value, dict):
        return {key: _scrubbed(item, environment) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_scrubbed(item, environment) for item in value]
    return value
