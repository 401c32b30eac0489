"""Read the plan of a run from the run's directory, to resume the run or to answer some questions again.

A run directory may come from another person and is not trusted.

1. Settings, systems and questions are read from the directory, and checked like command-line flags.
2. Hosts, models and classes that the run used, and files that the run read from outside the workspace, are
   used only if the user trusts the run (``--trust``). Without ``--trust``, one error lists all of them.
3. Before a row is written, the whole plan is compared with the plan in ``run.json``
   (:func:`~branchrank.runs.directory.check_resumable`).
4. A rerun calls no LLM. LLM calls are answered from a cassette that is passed to the command; without a
   cassette, systems that use an LLM are skipped. The digests of the indexes must be equal to the digests in
   the run's record.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, get_args

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from branchrank.core.errors import InputError, RunError, UsageError
from branchrank.core.io.printable import is_url, value_to_show
from branchrank.core.io.progress import Notify, Progress
from branchrank.core.records import Question, Record
from branchrank.core.settings import (
    DEFAULT_DATA_DIR,
    BenchmarkSettings,
    Bm25Settings,
    CacheSettings,
    EngineSettings,
    IndexSettings,
    LLMSettings,
    Resolved,
    reaching_settings,
    resolve,
)
from branchrank.documents.chunkers import BUILTIN as BUILTIN_CHUNKERS
from branchrank.index.embedders import is_bundled
from branchrank.questions.question_files import questions_digest
from branchrank.runs import directory as names
from branchrank.runs.bench.opening import OpenPlan, open_plan
from branchrank.runs.bench.plan import (
    Plan,
    PlannedSystem,
    check_plan,
    endpoint_predictor,
    outside_predictor,
    planned_system,
)
from branchrank.runs.bench.predictors import BenchmarkPredictor
from branchrank.runs.bench.record import index_facts
from branchrank.runs.directory import PredictorRecord, RunRecord, read_unfinished

R = TypeVar("R", bound=Record)
Change = Callable[[str, str], str]


class RunAccess(Record, frozen=True, kw_only=True):
    """What a command may use in addition to the files in a run's directory.

    If ``trust`` is true, the hosts, models, files and classes that the run names are used. ``data_dir`` is
    the run's workspace, if it has moved. ``questions`` is needed if the run does not contain the text of its
    questions. ``replay`` is the LLM cassette for a rerun. ``engine`` maps the names of settings in the
    section ``engine``, which apply to processes and machines, to their values. ``pass_env`` names the
    environment variables that an agent's command gets.
    """

    trust: bool = False
    data_dir: Path | None = None
    questions: Path | None = None
    replay: str = ""
    engine: Mapping[str, Any] = msgspec.field(default_factory=dict)
    pass_env: tuple[str, ...] = ()


class OpenRerun(Record, frozen=True, kw_only=True):
    """The open plan, the questions to answer again, and the reason for each skipped predictor."""

    opened: OpenPlan | None
    questions: list[Question]
    left_out: dict[str, str]


def plan_from_run(directory: Path, access: RunAccess = RunAccess()) -> Plan:  # noqa: B008  (a frozen record)
    """Read the plan of an interrupted run, which :func:`~branchrank.runs.bench.running.run_plan` can resume.

    Raises :class:`RunError` for a finished or damaged run, for invalid values, and for a run that is not
    trusted although it uses a class, a host, a model or a file outside the workspace.
    """
    return _RecordedPlan(directory, access).plan(read_unfinished(directory))[0]


@contextmanager
def open_rerun(
    directory: Path,
    run: RunRecord,
    ids: Collection[str],
    access: RunAccess,
    progress: Progress,
    notify: Notify,
) -> Iterator[OpenRerun]:
    """Open the plan of a finished run to answer the questions with these ids again.

    Raises :class:`RunError` if the indexes or the questions are not the same as in the run, or if the run is
    not trusted although it uses something outside the workspace. Raises the same errors as
    :func:`~branchrank.runs.bench.opening.open_plan`.
    """
    left_out = {each.name: reason for each in run.predictors if (reason := _why_not(each, access))}
    chosen = tuple(each for each in run.predictors if each.name not in left_out)
    if not chosen:
        yield OpenRerun(opened=None, questions=[], left_out=left_out)
        return
    replay = access.replay if any(each.system and each.system.asks_llm for each in chosen) else ""
    # The setting ``baseline`` is cleared, because the run's baseline may be one of the skipped predictors.
    changes: dict[str, dict[str, Any]] = {
        LLMSettings.section: {"record": "", "replay": replay, "price_table": ""},
        CacheSettings.section: {"redis_url": ""},
        BenchmarkSettings.section: {"baseline": ""},
    }
    tables = {
        name: {**run.settings.get(name, {}), **changes.get(name, {})} for name in (*run.settings, *changes)
    }
    again = replace(run, predictors=chosen, settings=tables)
    # No LLM is called, and the index is opened, but not built.
    plan, asked = _RecordedPlan(directory, access, ("LLM endpoint", "workspace")).plan(again)
    if questions_digest(asked) != run.questions_digest:
        raise RunError(
            f"{plan.questions_file} does not contain the questions of {directory}",
            remedy="pass the question file of the run: --questions FILE",
        )
    drawn = [question for question in asked if question.id in ids]
    with open_plan(plan, asked, progress=progress, notify=notify, status=notify, build=False) as opened:
        recorded = {facts.name: facts.digest for facts in run.indexes}
        for name, index in opened.indexes.items():
            digest = index_facts(name, index).digest
            if digest != recorded.get(name):
                raise RunError(
                    f"the index {name!r} in {plan.data_dir} differs from the index of the run. Its digest is "
                    f"{digest[:16]}, and the run's index has {recorded.get(name, 'none')[:16]}",
                    remedy="pass the workspace of the run (--data-dir), or index the same corpus with the "
                    "same settings and the same version of BranchRank",
                )
        yield OpenRerun(opened=opened, questions=drawn, left_out=left_out)


def _why_not(predictor: PredictorRecord, access: RunAccess) -> str:
    """Return the reason why a predictor can't be run again, or "" if it can."""
    if predictor.system is not None:
        lacks = predictor.system.asks_llm and not access.replay
        return "it uses an LLM; pass the run's cassette with --llm-replay" if lacks else ""
    if ":" not in predictor.origin:
        return "it was an object in a Python program"
    return "" if access.trust else f"it calls {predictor.origin}; if you trust the run, add --trust"


