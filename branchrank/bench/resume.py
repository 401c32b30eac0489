"""Read the plan of an interrupted run from the run's directory, to resume the run.

A run directory may come from another person and is not trusted.

1. Settings, systems and questions are read from the directory, and checked like command-line flags.
2. To resume a run, the user must again pass all hosts, models and classes that the run used, and all files
   that the run read from outside the workspace. One error lists all values that were not passed, and shows
   the complete command.
3. Before a row is written, the whole plan is compared with the plan in ``run.json``
   (:func:`~branchrank.runs.directory.check_resumable`).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import msgspec
from msgspec import Meta

from branchrank.bench.experiment import PlannedSystem
from branchrank.bench.plan import Plan, check_plan, endpoint_predictor
from branchrank.bench.predictors import BenchmarkPredictor, load_class_predictor
from branchrank.embedders import is_bundled
from branchrank.errors import InputError, RunError, UsageError
from branchrank.io.printable import bare_url, is_url, url_to_show, value_to_show
from branchrank.records import Record
from branchrank.runs import directory as names
from branchrank.runs.directory import PredictorRecord, RunRecord, read_unfinished
from branchrank.settings import (
    PARTS,
    BenchmarkSettings,
    Bm25Settings,
    EngineSettings,
    IndexSettings,
    LLMSettings,
    Resolved,
    Setting,
    checked,
    reaching_settings,
    resolve,
    settings_of,
)

R = TypeVar("R", bound=Record)
Change = Callable[[str, str], str]

DEFAULT_DATA_DIR = Path("data")
_MODEL = "embedding model"


class Named(Record, frozen=True, kw_only=True):
    """The hosts, models, files and classes that were passed to the resuming command.

    ``settings`` maps the names of settings that refer to a host, a model or a file
    (:func:`~branchrank.settings.reaching_settings`) to their values. ``engine`` maps the names of settings in
    the section ``engine``, which apply to processes and machines, to their values. ``allowed`` contains
    additional hosts, models and files that the systems and indexes of an experiment file may use.
    ``questions`` is needed if the run does not contain the text of its questions.
    """

    data_dir: Path | None = None
    questions: Path | None = None
    predictors: tuple[str, ...] = ()
    api_endpoint: str = ""
    settings: Mapping[str, str] = msgspec.field(default_factory=dict)
    engine: Mapping[str, Any] = msgspec.field(default_factory=dict)
    allowed: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """The flags of the command, without credentials."""
        words = ["--data-dir", str(self.data_dir)] if self.data_dir is not None else []
        words += ["--questions", str(self.questions)] if self.questions is not None else []
        for name in self.predictors:
            words += ["--predictor", name]
        words += ["--api-endpoint", url_to_show(self.api_endpoint)] if self.api_endpoint else []
        for key, value in self.settings.items():
            words += [reaching_settings()[key].flag, value_to_show(key, value)]
        flags = {f"{each.section}.{each.name}": each.flag for each in settings_of(EngineSettings)}
        for key, value in self.engine.items():
            words += [flags[key]] if value is True else [flags[key], str(value)]
        for value in self.allowed:
            words += ["--allow", bare_url(value)]
        return words


def plan_from_run(directory: Path, named: Named) -> Plan:
    """Read the plan of an interrupted run, which :func:`~branchrank.bench.benchmark.run_plan` can resume.

    A class, a host, or a file outside the workspace is used only if ``named`` contains it. Raises
    :class:`RunError` for a finished or damaged run, and for values that are invalid or missing in ``named``.
    """
    run = read_unfinished(directory)
    plan = recorded_plan(directory, run, Names(directory, named))
    try:
        check_plan(plan)
    except (UsageError, InputError) as error:
        raise RunError(
            f"{directory} can't be resumed: {error.message}", remedy=error.remedy or "start a new run"
        ) from error
    return plan


def recorded_plan(directory: Path, run: RunRecord, found: Names) -> Plan:
    """Read the plan of a run without checking it.

    Raises :class:`RunError` for an invalid setting in the run's record. Also raises :class:`RunError` for a
    required value that was not passed to the command or that differs from the run's value.
    """
    settings = recorded_settings(directory, run, found)
    indexes = {
        name: recorded_index(directory, table, settings, found) for name, table in run.index_settings.items()
    }
    makers = [predictor_maker(record, found) for record in run.predictors]
    data_dir = found.data_dir(run.data_dir)
    found.check()
    return Plan(
        data_dir=data_dir,
        settings=settings,
        predictors=tuple(make() for make in makers),
        indexes=indexes,
        questions=recorded_questions(directory, found.named, settings),
        reports=directory.resolve().parent,
        experiment=run.experiment,
        split=run.split,
        filters=run.filters,
        repeats=recorded_repeats(directory, run),
        command=run.command,
    )


class Names:
    """A check that the user passed the hosts, models, files and classes of a run to the command.

    ``command`` contains the first words of the command that an error message suggests. ``unused`` lists the
    kinds of values (such as ``embedding model``) that the command ignores.
    """

    def __init__(
        self,
        directory: Path,
        named: Named,
        command: Sequence[str] = ("resume",),
        unused: frozenset[str] = frozenset(),
    ) -> None:
        self.directory = directory
        self.command = command
        self.unused = unused
        self.named = named
        self.missing: dict[tuple[str, str], str] = {}
        self.wrong: list[str] = []
        self.flags: dict[tuple[str, str], str] = {}
        self.values: dict[tuple[str, str], str] = {}
        for key, value in named.settings.items():
            self.values[reaching_settings()[key].reaches, value_to_show(key, value)] = value

    def setting(self, setting: Setting, recorded: str) -> str:
        """Return the value that was passed to the command for a setting, or else the run's value.

        A value that was passed but differs from ``recorded``, the value in the run's record, is added to
        ``wrong``. A required value that was not passed is added to ``missing``.
        """
        self.flags[setting.reaches, recorded] = setting.flag
        value = self.named.settings.get(f"{setting.section}.{setting.name}")
        if value is None:
            return (
                recorded
                if self._needs_no_name(setting.reaches, recorded)
                else self._missing(setting.flag, setting.reaches, recorded)
            )
        shown = value_to_show(setting.name, value)
        if shown != recorded:
            self.wrong.append(f"{setting.flag} {shown}: the run used {recorded or 'none'}")
        return value

    def value(self, role: str, recorded: str) -> str:
        """Return the passed value that matches ``recorded``, a value in the run's record.

        A required value that was not passed to the command is added to ``missing``.
        """
        if self._needs_no_name(role, recorded):
            return recorded
        if (role, recorded) in self.values:
            return self.values[role, recorded]
        for allowed in self.named.allowed:
            if bare_url(allowed) == recorded:
                return allowed
        return self._missing(self.flags.get((role, recorded), "--allow"), role, recorded)

    def _needs_no_name(self, role: str, recorded: str) -> bool:
        return not recorded or role in self.unused or (role == _MODEL and is_bundled(recorded))

    def _missing(self, flag: str, role: str, recorded: str) -> str:
        self.missing[flag, recorded] = role
        return recorded

    def predictor(self, name: str) -> None:
        """Add the class ``name`` (``module:Class``) to ``missing`` if it was not passed to the command."""
        if name not in self.named.predictors:
            self._missing("--predictor", "predictor", name)

    def endpoint(self, url: str) -> None:
        """Check that the run's URL for the ``api`` predictor was passed to the command."""
        if not self.named.api_endpoint:
            self._missing("--api-endpoint", "HTTP endpoint", url)
        elif url_to_show(self.named.api_endpoint) != url:
            self.wrong.append(f"--api-endpoint {url_to_show(self.named.api_endpoint)}: the run used {url}")

    def data_dir(self, recorded: str) -> Path:
        """Return the workspace folder that was passed to the command, or ``data`` by default.

        If no folder was passed, but the run used a folder other than ``data``, the run's folder is added to
        ``missing`` (the values that the user must still pass).
        """
        if self.named.data_dir is None and Path(recorded).absolute() != DEFAULT_DATA_DIR.absolute():
            self._missing("--data-dir", "workspace", recorded)
        return self.named.data_dir or DEFAULT_DATA_DIR

    def check(self) -> None:
        """Raise :class:`RunError` if a required value was not passed or differs from the run's value."""
        if self.wrong:
            raise RunError(
                f"{self.directory} was run with different values:\n" + "\n".join(self.wrong),
                remedy="pass the same values as in the run, or start a new run",
            )
        if self.missing:
            listed = "\n".join(f"  - {role} {value}" for (_, value), role in self.missing.items())
            words = ["branchrank", *self.command, str(self.directory), *self.named.words]
            words += [word for flag, value in self.missing for word in (flag, value)]
            raise RunError(
                f"{self.directory} uses hosts, models, files or classes that were not passed to this "
                f"command:\n{listed}",
                remedy=f"if you trust this run: {shlex.join(words)}",
            )


