"""Experiment files: named systems over named indexes, read from TOML and checked whole.

1. Every system starts from another (``from``), built-in or of the file, or from nothing.
   A system that bears a built-in name and gives no branches starts from that one.
2. Its own tables are laid over: ``fuse.k = 10``; ``branches.dense.top_n = 80`` changes the dense
   branch, and a list ``branches = [...]`` replaces them all.
3. A ``sweep`` makes one system for each combination of its values, named ``name[rrf_k=10]``.
4. Every problem of the file is reported at once, before any work.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from branchrank.bench.scores import named_measure
from branchrank.errors import UsageError
from branchrank.records import Record
from branchrank.settings import BenchmarkSettings, LLMSettings, Resolved, read_toml, resolve
from branchrank.stores.config_file import read_config
from branchrank.systems.builtin import BUILTIN
from branchrank.systems.spec import System, problems

#: Short names that a sweep or a system may use for an address of a slot.
SHORT = {
    "rrf_k": "fuse.k",
    "candidate_cap": "fuse.cap",
    "vector_top_n": "branches.dense.top_n",
    "bm25_top_n": "branches.bm25.top_n",
    "vector_weight": "branches.dense.weight",
    "bm25_weight": "branches.bm25.weight",
    "neighbor_depth": "branches.dense.expand.depth",
    "siblings": "branches.dense.expand.siblings",
    "file_roots": "branches.dense.expand.file_roots",
    "beam": "branches.tree.tree.beam",
    "base_url": "llm.base_url",
    "model": "llm.model",
}
DEFAULT_INDEX = "default"


class NamedSystem(Record, frozen=True, kw_only=True):
    """A system of an experiment and the index that it runs on."""

    system: System
    index: str = DEFAULT_INDEX


class Experiment(Record, frozen=True, kw_only=True):
    """A whole experiment, checked. Paths are as the file gives them, relative to the working directory."""

    name: str
    data_dir: Path
    questions: Path | None
    split: str
    systems: tuple[NamedSystem, ...]
    indexes: dict[str, Resolved]
    repeats: int
    settings: Resolved


class _Header(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    data_dir: str = "data"
    questions: str = ""
    split: str = ""
    repeats: int | None = None
    systems: dict[str, dict[str, Any]]
    indexes: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    benchmark: dict[str, Any] = msgspec.field(default_factory=dict)


def load_experiment(path: Path, flags: Mapping[str, Any] | None = None) -> Experiment:
    """Read an experiment file. Raises one :class:`UsageError` with every problem of it."""
    if not path.is_file():
        raise UsageError(f"there is no experiment file {path}", remedy="branchrank run EXPERIMENT.toml")
    try:
        header = msgspec.convert(read_toml(path), _Header)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {error}", remedy=f"correct {path}") from None
    found: list[str] = []
    _, toml = read_config(Path(header.data_dir) / "branchrank.toml")
    toml["benchmark"] = {**toml.get("benchmark", {}), **header.benchmark}
    settings = _attempt(found, lambda: resolve(toml=toml, toml_name=str(path), flags=flags))
    if settings is None:
        raise UsageError("\n".join(found), remedy=f"correct {path}")
    systems = _Systems(header.systems, settings, found).all()
    indexes = _indexes(header.indexes, toml, found)
    repeats = settings.part(LLMSettings).repeats
    if header.repeats is not None and "llm.repeats" not in (flags or {}):
        repeats = header.repeats
    if repeats < 1:
        found.append(f"repeats = {repeats}; at least 1")
    for named in systems:
        if named.index not in indexes:
            found.append(
                f"system {named.system.name!r} runs on the index {named.index!r}, which [indexes] lacks"
            )
        found.extend(problems(named.system))
    found.extend(_declared(settings, systems))
    if found:
        raise UsageError(
            f"{path} has {len(found)} problems:\n" + "\n".join(f"  - {problem}" for problem in found),
            remedy=f"correct {path}",
        )
    return Experiment(
        name=header.name,
        data_dir=Path(header.data_dir),
        questions=Path(header.questions) if header.questions else None,
        split=header.split,
        systems=tuple(systems),
        indexes=indexes,
        repeats=repeats,
        settings=settings,
    )


def _attempt(found: list[str], make: Any) -> Any:
    try:
        return make()
    except UsageError as error:
        found.append(error.message)
        return None


def _declared(settings: Resolved, systems: Sequence[NamedSystem]) -> list[str]:
    """Problems of the declared primary measure and baseline."""
    part = settings.part(BenchmarkSettings)
    found: list[str] = []
    _attempt(found, lambda: named_measure(part.primary))
    names = [named.system.name for named in systems]
    if part.baseline and part.baseline not in names:
        found.append(f"the baseline {part.baseline!r} is none of the systems {', '.join(names)}")
    if not names:
        found.append("no system is named: add a table [systems.NAME]")
    return found


def _indexes(
    tables: Mapping[str, Mapping[str, Any]], toml: Mapping[str, Any], found: list[str]
) -> dict[str, Resolved]:
    """The settings of the workspace's own index, and of those of the file, laid over them."""
    made: dict[str, Resolved] = {}
    named: dict[str, Mapping[str, Any]] = {DEFAULT_INDEX: {}, **tables}
    for name, table in named.items():
        layered = {**toml, "index": {**toml.get("index", {}), **table}}
        resolved = _attempt(
            found, lambda layered=layered, name=name: resolve(toml=layered, toml_name=f"[indexes.{name}]")
        )
        if resolved is not None:
            made[name] = resolved
    return made