class _RecordedPlan:
    """The plan in a run's record. Values of the kinds ``harmless`` need no trust."""

    def __init__(self, directory: Path, access: RunAccess, harmless: Collection[str] = ()) -> None:
        self.directory = directory
        self.access = access
        self.harmless = harmless
        #: What the run uses outside the workspace, as pairs (kind, value).
        self.reached: dict[tuple[str, str], None] = {}
        #: The recorded value of a setting (without credentials) -> its value in the user's environment.
        self.own: dict[tuple[str, str], str] = {}

    def plan(self, run: RunRecord) -> tuple[Plan, list[Question]]:
        """Return the plan and its questions.

        Raises :class:`RunError` for an invalid value in the run's record, and for a run that is not trusted
        although it uses something outside the workspace.
        """
        settings = self._settings(run)
        indexes = {name: self._index(table, settings) for name, table in run.index_settings.items()}
        makers = [self._predictor(record) for record in run.predictors]
        data_dir = self.access.data_dir or Path(run.data_dir)
        if self.access.data_dir is None and data_dir.absolute() != DEFAULT_DATA_DIR.absolute():
            self._value("workspace", run.data_dir)
        if self.reached and not self.access.trust:
            listed = "\n".join(f"  - {kind} {value}" for kind, value in self.reached)
            raise RunError(
                f"{self.directory} uses these hosts, models, files or classes:\n{listed}",
                remedy="if you trust this run, add --trust to the command",
            )
        keeps = settings.part(BenchmarkSettings).question_text == "keep"
        plan = Plan(
            data_dir=data_dir,
            settings=settings,
            predictors=tuple(make() for make in makers),
            indexes=indexes,
            # A run that does not store the text of its questions uses the workspace's question file.
            questions=self.access.questions or (self.directory / names.QUESTIONS if keeps else None),
            reports=self.directory.resolve().parent,
            experiment=run.experiment,
            name=run.name,
            split=run.split,
            filters=run.filters,
            command=run.command,
            pass_env=self.access.pass_env,
        )
        try:
            return plan, check_plan(plan).questions
        except (UsageError, InputError) as error:
            raise RunError(
                f"{self.directory} can't be resumed or run again: {error.message}",
                remedy=error.remedies or "start a new run",
            ) from error

    def _settings(self, run: RunRecord) -> Resolved:
        """Return the run's settings. Processes and machines (section ``engine``) are not read from the run.

        A record contains no credentials, so the value of an environment variable is used if it is equal to
        the recorded value except for its credentials.
        """
        tables = {name: table for name, table in run.settings.items() if name != EngineSettings.section}
        recorded = self._resolved(tables)
        flags = dict(self.access.engine)
        for key, setting in reaching_settings().items():
            value = str(getattr(recorded.parts[setting.section], setting.name))
            own = os.environ.get(setting.variable, "")
            if own and value_to_show(setting.name, own) == value:
                self.own[setting.reaches, value] = own
            if value:
                flags[key] = value if value == self.access.replay else self._value(setting.reaches, value)
        return self._resolved(tables, flags)

    def _resolved(self, tables: Mapping[str, Any], flags: Mapping[str, Any] | None = None) -> Resolved:
        path = self.directory / names.RUN_JSON
        engine = {name: value for name, value in os.environ.items() if name.startswith("BRANCHRANK_ENGINE_")}
        try:
            return resolve(toml=tables, toml_name=str(path), environment=engine, flags=flags)
        except UsageError as error:
            raise RunError(f"{path}: {error.message}", remedy="start a new run") from None

    def _index(self, table: Mapping[str, Any], settings: Resolved) -> Resolved:
        """Return the settings of one of the run's indexes."""
        own = {key: value for key, value in table.items() if key != Bm25Settings.section}
        recorded = self._resolved({IndexSettings.section: own}).part(IndexSettings)
        settings = settings.with_parts(with_reached(recorded, self._value))
        if Bm25Settings.section in table:
            words = self._resolved({Bm25Settings.section: table[Bm25Settings.section]})
            settings = settings.with_parts(words.part(Bm25Settings))
        return settings

    def _value(self, kind: str, recorded: str) -> str:
        """Return the value to use, and add it to ``reached`` if the user must trust the run to use it."""
        if (kind, recorded) in self.own:
            return self.own[kind, recorded]
        bundled = (kind == "embedding model" and is_bundled(recorded)) or (
            kind == "chunker" and recorded in BUILTIN_CHUNKERS
        )
        if recorded and not bundled and kind not in self.harmless:
            self.reached[kind, recorded] = None
        return recorded

    def _predictor(self, record: PredictorRecord) -> Callable[[], PlannedSystem | BenchmarkPredictor]:
        """Return a function that creates a predictor, and that is called only if the run is trusted."""
        if record.system is not None:
            system = with_reached(record.system, self._value)
            own = {name: getattr(record, name) for name in ("index", "origin", "tuned_on")}
            return lambda: planned_system(system, repeats=record.repeats, **own)
        url, _, target = record.origin.partition(" ")
        if is_url(url):
            self.reached["HTTP endpoint", url] = None
            return lambda: endpoint_predictor(url, target, record.name, record.llm)
        if ":" in record.origin:
            self.reached["predictor", record.origin] = None
            return lambda: outside_predictor(record.origin, record.name, record.llm, record.index)
        raise RunError(
            f"{self.directory} can't be resumed: {record.name!r} was an object in a Python program",
            remedy="run that program again",
        )


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
