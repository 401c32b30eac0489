"""Read experiment files, in which TOML tables define named systems and named indexes.

1. The key ``from`` in a system's table is the name of the system to inherit from. If a table has no ``from``
   and has the name of a built-in system, the table inherits from this system, unless the table lists its own
   branches. A system that does not inherit must define all its values.
2. A system's own values override the inherited values. ``branches.dense.top_n = 80`` changes one value of the
   dense branch, and a list ``branches = [...]`` replaces all branches.
3. A ``sweep`` defines one system for each combination of its values, with a name such as ``name[rrf_k=10]``.
4. All problems in the file are reported together, before any work starts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from branchrank.bench.plan import DEFAULT_INDEX, Plan, PlannedSystem, with_depth
from branchrank.errors import UsageError, nearest_path, or_else
from branchrank.index.workspace_folder import read_config
from branchrank.measures.measures import measure_names, named_measure
from branchrank.records import Record
from branchrank.runs.comparisons import ALL_PAIRS
from branchrank.settings import (
    ALIASES,
    BenchmarkSettings,
    Bm25Settings,
    LLMSettings,
    Resolved,
    SystemSettings,
    read_toml,
    resolve,
)
from branchrank.settings.fields import explained, laid_over
from branchrank.spec import System
from branchrank.systems.builtin import BUILTIN
from branchrank.systems.checks import problems

#: Keys of a system's table that are not fields of the system.
_OWN_KEYS = ("from", "index", "sweep", "origin")
#: The prefix of each problem in an error message that lists several problems.
BULLET = "  - "

T = TypeVar("T")


class _Header(Record, frozen=True, kw_only=True):
    name: str = ""
    data_dir: str = "data"
    questions: str = ""
    split: str = ""
    repeats: int | None = None
    systems: dict[str, Any] = msgspec.field(default_factory=dict)
    indexes: dict[str, Any] = msgspec.field(default_factory=dict)
    benchmark: dict[str, Any] = msgspec.field(default_factory=dict)


def plan_from_experiment(path: Path, flags: Mapping[str, Any] | None = None, **fields: Any) -> Plan:
    """Make a plan from an experiment file. Relative paths are relative to the working directory.

    ``flags`` maps ``"section.name"`` to settings that override the file's settings. ``fields`` sets other
    fields of :class:`Plan`, such as ``reports``. Raises one :class:`UsageError` that lists every problem in
    the file.
    """
    if not path.is_file():
        raise UsageError(
            f"there is no experiment file {path}{nearest_path(path)}", remedy="branchrank run EXPERIMENT.toml"
        )
    found: list[str] = []
    header = _header(read_toml(path), found)
    config = _attempt(found, lambda: read_config(Path(header.data_dir) / "branchrank.toml"))
    if config is None:
        raise _refused(path, found)
    toml = _over(config[1], "benchmark", header.benchmark)
    settings = _attempt(found, lambda: resolve(toml=toml, toml_name=str(path), flags=flags))
    if settings is None:  # The rest of the file is checked with the valid values of its own table.
        own = header.benchmark.items()
        settings = _benchmark({k: v for k, v in own if _attempt([], partial(_benchmark, {k: v}))})
        toml = {}
    reader = _Systems(header.systems, settings, found)
    systems = reader.all()
    indexes = _indexes(header.indexes, toml, found)
    repeats = settings.part(LLMSettings).repeats
    if header.repeats is not None and "llm.repeats" not in (flags or {}):
        repeats = header.repeats
    if repeats < 1:
        found.append(f"repeats = {repeats}; must be at least 1")
    for named in systems:
        if named.index not in (DEFAULT_INDEX, *header.indexes):
            found.append(
                f"system {named.system.name!r} uses the index {named.index!r}, which is not in [indexes]"
                + or_else(named.index, [DEFAULT_INDEX, *header.indexes])
            )
        found.extend(problems(named.system))
    found.extend(_declared(settings, [named.system.name for named in systems], reader.failed))
    if found:
        raise _refused(path, found)
    used = {named.index for named in systems}
    return Plan(
        data_dir=Path(header.data_dir),
        settings=with_depth(settings),
        predictors=tuple(systems),
        indexes={name: each for name, each in indexes.items() if name in used},
        questions=Path(header.questions) if header.questions else None,
        experiment=header.name,
        split=header.split,
        repeats=repeats,
        **fields,
    )


def _refused(path: Path, found: Sequence[str]) -> UsageError:
    each = list(dict.fromkeys(found))
    count = "1 problem" if len(each) == 1 else f"{len(each)} problems"
    return UsageError(
        f"{path} has {count}:\n" + "\n".join(BULLET + problem for problem in each),
        remedy=f"correct {path}",
    )


def _header(content: Mapping[str, Any], found: list[str]) -> _Header:
    """Check each top-level key of the file separately; an invalid value is replaced by the default."""
    fields = {field.name: field for field in msgspec.structs.fields(_Header)}
    unknown = [key for key in content if key not in fields]
    found.extend(f"unknown key {key!r}{or_else(key, fields)}" for key in unknown)
    values: dict[str, Any] = {}
    for key in (key for key in content if key in fields):
        try:
            values[key] = msgspec.convert(content[key], fields[key].type)
        except msgspec.ValidationError as error:
            found.append(f"{key} = {content[key]!r}: {error}")
    if not str(content.get("name", "")).strip():
        found.append('the experiment has no name: write name = "..."')
    if not content.get("systems", {}) and "systems" not in unknown:
        found.append("the experiment has no systems: add a table [systems.NAME]")
    for section in ("systems", "indexes"):
        tables = values.get(section, {})
        found.extend(
            f"[{section}] {name} must be a table, not {table!r}"
            for name, table in tables.items()
            if not isinstance(table, Mapping)
        )
        values[section] = {name: table for name, table in tables.items() if isinstance(table, Mapping)}
    questions = values.get("questions", "")
    if questions and not Path(questions).is_file():
        found.append(f"the question file {questions} does not exist")
    return _Header(**values)


def _attempt(found: list[str], make: Callable[[], T]) -> T | None:
    """Return the result of ``make()``, or add the problems of its :class:`UsageError` to ``found``."""
    try:
        return make()
    except UsageError as error:
        listed = [line for line in error.message.splitlines() if line.startswith(BULLET)]
        found.extend([line.removeprefix(BULLET) for line in listed] or [error.message])
        return None


def _benchmark(table: Mapping[str, Any]) -> Resolved:
    """Return the settings with a table ``[benchmark]`` alone."""
    return resolve(toml={BenchmarkSettings.section: table}, environment={})


def _over(toml: Mapping[str, Any], section: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the TOML settings ``toml`` with ``table`` merged into the table at the key ``section``."""
    below = toml.get(section, {})
    return {**toml, section: {**below, **table} if isinstance(below, Mapping) else below}