def recorded_settings(directory: Path, run: RunRecord, found: Names) -> Resolved:
    """Check and return the run's settings, with the hosts, models and files that were passed to the command.

    The settings for processes and machines (section ``engine``) are not read from the run.
    """
    recorded = _resolved(directory, run.settings)
    tables = {
        part.section: msgspec.to_builtins(recorded.part(part))
        for part in PARTS
        if part.section in run.settings and part is not EngineSettings
    }
    flags = {}
    for key, setting in reaching_settings().items():
        value = found.setting(setting, getattr(recorded.parts[setting.section], setting.name))
        if key in found.named.settings:
            flags[key] = value
    settings = _resolved(directory, tables, flags)
    engine = resolve(flags=found.named.engine)
    return msgspec.structs.replace(
        settings,
        parts={**settings.parts, EngineSettings.section: engine.part(EngineSettings)},
        origins={
            name: (engine if name.startswith(f"{EngineSettings.section}.") else settings).origins[name]
            for name in settings.origins
        },
    )


def _resolved(directory: Path, tables: Mapping[str, Any], flags: Mapping[str, Any] | None = None) -> Resolved:
    path = directory / names.RUN_JSON
    try:
        return resolve(toml=tables, toml_name=str(path), environment={}, flags=flags)
    except UsageError as error:
        raise RunError(f"{path}: {error.message}", remedy="start a new run") from None


