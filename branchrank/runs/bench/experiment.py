"""Read experiment files, in which TOML tables define named systems and named indexes.

1. The key ``from`` in a system's table is the name of the system to inherit from. If a table has no ``from``
   and has the name of a built-in system, the table inherits from this system, unless the table lists its own
   branches. A system that does not inherit must define all its values.
2. A system's own values override the inherited values. ``branches.dense.top_n = 80`` changes one value of the
   dense branch, and a list ``branches = [...]`` replaces all branches.
3. A ``sweep`` defines one system for each combination of its values, with a name such as ``name[rrf_k=10]``.
   A ``sweep`` of an index defines one index for each combination, and a system on the index becomes one
   system for each index, such as ``name[rrf_k=10, chunk_tokens=128]``.
4. A table with the key ``predictor`` names a retriever of your own instead: ``module:Class``, a framework's
   (``langchain:module:retriever``), a TREC run file (``trec:FILE``), or ``api`` with an ``endpoint``. A table
   with the key ``command`` names the program of an agent. The code that a file names is reported before it is
   imported or started, and neither is done for a dry run.
5. All problems in the file are reported together, before any work starts.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from branchrank.core.errors import InputError, MissingDependencyError, Problems, UsageError, or_else
from branchrank.core.io.progress import Notify, no_notice
from branchrank.core.records import Record
from branchrank.core.settings import (
    ALIASES,
    DEFAULT_REPORTS,
    BenchmarkSettings,
    Bm25Settings,
    IndexSettings,
    LLMSettings,
    Resolved,
    SystemSettings,
    meant,
    read_toml,
    resolve,
)
from branchrank.core.settings.fields import laid_over
from branchrank.core.spec import AGENT, System
from branchrank.documents.chunkers import check_chunker, is_code
from branchrank.index.embedders import check_name
from branchrank.index.workspace_folder import read_config
from branchrank.runs.bench.command_predictor import AgentCommand, CommandPredictor
from branchrank.runs.bench.plan import (
    Plan,
    PlannedSystem,
    endpoint_predictor,
    outside_predictor,
    planned_system,
    with_depth,
)
from branchrank.runs.bench.predictors import BenchmarkPredictor
from branchrank.runs.comparisons import check_plan
from branchrank.runs.directory import DEFAULT_INDEX, TREC
from branchrank.search.systems.builtin import AGENTS, BUILTIN
from branchrank.search.systems.system_checks import problems

_SWEEP = "sweep"
#: Keys of a system's table that are not fields of the system.
_OWN_KEYS = ("from", "index", _SWEEP, "origin", "tuned_on", "predictor", "command")
#: The number of names that the error about a missing file lists.
_SHOWN = 8

T = TypeVar("T")
#: One value for each name of a sweep.
_Point = dict[str, Any]


class _Header(Record, frozen=True, kw_only=True):
    name: str = ""
    data_dir: str = "data"
    questions: str = ""
    split: str = ""
    repeats: int | None = None
    systems: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    indexes: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    benchmark: dict[str, Any] = msgspec.field(default_factory=dict)


class _Outside(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table of a retriever of the user's own. ``endpoint`` and ``target`` belong to ``api``.

    ``llm`` is the name of the LLM that the retriever uses, or ``none``. ``index`` is the index whose tools a
    class gets.
    """

    predictor: str
    index: str = DEFAULT_INDEX
    endpoint: str = ""
    target: str = ""
    llm: str = ""

    def opened(self, name: str, dry_run: bool) -> BenchmarkPredictor:
        """Return the predictor. Raises :class:`UsageError` if it can't be loaded."""
        if self.index != DEFAULT_INDEX and (self.predictor == "api" or self.predictor.startswith(TREC)):
            raise UsageError("index belongs to a class, which can get the tools of the index")
        if self.predictor == "api" and self.endpoint:
            return endpoint_predictor(self.endpoint, self.target, name, self.llm, from_file=True)
        if self.predictor == "api":
            raise UsageError('predictor = "api" needs endpoint = "http://HOST/retrieve"')
        if self.endpoint or self.target:
            raise UsageError('endpoint and target belong to predictor = "api"')
        if ":" not in self.predictor:
            meant = f'from = "{self.predictor}"' if self.predictor in BUILTIN else '"module:Class"'
            raise UsageError(f"predictor = {self.predictor!r} is not a retriever of your own; write {meant}")
        return outside_predictor(self.predictor, name, self.llm, self.index, dry_run=dry_run)


