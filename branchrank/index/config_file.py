"""Read and update ``branchrank.toml``, the configuration file of a workspace."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

import msgspec

from branchrank.errors import UsageError, or_else
from branchrank.io.files import write_text
from branchrank.records import Record
from branchrank.settings import PARTS, read_toml

_SECTIONS = frozenset(part.section for part in PARTS)


class WorkspaceConfig(Record, frozen=True, kw_only=True):
    """The top-level keys of ``branchrank.toml``. Paths are relative to the folder of ``branchrank.toml``.

    ``corpus`` is a folder or a corpus name. ``exclude`` contains glob patterns for documents to leave out.
    ``questions`` is the path of the question file. ``chunks`` and ``nodes`` are the paths of the user's own
    files, which replace the chunks and nodes computed by a build. ``adoption`` is the path of the record that
    ``branchrank adopt`` wrote.
    """

    corpus: str = ""
    exclude: tuple[str, ...] = ()
    questions: str = "benchmark/questions.jsonl"
    chunks: str = ""
    nodes: str = ""
    adoption: str = ""


def read_config(path: Path) -> tuple[WorkspaceConfig, dict[str, Any]]:
    """Read the top-level keys and the tables of settings in ``branchrank.toml``.

    Raises :class:`UsageError` for unknown keys and invalid values.
    """
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
    """Set keys such as ``corpus`` or ``index.embedder`` in ``branchrank.toml``, atomically.

    Comments, all other keys and the order of the keys are kept. Raises :class:`UsageError` if ``path`` is not
    valid TOML, or if a section that contains a key, such as the section ``index``, is not a table. Raises
    :class:`~branchrank.errors.StorageError` if the file can't be written.
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