def recorded_index(directory: Path, table: Mapping[str, Any], settings: Resolved, found: Names) -> Resolved:
    """Return the settings of one of the run's indexes."""
    own = {key: value for key, value in table.items() if key != Bm25Settings.section}
    recorded = _resolved(directory, {IndexSettings.section: own}).part(IndexSettings)
    parts = {**settings.parts, IndexSettings.section: with_reached(recorded, found.value)}
    if Bm25Settings.section in table:
        words = {Bm25Settings.section: table[Bm25Settings.section]}
        parts[Bm25Settings.section] = _resolved(directory, words).part(Bm25Settings)
    return msgspec.structs.replace(settings, parts=parts)


def predictor_maker(
    record: PredictorRecord, found: Names
) -> Callable[[], PlannedSystem | BenchmarkPredictor]:
    """Return a function that creates a predictor, and that must be called after :meth:`Names.check`."""
    if record.system is not None:
        origin: Literal["", "tuned"] = "tuned" if record.origin == "tuned" else ""
        system = with_reached(record.system, found.value)
        planned = PlannedSystem(system=system, index=record.index, origin=origin)
        return lambda: planned
    url, _, target = record.origin.partition(" ")
    if is_url(url):
        found.endpoint(url)
        return partial(endpoint_predictor, found.named.api_endpoint, target)
    if ":" in record.origin:
        found.predictor(record.origin)
        return partial(load_class_predictor, record.origin)
    raise RunError(
        f"{found.directory} can't be resumed: {record.name!r} was an object in a Python program",
        remedy="run that program again",
    )


def recorded_questions(directory: Path, named: Named, settings: Resolved) -> Path | None:
    """Return the path of the run's questions, or ``None`` if the run used the workspace's question file.

    The path is ``named.questions`` if set, and otherwise the path of the run's copy of the questions. A run
    that does not store the text of its questions has no copy, so the workspace's question file is used.
    """
    if named.questions is not None:
        return named.questions
    keeps = settings.part(BenchmarkSettings).question_text == "keep"
    return directory / names.QUESTIONS if keeps else None


def recorded_repeats(directory: Path, run: RunRecord) -> int:
    [setting] = (each for each in settings_of(LLMSettings) if each.name == "repeats")
    repeats = max((each.repeats for each in run.predictors), default=1)
    try:
        return int(checked(LLMSettings, setting, repeats))
    except ValueError:
        raise RunError(
            f"{directory / names.RUN_JSON}: repeats = {repeats}; allowed: {setting.allowed}",
            remedy="start a new run",
        ) from None


def with_reached(record: R, change: Change) -> R:
    """Replace each value that refers to something outside the workspace with ``change(role, value)``.

    Values in nested records are replaced too. In tables with arbitrary keys (the options of a branch), every
    string that looks like a URL or a path is replaced.
    """
    changed = {
        field.name: _changed(getattr(record, field.name), _role(field.type), change)
        for field in msgspec.structs.fields(type(record))
    }
    return msgspec.structs.replace(record, **changed)


def _changed(value: Any, role: str, change: Change) -> Any:
    if isinstance(value, Record):
        return with_reached(value, change)
    if isinstance(value, tuple | list):
        return type(value)(_changed(each, role, change) for each in value)
    if isinstance(value, dict):
        return {key: _changed(each, role or "option", change) for key, each in value.items()}
    if not isinstance(value, str) or not role or (role == "option" and not set(value) & set(":/\\~")):
        return value
    return change(role, value)


def _role(annotation: Any) -> str:
    """Return the kind of external resource that a field refers to, such as "Redis", or "" for no resource."""
    for mark in get_args(annotation):
        if isinstance(mark, Meta) and mark.extra and "reaches" in mark.extra:
            return str(mark.extra["reaches"])
    return ""