def _declared(settings: Resolved, names: Sequence[str], failed: Sequence[str]) -> list[str]:
    """List the problems with the primary measure, the other measures and the baseline."""
    part = settings.part(BenchmarkSettings)
    found: list[str] = []
    for key, names_of in (("primary", [part.primary]), ("measures", measure_names(part.measures))):
        for name in names_of:
            try:
                named_measure(name)
            except UsageError as error:
                found.append(f"{key}: {error.message}; {error.remedy}")
    declared = (part.baseline,) if isinstance(part.baseline, str) else part.baseline
    for baseline in declared if names or failed else ():
        # The systems in an invalid sweep are unknown, so only the sweep's name before "[" is checked.
        there = baseline in ("", ALL_PAIRS, *names) or baseline.partition("[")[0] in failed
        if not there:
            found.append(
                f"the baseline {baseline!r} is not a system in this file"
                + or_else(baseline, [*names, *failed])
            )
    return found


def _indexes(
    tables: Mapping[str, Mapping[str, Any]], toml: Mapping[str, Any], found: list[str]
) -> dict[str, Resolved]:
    """Return the settings of the default index and of each index in the file."""
    made: dict[str, Resolved] = {}
    named: dict[str, Mapping[str, Any]] = {DEFAULT_INDEX: {}, **tables}
    for name, table in named.items():
        own = {key: value for key, value in table.items() if key != Bm25Settings.section}
        layered = _over(toml, "index", own)
        words = table.get(Bm25Settings.section, {})
        if not isinstance(words, Mapping):
            found.append(f"[indexes.{name}] {Bm25Settings.section} must be a table, not {words!r}")
            continue
        layered = _over(layered, Bm25Settings.section, words)
        resolved = _attempt(found, partial(resolve, toml=layered, toml_name=f"[indexes.{name}]"))
        if resolved is not None:
            made[name] = resolved
    return made


