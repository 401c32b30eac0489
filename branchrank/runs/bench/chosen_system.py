"""A system of a run as the default system of a workspace, in tables of ``branchrank.toml``.

1. The table ``[system]`` has the values of the system that are not defaults.
2. The settings of its index, and of BM25, grep and Qdrant if the system uses them, are those of the run. Only
   settings that differ from the workspace's are written.
3. A run may come from another person. Hosts, models and files that the workspace does not name already are
   written only if the user trusts the run.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec

from branchrank.core.errors import RunError, UsageError, or_else
from branchrank.core.io.printable import value_to_show
from branchrank.core.records import Record
from branchrank.core.settings import (
    DEFAULT_DATA_DIR,
    BenchmarkSettings,
    Bm25Settings,
    GrepSettings,
    IndexSettings,
    QdrantSettings,
    reaching_settings,
)
from branchrank.index.embedders import is_bundled
from branchrank.index.workspace_folder import CONFIG, WorkspaceFolder, check_chunker_name, update_config
from branchrank.runs.bench.resume import RunAccess, with_reached
from branchrank.runs.directory import RunRecord


class ChosenSystem(Record, frozen=True, kw_only=True):
    """A system and the keys of ``branchrank.toml`` that make it the default of the workspace ``data_dir``.

    ``replaces`` is the name of the workspace's default system so far, or "". ``reached`` are the hosts,
    models and files of the system that the workspace does not name, unless the run is trusted.
    """

    name: str
    data_dir: Path
    changes: dict[str, Any]
    replaces: str
    reached: tuple[str, ...]

    @property
    def toml(self) -> str:
        """The tables that :meth:`write` sets."""
        import tomlkit

        tables: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        for key, value in self.changes.items():
            section, _, name = key.partition(".")
            tables[section] |= {name: value} if name else value
        return tomlkit.dumps({name: table for name, table in tables.items() if table})

    def write(self) -> None:
        """Write the tables to ``branchrank.toml``, and leave everything else in it unchanged.

        Raises :class:`RunError` if :attr:`reached` is not empty, and
        :class:`~branchrank.core.errors.CorpusError` if the folder is not a workspace.
        """
        path = self.data_dir / CONFIG
        if self.reached:
            listed = "\n".join(f"  - {each}" for each in self.reached)
            raise RunError(
                f"the run names what {path} does not:\n{listed}",
                remedy="if you trust this run, add --trust to the command",
            )
        WorkspaceFolder.open(self.data_dir).check_exists()
        check_chunker_name(path, str(self.changes.get("index.chunker", "")))
        update_config(path, self.changes)


def chosen_system(run: RunRecord, name: str, access: RunAccess) -> ChosenSystem:
    """Return the system called ``name`` of a run, for the run's workspace or that of ``access``.

    Raises :class:`UsageError` if the predictor is unknown, not a system, or uses several indexes.
    """
    known = {each.name: each for each in run.predictors}
    if name not in known:
        raise UsageError(f"the run has no predictor {name!r}{or_else(name, known)}")
    system, index = known[name].system, run.index_settings.get(known[name].index, {})
    if system is None or system.other_indexes:
        why = "is not a system of BranchRank" if system is None else "searches several indexes"
        raise UsageError(
            f"{name} {why}, so {CONFIG} can't hold it", remedy="choose a system with --predictor"
        )
    folder = WorkspaceFolder.open(access.data_dir or Path(run.data_dir), environment={})
    recorded = run.settings
    tables = {
        IndexSettings.section: msgspec.to_builtins(msgspec.convert(index, IndexSettings)),
        Bm25Settings.section: index.get(Bm25Settings.section, recorded[Bm25Settings.section]),
    }
    kinds = {branch.kind.partition("-")[0] for branch in system.branches}
    tables |= {kind: recorded[kind] for kind in kinds & {GrepSettings.section, QdrantSettings.section}}
    if GrepSettings.section in kinds:
        lines = recorded[BenchmarkSettings.section].get("passage_lines")
        tables[BenchmarkSettings.section] = {"passage_lines": lines}
    changes: dict[str, Any] = {}
    for part in folder.settings.parts.values():
        for key, value in tables.get(part.section, {}).items():
            mine = getattr(part, key, value)
            shown = value_to_show(key, mine) if isinstance(mine, str) else mine  # a run has no credentials
            if key not in getattr(part, "aliases", ()) and shown != value:
                changes[f"{part.section}.{key}"] = value
    reaching = reaching_settings()
    own = {str(getattr(folder.settings.parts[each.section], each.name)) for each in reaching.values()}
    reached: dict[str, None] = {}

    def reach(kind: str, value: str) -> str:
        if value and value not in own and not is_bundled(value):
            reached[f"{kind} {value}"] = None
        return value

    if access.data_dir is None and Path(run.data_dir).absolute() != DEFAULT_DATA_DIR.absolute():
        reach("workspace", run.data_dir)
    for key in changes.keys() & reaching.keys():
        reach(reaching[key].reaches, str(changes[key] or ""))
    with_reached(system, reach)
    return ChosenSystem(
        name=name,
        data_dir=folder.data_dir,
        changes={**changes, "system": _table(system)},
        replaces=folder.config.system.name if folder.config.system else "",
        reached=() if access.trust else tuple(reached),
    )


def _table(value: Any) -> Any:
    """Return a record as a table without the values that are defaults."""
    if isinstance(value, Record):
        fields = msgspec.structs.fields(value)
        every = ((each, getattr(value, each.name)) for each in fields)
        return {each.name: _table(held) for each, held in every if held != each.default and held != {}}
    return [_table(each) for each in value] if isinstance(value, tuple) else value