class _Systems:
    """Reads the systems of a file, each once, in order; collects problems."""

    def __init__(self, tables: Mapping[str, Mapping[str, Any]], settings: Resolved, found: list[str]) -> None:
        self.tables = tables
        self.settings = settings
        self.found = found

    def all(self) -> list[NamedSystem]:
        """Every system, sweeps spelt out."""
        return [named for name in self.tables for named in self._named(name)]

    def _named(self, name: str) -> list[NamedSystem]:
        base = self._base(name, ())
        if base is None:
            return []
        index = self.tables[name].get("index", DEFAULT_INDEX)
        sweep = self.tables[name].get("sweep", {})
        if not isinstance(sweep, Mapping) or [] in sweep.values():
            self.found.append(f"[systems.{name}] sweep must give each name at least one value: {sweep!r}")
            return []
        lists = {key: values if isinstance(values, list) else [values] for key, values in sweep.items()}
        made = []
        for values in itertools.product(*lists.values()):
            point = dict(zip(lists, values, strict=True))
            label = ", ".join(f"{key}={value}" for key, value in point.items())
            shown = f"{name}[{label}]" if label else name
            swept: dict[str, Any] = {**base, "name": shown}
            try:
                for key, value in point.items():
                    swept = laid_over(swept, {key: value})
                made.append(NamedSystem(system=msgspec.convert(swept, System), index=str(index)))
            except (msgspec.ValidationError, ValueError) as error:
                self.found.append(f"[systems.{shown}] {error}")
        return made

    def _base(self, name: str, above: tuple[str, ...]) -> dict[str, Any] | None:
        """The system's table with all that it inherits."""
        if name in above:
            self.found.append(f"[systems.{name}] inherits from itself: {' -> '.join([*above, name])}")
            return None
        table = self.tables.get(name)
        starts = name if name in BUILTIN and not isinstance((table or {}).get("branches"), list) else ""
        parent = table.get("from", starts) if table is not None else ""
        if table is None or parent == name:
            if name not in BUILTIN:
                self.found.append(f"no system is called {name!r}; built in are {', '.join(BUILTIN)}")
                return None
            inherited: dict[str, Any] | None = msgspec.to_builtins(BUILTIN[name](self.settings))
        elif parent:
            inherited = self._base(str(parent), (*above, name))
        else:
            inherited = {}
        if inherited is None or table is None:
            return inherited
        own = {key: value for key, value in table.items() if key not in ("from", "index", "sweep")}
        try:
            return laid_over(inherited, own)
        except ValueError as error:
            self.found.append(f"[systems.{name}] {error}")
            return None


def laid_over(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A system's table with changes: addresses (``fuse.k``, ``rrf_k``) and nested tables alike.

    Branches are addressed by their kind. Raises ``ValueError`` for a branch that isn't there.
    """
    # Only here: within a slot, `file_roots` and the like are the fields themselves.
    return _laid_over(base, {SHORT.get(key, key): value for key, value in changes.items()})


def _laid_over(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in changes.items():
        head, _, rest = key.partition(".")
        if rest:
            result = _laid_over(result, {head: _nested(rest, value)})
        elif head == "branches" and isinstance(value, Mapping):
            result["branches"] = _branches(result.get("branches", []), value)
        elif isinstance(value, Mapping) and isinstance(result.get(head), Mapping):
            result[head] = _laid_over(result[head], value)
        else:
            result[head] = value
    return result


def _nested(address: str, value: object) -> dict[str, Any]:
    head, _, rest = address.partition(".")
    return {head: _nested(rest, value) if rest else value}


def _branches(branches: Sequence[Mapping[str, Any]], changes: Mapping[str, Any]) -> list[dict[str, Any]]:
    if not all(isinstance(branch, Mapping) and "kind" in branch for branch in branches):
        raise ValueError("branches must be a list of tables, each with its kind")
    kinds = [branch["kind"] for branch in branches]
    unknown = [kind for kind in changes if kind not in kinds]
    if unknown:
        raise ValueError(f"there is no branch {unknown[0]!r}; there are {', '.join(kinds) or 'none'}")
    for kind, change in changes.items():
        if not isinstance(change, Mapping):
            raise ValueError(f"branches.{kind} must be a table, not {change!r}")
    return [
        _laid_over(branch, changes[branch["kind"]]) if branch["kind"] in changes else dict(branch)
        for branch in branches
    ]
