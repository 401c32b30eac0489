"""Check the arguments that users pass to the library's methods.

A value of the wrong type raises :class:`UsageError`, whose message shows the value.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path

from branchrank.core.errors import UsageError, or_else

_SHOWN = 60


def text(name: str, value: object, example: str = "how do I ...") -> str:
    """Return the value if it is a string, and raise :class:`UsageError` otherwise."""
    if isinstance(value, str):
        return value
    raise _wrong(name, value, "a string", f'{name}="{example}"')


def texts(name: str, value: object, example: str) -> tuple[str, ...]:
    """Convert one string or an iterable of strings to a tuple of strings."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        found = tuple(value)
        if all(isinstance(each, str) for each in found):
            return found
    raise _wrong(name, value, "a string or a list of strings", f'{name}=["{example}"]')


def count(name: str, value: object, example: int = 5) -> int:
    """Return the value if it is an integer of at least 1, and raise :class:`UsageError` otherwise."""
    remedy = f"{name}={example}"
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise _wrong(name, value, "a whole number", remedy)
    number = operator.index(value)
    if number < 1:
        raise UsageError(f"{name} = {number}; at least 1", remedy=remedy)
    return number


def path(name: str, value: object) -> Path:
    """Return the value as a :class:`Path`, and raise :class:`UsageError` if it is not a path or a string."""
    if isinstance(value, str | PathLike):
        return Path(value)
    raise _wrong(name, value, "a path", f'{name}="path/to/it"')


def one_of(name: str, value: object, choices: Sequence[str]) -> str:
    """Return the value if it is one of ``choices``, and raise :class:`UsageError` otherwise."""
    if value in choices:
        return str(value)
    raise UsageError(
        f"{name} = {_shown(value)}{or_else(str(value), choices)}", remedy=f'{name}="{choices[0]}"'
    )


def _wrong(name: str, value: object, wanted: str, remedy: str) -> UsageError:
    return UsageError(
        f"{name} must be {wanted}, not {_shown(value)} of type {type(value).__name__}", remedy=remedy
    )


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "..."