class _Command(AgentCommand, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table of an agent's command, which gets the tools of the index ``index``."""

    index: str = DEFAULT_INDEX
    llm: str = ""

    def opened(self, name: str, _dry_run: bool) -> BenchmarkPredictor:
        """Return the predictor. Raises :class:`UsageError` if the program can't be started."""
        return CommandPredictor(self, name, self.llm, self.index)


class _Own(Record, frozen=True, kw_only=True):
    """The keys of a system's table that are not fields of the system."""

    parent: str = msgspec.field(default="", name="from")
    index: str = DEFAULT_INDEX
    sweep: dict[str, Any] = msgspec.field(default_factory=dict)
    origin: Literal["", "tuned"] = ""
    tuned_on: str = ""


def plan_from_experiment(
    path: Path,
    flags: Mapping[str, Any] | None = None,
    *,
    reports: Path = DEFAULT_REPORTS,
    name: str = "",
    command: str = "",
    notify: Notify = no_notice,
    dry_run: bool = False,
) -> Plan:
    """Make a plan from an experiment file. Relative paths are relative to the working directory.

    ``flags`` maps ``"section.name"`` to settings that override the file's settings. ``notify`` is called with
    the code that the file names, before the predictors are imported. If ``dry_run`` is true, no code is run,
    and the plan can only be estimated. Raises one :class:`UsageError` that lists every problem in the file.
    """
    if not path.is_file():
        raise _missing(path)
    found: list[str] = []
    fix = f"correct {path}"
    header = _attempt(found, partial(_header, read_toml(path), found))
    if header is None:
        raise _refused(path, found, fix)
    places = (Path(header.data_dir), Path(header.questions))
    if not all(each.exists() for each in places) and all((path.parent / each).exists() for each in places):
        fix = f"change to the folder {path.parent}"
        if command:
            fix = f"cd {shlex.quote(str(path.parent))} && branchrank run {shlex.quote(path.name)}"
        if not places[0].exists():
            found.append(f"there is no workspace {places[0].absolute()}")
    config = _attempt(found, lambda: read_config(Path(header.data_dir) / "branchrank.toml"))
    toml = _over(config[1] if config else {}, "benchmark", header.benchmark)
    settings = _attempt(found, lambda: resolve(toml=toml, toml_name=str(path), flags=flags))
    if settings is None:
        settings, toml = resolve(environment={}), {}
    tables = {DEFAULT_INDEX: {}, **header.indexes}
    points = {name: _attempt(found, partial(_index_points, name, table)) for name, table in tables.items()}
    indexes = {
        _swept(name, point): _attempt(found, partial(_index, name, point, toml, tables[name]))
        for name, each in points.items()
        for point in each or [{}]
    }
    repeats = settings.part(LLMSettings).repeats
    if header.repeats is not None and "llm.repeats" not in (flags or {}):
        repeats = header.repeats
    if code := _code(header, indexes.values()):
        notify(f"{path} names code, which a run executes with your rights: {', '.join(code)}")
    reader = _Systems(header.systems, settings, repeats, points)
    made = {key: _attempt(found, partial(reader.predictors, key, dry_run)) for key in header.systems}
    systems = [system for each in made.values() for system in each or ()]
    for named in systems:
        if isinstance(named, PlannedSystem):
            found += (
                f"system {named.name!r} uses the index {name!r}, which is not in [indexes]"
                + or_else(name, indexes)
                for name in named.indexes
                if name not in indexes
            )
            found.extend(problems(named.system))
    settings = with_depth(settings)
    names = [*(key for key, each in made.items() if each is None), *(named.name for named in systems)]
    _attempt(found, lambda: check_plan(settings.part(BenchmarkSettings), names))
    if found:
        raise _refused(path, found, fix)
    plan = Plan(
        data_dir=Path(header.data_dir),
        settings=settings,
        predictors=tuple(systems),
        questions=Path(header.questions) if header.questions else None,
        experiment=header.name,
        name=name,
        split=header.split,
        reports=reports,
        command=command,
    )
    used = {name: each for name in plan.searched if (each := indexes.get(name)) is not None}
    return msgspec.structs.replace(plan, indexes=used)


def _missing(path: Path) -> UsageError:
    """The error of an experiment file that does not exist, which says what its folder contains."""
    entries = sorted(each.name + "/" * each.is_dir() for each in path.parent.glob("[!.]*"))
    shown = ", ".join([*entries[:_SHOWN], *(["..."] if len(entries) > _SHOWN else [])])
    holds = f"contains {shown or 'no files'}" if path.parent.is_dir() else "does not exist"
    return UsageError(
        f"there is no experiment file {path}; the folder {path.parent.absolute()} {holds}",
        remedy="branchrank run EXPERIMENT.toml, or write an experiment with branchrank init FOLDER",
    )


def _refused(path: Path, found: Sequence[str], remedy: str) -> Problems:
    listed = list(dict.fromkeys(found))
    count = "1 problem" if len(listed) == 1 else f"{len(listed)} problems"
    return Problems(f"{path} has {count}:", listed, remedy=remedy)


def _header(content: Mapping[str, Any], found: list[str]) -> _Header:
    """Read the top-level keys of the file. Raises :class:`UsageError` for a value of the wrong type."""
    known = _Header.__struct_fields__
    found.extend(
        f"unknown key {key!r}{meant(key) or or_else(key, known)}" for key in content if key not in known
    )
    try:
        header = msgspec.convert(content, _Header)
    except msgspec.ValidationError as error:
        raise UsageError(str(error)) from None
    if not header.name.strip():
        found.append('the experiment has no name: write name = "..."')
    if not header.systems:
        found.append("the experiment has no systems: add a table [systems.NAME]")
    if header.questions and not Path(header.questions).is_file():
        found.append(f"the question file {Path(header.questions).absolute()} does not exist")
    if header.repeats is not None and header.repeats < 1:
        found.append(f"repeats = {header.repeats}; must be at least 1")
    return header


def _attempt(found: list[str], make: Callable[[], T]) -> T | None:
    """Return the result of ``make()``, or add the problems of its error to ``found``."""
    try:
        return make()
    except (UsageError, InputError, MissingDependencyError) as error:
        one = "; ".join(filter(None, (error.message, error.remedy)))
        found.extend(error.problems if isinstance(error, Problems) else [one])
        return None


def _over(toml: Mapping[str, Any], section: str, table: Any) -> dict[str, Any]:
    """Return the TOML settings ``toml`` with ``table`` merged into the table at the key ``section``."""
    below = toml.get(section, {})
    whole = isinstance(below, Mapping) and isinstance(table, Mapping)
    return {**toml, section: {**below, **table} if whole else table}


def _index(name: str, point: _Point, toml: Mapping[str, Any], table: Mapping[str, Any]) -> Resolved:
    """Return the settings of an index, which has the settings ``toml`` except for those in its table."""
    own = {key: value for key, value in table.items() if key not in (Bm25Settings.section, _SWEEP)} | point
    words = own.pop(Bm25Settings.section, table.get(Bm25Settings.section, {}))
    layered = _over(_over(toml, IndexSettings.section, own), Bm25Settings.section, words)
    table_name = f"[indexes.{_swept(name, point)}]"
    resolved = resolve(toml=layered, toml_name=table_name)
    part = resolved.part(IndexSettings)
    try:
        if "embedder" in own:
            check_name(part.embedder)
        if "chunker" in own and not is_code(part.chunker):
            with suppress(MissingDependencyError):  # reported when the plan is checked
                check_chunker(part)
    except UsageError as error:
        raise UsageError(f"{table_name} {error.message}") from None
    return resolved


def _index_points(name: str, table: Mapping[str, Any]) -> list[_Point]:
    sweep = table.get(_SWEEP, {})
    if not isinstance(sweep, Mapping):
        raise UsageError(f"[indexes.{name}] sweep must be a table, not {sweep!r}")
    return _points(f"[indexes.{name}]", sweep)


def _points(shown: str, sweep: Mapping[str, Any]) -> list[_Point]:
    """Return the combinations of the values of a sweep, or one empty combination if there is no sweep."""
    lists = [values if isinstance(values, list) else [values] for values in sweep.values()]
    if [] in lists:
        raise UsageError(f"{shown} sweep needs at least one value for each name: {sweep!r}")
    return [dict(zip(sweep, values, strict=True)) for values in itertools.product(*lists)]


def _swept(name: str, point: _Point) -> str:
    """Return the name of one system or index of a sweep, such as ``local[rrf_k=10]``."""
    label = ", ".join(f"{key}={value}" for key, value in point.items())
    return f"{name}[{label}]" if label else name


def _code(header: _Header, indexes: Iterable[Resolved | None]) -> list[str]:
    """Return the predictors and chunkers of an experiment that are code."""
    named = [str(table.get("predictor", "")) for table in header.systems.values()]
    named = [name for name in named if ":" in name and not name.startswith(TREC)]
    commands = (table.get("command") for table in header.systems.values())
    named += [shlex.join(map(str, words)) for words in commands if isinstance(words, list)]
    return sorted({*named, *filter(is_code, (each.part(IndexSettings).chunker for each in indexes if each))})


def _outside(name: str, table: Mapping[str, Any], dry_run: bool) -> list[BenchmarkPredictor]:
    """Return the predictor of a table that is not a system's. Raises UsageError for its problems."""
    kind: type[_Command | _Outside] = _Command if "command" in table else _Outside
    known = kind.__struct_fields__
    wrong = [
        f"{key} can't be combined with predictor, which is not a system"
        if key in (*System.__struct_fields__, *_OWN_KEYS)
        else f"unknown key {key!r}{or_else(key, known)}"
        for key in table
        if key not in known
    ]
    try:
        own = msgspec.convert({key: table[key] for key in known if key in table}, kind)
        made = _attempt(wrong, partial(own.opened, name, dry_run))
    except msgspec.ValidationError as error:
        wrong.append(str(error))
    if wrong:
        raise Problems("wrong tables:", [f"[systems.{name}] {each}" for each in wrong])
    return [made] if made else []


class _Systems(NamedTuple):
    """The tables of the systems in an experiment file."""

    tables: Mapping[str, Mapping[str, Any]]
    settings: Resolved
    repeats: int
    index_points: Mapping[str, Sequence[_Point] | None]

    def predictors(self, name: str, dry_run: bool) -> Sequence[PlannedSystem | BenchmarkPredictor]:
        """Return the systems of a table, or the predictor that it names."""
        table = self.tables[name]
        outside = not table.keys().isdisjoint(("predictor", "command"))
        return _outside(name, table, dry_run) if outside else self.named(name)

    def named(self, name: str) -> list[PlannedSystem]:
        """Return the systems that a table defines, one for each combination of values in its sweeps.

        Raises :class:`UsageError` if any of these systems is invalid.
        """
        base = self._base(name)
        own = self._own(name)
        made = []
        on = self.index_points.get(own.index) or [{}]
        for point, place in itertools.product(_points(f"[systems.{name}]", own.sweep), on):
            shown = _swept(name, point | place)
            if wrong := _wrong(base, point):
                raise UsageError(f"[systems.{shown}] {wrong[0]}")
            try:
                swept = _laid_over({**base, "name": shown}, point)
                if url := swept.get("llm", {}).get("base_url"):  # switches on the stages that use an LLM
                    swept = _laid_over({**self._base(name, endpoint=url), "name": shown}, point)
                system = msgspec.convert(swept, System)
            except (msgspec.ValidationError, ValueError) as error:
                raise UsageError(f"[systems.{shown}] {error}") from None
            made.append(
                planned_system(
                    system,
                    index=_swept(own.index, place),
                    repeats=self.repeats,
                    origin=own.origin,
                    tuned_on=self._tuned_on(name),
                )
            )
        return made

    def _tuned_on(self, name: str) -> str:
        """Return the ``tuned_on`` of a system, or of the nearest system that it inherits from."""
        own = self._own(name)
        return own.tuned_on or ("" if own.parent in ("", name) else self._tuned_on(own.parent))

    def _own(self, name: str) -> _Own:
        table = self.tables.get(name, {})
        index = table.get("index")
        keys = (*table, *(index if isinstance(index, Mapping) else ()))
        if key := next((key for key in keys if key in IndexSettings.__struct_fields__), ""):
            raise UsageError(
                f"[systems.{name}] {key} is a setting of an index: move it to a table [indexes.NAME], and "
                f'write index = "NAME" in [systems.{name}]'
            )
        try:
            return msgspec.convert(table, _Own)
        except msgspec.ValidationError as error:
            raise UsageError(f"[systems.{name}] {error}") from None

    def _base(self, name: str, above: tuple[str, ...] = (), endpoint: str = "") -> dict[str, Any]:
        """Return the system's table with inherited values. Raises :class:`UsageError` for its problems."""
        path = (*above, name)
        table, parent = self.tables.get(name, {}), self._own(name).parent
        is_own = isinstance(table.get("branches"), list)
        llm = table.get("llm")
        given = llm.get("base_url") if isinstance(llm, Mapping) else table.get("base_url")
        endpoint = endpoint or (given if isinstance(given, str) else "")
        inherited: dict[str, Any] = {}
        if name in above:
            raise UsageError(f"[systems.{name}] inherits from itself: {' -> '.join(path)}")
        if name in BUILTIN and (parent == name or not (parent or is_own)):
            inherited = msgspec.to_builtins(BUILTIN[name](_with_endpoint(self.settings, name, endpoint)))
        elif name not in self.tables:
            raise UsageError(f"unknown system {name!r}{or_else(name, [*BUILTIN, *self.tables])}")
        elif parent:
            inherited = self._base(parent, path, endpoint)
        elif "branches" not in table:
            near = or_else(name, BUILTIN)
            raise UsageError(f"[systems.{name}] has none of branches, from, predictor and command{near}")
        own = {key: value for key, value in table.items() if key not in _OWN_KEYS}
        if wrong := _wrong(inherited, own):
            raise Problems("wrong tables:", [f"[systems.{name}] {each}" for each in wrong])
        return _laid_over(inherited, own)


def _with_endpoint(settings: Resolved, name: str, endpoint: str) -> Resolved:
    """Set the LLM endpoint in the settings of a built-in system, if the system can use an LLM."""
    part = settings.parts.get(AGENT if name in AGENTS else name.replace("-", "_"))
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
            flag = "" if key in ALIASES else meant(key)
            found.append(f"unknown key {key!r}{flag}" if flag else str(error))
        except ValueError as error:
            found.append(str(error))
    return found


def _laid_over(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Apply :func:`laid_over` after replacing short names (``rrf_k``) with field paths (``fuse.k``)."""
    # Only top-level keys can be short names. The keys of nested tables are always field names.
    return laid_over(base, {ALIASES.get(key, key): value for key, value in changes.items()})