class _Systems:
    """The systems in an experiment file. ``failed`` contains the names of systems that could not be read."""

    def __init__(self, tables: Mapping[str, Mapping[str, Any]], settings: Resolved, found: list[str]) -> None:
        self.tables = tables
        self.settings = settings
        self.found = found
        self.failed: list[str] = []

    def all(self) -> list[PlannedSystem]:
        """Return all systems, including one system for each combination of values in a sweep."""
        made: list[PlannedSystem] = []
        for name in self.tables:
            named = self._named(name)
            made += named
            if not named:
                self.failed.append(name)
        return made

    def _named(self, name: str) -> list[PlannedSystem]:
        """Return the systems that a table defines, or an empty list if any of these systems is invalid."""
        base, table = self._base(name), self.tables[name]
        if base is None:
            return []
        origin, sweep = table.get("origin", ""), table.get("sweep", {})
        if origin not in ("", "tuned"):
            self.found.append(f'[systems.{name}] origin = {origin!r}; use "tuned", or remove it')
            return []
        if not isinstance(sweep, Mapping) or [] in sweep.values():
            self.found.append(f"[systems.{name}] sweep needs at least one value for each name: {sweep!r}")
            return []
        lists = [values if isinstance(values, list) else [values] for values in sweep.values()]
        made = []
        wrong: list[str] = []
        for values in itertools.product(*lists):
            point = dict(zip(sweep, values, strict=True))
            label = ", ".join(f"{key}={value}" for key, value in point.items())
            shown = f"{name}[{label}]" if label else name
            try:
                system = self._swept(name, shown, base, point)
                index = str(table.get("index", DEFAULT_INDEX))
                made.append(PlannedSystem(system=system, index=index, origin=origin))
            except (msgspec.ValidationError, ValueError) as error:
                wrong += [f"[systems.{name}] sweep: {each}" for each in _wrong(base, point)] or [
                    f"[systems.{shown}] {error}"
                ]
        self.found.extend(wrong)
        return [] if wrong else made

    def _swept(self, name: str, shown: str, base: Mapping[str, Any], point: Mapping[str, Any]) -> System:
        """Return the system for one combination (``point``) of a sweep's values.

        If ``point`` sets an LLM endpoint, the LLM stages of a built-in system are switched on.
        """
        swept = _laid_over({**base, "name": shown}, point)
        endpoint = swept.get("llm", {}).get("base_url", "") if isinstance(swept.get("llm"), Mapping) else ""
        asking = self._base(name, endpoint=endpoint) if endpoint else None
        if asking is not None:
            swept = _laid_over({**asking, "name": shown}, point)
        return msgspec.convert(swept, System)

    def _base(self, name: str, above: tuple[str, ...] = (), endpoint: str = "") -> dict[str, Any] | None:
        """Return the system's table with inherited values, or ``None`` if the table has problems."""
        if name in above:
            around = above[above.index(name) :]  # from the first name, so that each circle is reported once
            start = around.index(min(around))
            shown = " -> ".join([*around[start:], *around[:start], around[start]])
            self.found.append(f"[systems.{around[start]}] inherits from itself: {shown}")
            return None
        table = self.tables.get(name)
        starts = name if name in BUILTIN and not isinstance((table or {}).get("branches"), list) else ""
        parent = table.get("from", starts) if table is not None else ""
        inherited: dict[str, Any] | None = {}
        if table is None or parent == name:
            if name not in BUILTIN:
                problem = f"unknown system {name!r}{or_else(name, [*BUILTIN, *self.tables])}"
                self.found.append(problem if table is None else f"[systems.{name}] inherits from itself")
                return None
            inherited = msgspec.to_builtins(BUILTIN[name](_with_endpoint(self.settings, name, endpoint)))
        elif parent:
            inherited = self._base(str(parent), (*above, name), endpoint)
        elif "branches" not in table:
            near = or_else(name, BUILTIN)
            self.found.append(f"[systems.{name}] has neither branches nor `from = NAME`{near}")
            return None
        if inherited is None or table is None:
            return inherited
        own = {key: value for key, value in table.items() if key not in _OWN_KEYS}
        wrong = _wrong(inherited, own)
        self.found.extend(f"[systems.{name}] {each}" for each in wrong)
        return None if wrong else _laid_over(inherited, own)


def _with_endpoint(settings: Resolved, section: str, endpoint: str) -> Resolved:
    """Set the LLM endpoint in the settings of a built-in system, if the system can use an LLM."""
    part = settings.parts.get(section)
    if not endpoint or not isinstance(part, SystemSettings) or "base_url" not in part.aliases:
        return settings
    return settings.with_parts(msgspec.structs.replace(part, base_url=endpoint))


def _wrong(inherited: Mapping[str, Any], own: Mapping[str, Any]) -> list[str]:
    """List the problems with the keys of a system's own table, checking each key separately."""
    found = []
    for key, value in own.items():
        try:
            # A system that inherits nothing has no name and no branches yet.
            msgspec.convert(_laid_over({"name": "", "branches": [], **inherited}, {key: value}), System)
        except msgspec.ValidationError as error:
            found.append(explained(error, more=[*ALIASES, *_OWN_KEYS]))
        except ValueError as error:
            found.append(str(error))
    return found


def _laid_over(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Apply :func:`laid_over` after replacing short names (``rrf_k``) with field paths (``fuse.k``)."""
    # Only top-level keys can be short names. The keys of nested tables are always field names.
    return laid_over(base, {ALIASES.get(key, key): value for key, value in changes.items()})
