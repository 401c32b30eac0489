"""``branchrank.toml``: what a workspace indexes, and how the commands change it."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

import msgspec

from branchrank.artifacts import write_text
from branchrank.errors import UsageError, or_else
from branchrank.records import Record
from branchrank.settings import PARTS, read_toml

_SECTIONS = frozenset(part.section for part in PARTS)


class WorkspaceConfig(Record, frozen=True, kw_only=True):
    """The keys of ``branchrank.toml`` outside its tables of settings.

    ``corpus`` is a folder (relative to the file's own) or a corpus's name; ``exclude`` are glob patterns of
    sources left out; ``questions`` is the question file (default ``benchmark/questions.jsonl``); ``chunks``
    and ``nodes`` are the user's own files, used instead of those that the index would make; ``adoption`` is
    the record that ``branchrank adopt`` wrote about them.
    """

    corpus: str = ""
    exclude: tuple[str, ...] = ()
    questions: str = "benchmark/questions.jsonl"
    chunks: str = ""
    nodes: str = ""
    adoption: str = ""


def read_config(path: Path) -> tuple[WorkspaceConfig, dict[str, Any]]:
    """The workspace's own keys, and the tables of settings. Raises :class:`UsageError` for unknown keys."""
    content = read_toml(path)
    own = {key: value for key, value in content.items() if key not in _SECTIONS}
    remedy = f"correct {path}"
    unknown = [key for key in own if key not in WorkspaceConfig.__struct_fields__]
    if unknown:
        known = [*WorkspaceConfig.__struct_fields__, *sorted(_SECTIONS)]
        raise UsageError(
            "\n".join(f"{path} has no key {key!r}{or_else(key, known)}" for key in unknown), remedy=remedy
        )
    try:
        config = msgspec.convert(own, WorkspaceConfig)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {error}", remedy=remedy) from None
    return config, {key: value for key, value in content.items() if key in _SECTIONS}


def update_config(path: Path, changes: Mapping[str, object]) -> None:
    """Set keys of the file, atomically: ``corpus``, ``index.embedder`` and so on.

    Comments, order and other keys are kept. Raises :class:`UsageError` when the file is not TOML or a key's
    table is another value, and :class:`~branchrank.errors.StorageError` when the disk refuses.
    """
    import tomlkit

    before = read_toml(path)
    document = tomlkit.parse(path.read_text(encoding="utf-8") if path.exists() else "")
    for key, value in changes.items():
        table, _, name = key.rpartition(".")
        if table and table not in document:
            document[table] = tomlkit.table()
        target = document[table] if table else document
        if not isinstance(target, MutableMapping):
            raise UsageError(f"{path}: {table} must be a table", remedy=f"correct {path}")
        wanted = list(value) if isinstance(value, tuple) else value
        if name not in target or target[name] != wanted:
            target[name] = wanted
    if not path.exists() or document.unwrap() != before:
        write_text(path, tomlkit.dumps(document))
