"""``branchrank.toml``: what a workspace indexes, and how the commands change it.

1. A change edits the lines of the keys that change; comments, order and other keys stay.
2. The result is parsed before it is written: if it doesn't say what it should (a value that spans lines,
   an inline table), the file is left as it is and the person is told what to write.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from branchrank.artifacts import write_text
from branchrank.errors import UsageError
from branchrank.records import Record
from branchrank.settings import PARTS, read_toml

_SECTIONS = frozenset(part.section for part in PARTS)
_TABLE = re.compile(r"\s*\[")


class WorkspaceConfig(Record, frozen=True, kw_only=True):
    """The keys of ``branchrank.toml`` outside its tables of settings.

    ``corpus`` is a folder (relative to the file's own) or a corpus's name; ``exclude`` are glob patterns of
    sources left out; ``questions`` is the question file (default ``benchmark/questions.jsonl``); ``chunks``
    and ``nodes`` are files of the user's own to use in place of those that the index would make.
    """

    corpus: str = ""
    exclude: tuple[str, ...] = ()
    questions: str = "benchmark/questions.jsonl"
    chunks: str = ""
    nodes: str = ""


def read_config(path: Path) -> tuple[WorkspaceConfig, dict[str, Any]]:
    """The workspace's own keys, and the tables of settings. Raises :class:`UsageError` for unknown keys."""
    content = read_toml(path)
    own = {key: value for key, value in content.items() if key not in _SECTIONS}
    remedy = f"correct {path}"
    unknown = [key for key in own if key not in WorkspaceConfig.__struct_fields__]
    if unknown:
        known = ", ".join([*WorkspaceConfig.__struct_fields__, *(f"[{name}]" for name in sorted(_SECTIONS))])
        names = ", ".join(repr(key) for key in unknown)
        raise UsageError(f"{path} has no key {names}; there are {known}", remedy=remedy)
    try:
        config = msgspec.convert(own, WorkspaceConfig)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {error}", remedy=remedy) from None
    return config, {key: value for key, value in content.items() if key in _SECTIONS}


def update_config(path: Path, changes: Mapping[str, object]) -> None:
    """Set keys of the file, atomically: ``corpus``, ``index.embedder`` and so on.

    Raises :class:`UsageError` when a key can't be changed in place, and
    :class:`~branchrank.errors.StorageError` when the disk refuses.
    """
    before = read_toml(path)
    expected = {key: dict(value) if isinstance(value, dict) else value for key, value in before.items()}
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    for key, value in changes.items():
        table, _, name = key.rpartition(".")
        target = expected.setdefault(table, {}) if table else expected
        target[name] = list(value) if isinstance(value, tuple) else value
        text = _with_value(text, table, name, _literal(value))
    if expected == before and path.exists():
        return
    try:
        agrees = tomllib.loads(text) == expected
    except tomllib.TOMLDecodeError:
        agrees = False
    if not agrees:
        wanted = "; ".join(f"{key} = {_literal(value)}" for key, value in changes.items())
        raise UsageError(f"cannot change {path} in place", remedy=f"write into it: {wanted}")
    write_text(path, text)


def _literal(value: object) -> str:
    """A TOML literal of a string, number, truth value or list of strings (JSON's are TOML's)."""
    return msgspec.json.encode(value).decode("utf-8").replace("\x7f", "\\u007f")


def _with_value(text: str, table: str, name: str, literal: str) -> str:
    """The text with ``name = literal`` in its table, replacing the line that sets it."""
    lines = text.splitlines()
    start = 0
    if table:
        header = re.compile(rf"\s*\[\s*{re.escape(table)}\s*\]")
        start = next((number for number, line in enumerate(lines, 1) if header.match(line)), -1)
        if start < 0:
            lines += ["", f"[{table}]"] if lines else [f"[{table}]"]
            start = len(lines)
    end = next((number for number in range(start, len(lines)) if _TABLE.match(lines[number])), len(lines))
    setting = re.compile(rf"\s*{re.escape(name)}\s*=")
    assignment = f"{name} = {literal}"
    for number in range(start, end):
        if setting.match(lines[number]):
            lines[number] = assignment
            break
    else:
        while end > start and not lines[end - 1].strip():
            end -= 1
        lines.insert(end, assignment)
    return "\n".join(lines) + "\n"
