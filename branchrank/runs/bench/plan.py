"""The plan of one benchmark (settings, predictors and questions), which is checked before any work starts.

A plan is made from predictors and settings (:func:`plan_from_names`), from an experiment file
(:mod:`branchrank.runs.bench.experiment`), or from a run (:mod:`branchrank.runs.bench.resume`).
:func:`estimate_plan` estimates the number of queries and the LLM costs of a plan before it is run
(``--dry-run``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from branchrank.core.errors import (
    ArtifactError,
    BranchRankError,
    BusyError,
    InputError,
    LostCollectionError,
    Remedies,
    Remedy,
    UsageError,
)
from branchrank.core.execution.executors import check_engine
from branchrank.core.io.progress import Notify, no_notice
from branchrank.core.records import NOT_REPORTED, Question, Record
from branchrank.core.settings import (
    DEFAULT,
    DEFAULT_REPORTS,
    BenchmarkSettings,
    IndexSettings,
    LLMSettings,
    Resolved,
    settings_of,
)
from branchrank.core.settings.systems import MODEL_FLAGS, NO_LLM_FLAGS, URL_FLAGS
from branchrank.core.spec import System
from branchrank.documents.chunkers import check_chunker, is_code
from branchrank.documents.loading import corpus_lines
from branchrank.index.reader import open_index
from branchrank.index.workspace_folder import ConfigFile, WorkspaceFolder
from branchrank.questions.anchoring import follow_gold
from branchrank.questions.question_files import (
    GIVE_QUESTIONS,
    check_wording,
    load_questions,
    questions_digest,
    sample_questions,
)
from branchrank.runs import comparisons
from branchrank.runs.bench.predictors import (
    ApiPredictor,
    BenchmarkPredictor,
    UnopenedPredictor,
    load_class_predictor,
    predictor_of,
)
from branchrank.runs.directory import COMMAND, DEFAULT_INDEX, TREC, PredictorRecord
from branchrank.scoring.measures import depth_needed
from branchrank.search.llm.ledger import PriceTable, read_prices
from branchrank.search.systems.builtin import GROUPS, builtin_systems
from branchrank.search.systems.query import read_filters
from branchrank.search.systems.system_checks import check_embedder, most_hits, problems

if TYPE_CHECKING:
    from branchrank.search.systems.llm_choice import CallBounds

T = TypeVar("T")
_TOP_K = "benchmark.top_k"
LONGEST_NAME = 80


class PlannedSystem(PredictorRecord, frozen=True, kw_only=True):
    """The record of a predictor that is a system."""

    system: System

    @property
    def indexes(self) -> tuple[str, ...]:
        """The names of the indexes that the system searches. The first is its own."""
        return (self.index, *self.system.other_indexes)


def planned_system(system: System, *, repeats: int = 1, **fields: str) -> PlannedSystem:
    """Return the record of a system. Only a system with an LLM answers each question ``repeats`` times."""
    repeats = repeats if system.asks_llm else 1
    return PlannedSystem(name=system.name, llm=system.llm_label, system=system, repeats=repeats, **fields)


class Plan(Record, frozen=True, kw_only=True):
    """The plan of one benchmark.

    ``predictors`` are run in the given order. By default, the first predictor is the baseline. ``indexes``
    contains the settings of each index that a system uses. ``questions`` is the question file (``None`` means
    the workspace's question file). ``reports`` is the folder in which the run's directory is created.
    ``filters`` contains ``KEY=VALUE`` strings; every search returns only documents that pass all filters.
    ``pass_env`` names the environment variables that an agent's command gets. ``command`` is the command as
    the user typed it. ``config`` is the content of the workspace's
    ``branchrank.toml`` if it has already been read. ``left_out`` contains the members of a group that can't
    run, with the reasons.
    """

    data_dir: Path
    settings: Resolved
    predictors: tuple[PlannedSystem | BenchmarkPredictor, ...] = ()
    indexes: Mapping[str, Resolved] = {}
    questions: Path | None = None
    reports: Path = DEFAULT_REPORTS
    experiment: str = "benchmark"
    name: str = ""
    split: str = ""
    filters: tuple[str, ...] = ()
    command: str = ""
    pass_env: tuple[str, ...] = ()
    config: ConfigFile | None = None
    left_out: tuple[str, ...] = ()

    @property
    def records(self) -> tuple[PredictorRecord, ...]:
        """The records of the predictors for ``run.json``, in the plan's order."""
        return tuple(
            each
            if isinstance(each, PlannedSystem)
            else PredictorRecord(
                name=each.name,
                llm=each.llm,
                index=getattr(each, "index", ""),
                origin=getattr(each, "origin", ""),
                source_digest=getattr(each, "digest", ""),
            )
            for each in self.predictors
        )

    @property
    def planned(self) -> tuple[PlannedSystem, ...]:
        """The predictors that are systems, in the plan's order."""
        return tuple(each for each in self.predictors if isinstance(each, PlannedSystem))

    @property
    def systems(self) -> tuple[System, ...]:
        """The systems of the predictors, in the plan's order."""
        return tuple(each.system for each in self.planned)

    def systems_on(self, index: str) -> list[System]:
        """Return the systems that search an index."""
        return [each.system for each in self.planned if index in each.indexes]

    @property
    def searched(self) -> tuple[str, ...]:
        """The names of the indexes that systems and the tools of agents search."""
        own = (name for each in self.planned for name in each.indexes)
        tools = (each.index for each in self.records if each.system is None and each.index)
        return tuple(dict.fromkeys((*own, *tools)))

    def rescores_on(self, index: str) -> bool:
        """Return whether a system rescores the hits of an index by its token vectors."""
        own = (each.system for each in self.planned if each.index == index)
        return any(system.rescore.method == "maxsim" for system in own)

    def workspace(self, index: str, notify: Notify = no_notice) -> WorkspaceFolder:
        """Return the workspace with the settings of an index.

        An index of the experiment gets token vectors only if a system rescores by them.
        """
        settings = self.indexes[index]
        part = settings.part(IndexSettings)
        if part.chooses_tokens and index != DEFAULT_INDEX and not self.rescores_on(index):
            settings = settings.with_parts(msgspec.structs.replace(part, token_vectors="none"))  # noqa: S106
        return WorkspaceFolder(self.data_dir, settings, notify, content=self.config)

    @property
    def folder(self) -> WorkspaceFolder:
        """The workspace with the settings of the plan."""
        return WorkspaceFolder(self.data_dir, self.settings, content=self.config)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the predictors, in the plan's order."""
        return tuple(each.name for each in self.predictors)

    @property
    def is_repeatable(self) -> bool:
        """Whether another process can create the same predictors and therefore resume the run."""
        return all(each.system or ":" in each.origin for each in self.records)

    @property
    def questions_file(self) -> Path:
        """The question file."""
        return self.questions or self.folder.questions_path


class AskedQuestions(NamedTuple):
    """The questions of a plan, sorted by id."""

    questions: list[Question]
    #: The digest of all questions in the file.
    file_digest: str


def check_plan(plan: Plan, *, dry_run: bool = False) -> AskedQuestions:
    """Check a plan and return its questions. Nothing is built and no server is contacted.

    If ``dry_run`` is true, a chunker that is code is not opened. Raises one error that lists every problem
    with the plan. The error is an :class:`InputError` if all problems are in files, and otherwise a
    :class:`UsageError`.
    """
    found, asked = _checked(plan, dry_run)
    if asked is None or found:
        raise combined(found)
    return asked


def asked_questions(plan: Plan) -> AskedQuestions:
    """Sample the plan's questions from its question file.

    With the setting ``reanchor``, their gold is that of the documents as they are now. Raises
    :class:`~branchrank.core.errors.QuestionError` if the file is invalid or does not contain the text of the
    questions.
    """
    part, path = plan.settings.part(BenchmarkSettings), plan.questions_file
    every = load_questions(path, remedy=GIVE_QUESTIONS)
    questions = sample_questions(every, part.sample_size, part.sample_seed)
    check_wording(questions, path)
    if part.reanchor:
        questions = follow_gold(questions, corpus_lines(plan.folder.corpus_root, plan.folder.exclude))
    return AskedQuestions(questions, questions_digest(every))


def _checked(plan: Plan, dry_run: bool = False) -> tuple[list[BranchRankError], AskedQuestions | None]:
    """Return a separate error for each problem with a plan, and the plan's questions."""
    found: list[BranchRankError] = []
    if not plan.predictors:
        found.append(UsageError("no predictor was passed", remedy="--predictor local"))
    names, benchmark = plan.names, plan.settings.part(BenchmarkSettings)
    for name in sorted({name for name in names if names.count(name) > 1}):
        message = f"two predictors have the name {name!r}"
        found.append(UsageError(message, remedy="give each predictor a different name"))
    wrong = [problem for system in plan.systems for problem in problems(system)]
    asking = [system for system in plan.systems if system.asks_llm]
    wrong += [
        f"system {system.name!r} uses an LLM, but has no model; the tables of results need the model's name"
        for system in asking
        if system.llm.base_url and not system.llm.model
    ]
    if wrong:
        remedy: Remedies = "correct the systems"
        if not all(system.llm.base_url and system.llm.model for system in asking):
            remedy = (
                Remedy("set an endpoint ({})", URL_FLAGS),
                Remedy("a model ({})", MODEL_FLAGS, instead=False),
                Remedy("switch the LLM off ({})", NO_LLM_FLAGS),
            )
        found.append(UsageError("\n".join(wrong), remedy=remedy))
    outside = [each.name for each in plan.records if each.system is None]
    if plan.filters and outside:
        message = f"--filter applies only to systems; {', '.join(outside)} is not a system"
        found.append(UsageError(message, remedy="remove --filter or this predictor"))
    found += (
        UsageError(f"{each.name!r}: the index {each.index!r} is not defined")
        for each in plan.records
        if each.system is None and each.index and each.index not in plan.indexes
    )
    for name in plan.pass_env:
        if name not in os.environ:  # the value of NAME=VALUE is a secret
            message = f"--pass-env {name.partition('=')[0]} is not the name of a variable that is set"
            found.append(UsageError(message, remedy="export the variable, and pass its name only"))
    _attempt(found, lambda: check_engine(plan.settings, asks_llm=bool(asking)))
    for each in plan.planned:
        for name, other in zip(each.indexes, ("", *each.system.other_indexes), strict=True):
            if name in plan.indexes:
                embedder = plan.indexes[name].part(IndexSettings).embedder
                _attempt(found, partial(check_embedder, each.system, embedder, other))
            else:
                found.append(UsageError(f"system {each.name!r}: the index {name!r} is not defined"))
        if not problems(each.system):
            _attempt(found, partial(check_pool, each.system, benchmark))
    for name, resolved in plan.indexes.items():
        if name in plan.searched and not (dry_run and is_code(resolved.part(IndexSettings).chunker)):
            _attempt(found, partial(check_chunker, resolved.part(IndexSettings)))
    _attempt(found, lambda: check_name(plan.name))
    _attempt(found, lambda: read_filters(plan.filters))
    _attempt(found, lambda: comparisons.check_plan(benchmark, names))
    asked = _attempt(found, lambda: asked_questions(plan))
    if plan.predictors:
        _attempt(found, lambda: plan.folder.corpus_root)
    return found, asked


def check_name(name: str) -> None:
    """Raise :class:`UsageError` unless a run's name is empty or one short line that can't be a path."""
    if len(name) > LONGEST_NAME or name != name.strip() or not name.isprintable() or {*"/\\"} & {*name}:
        message = f"the name {name!r} is not one line of up to {LONGEST_NAME} characters without / and \\"
        raise UsageError(message, remedy=Remedy("choose another {}", "--name"))


def check_pool(system: System, settings: BenchmarkSettings) -> None:
    """Raise :class:`UsageError` if a measure's cutoff is larger than the number of hits a system can find."""
    pool = most_hits(system, settings.top_k)
    for measure in comparisons.declared_measures(settings):
        cutoff = measure.measure.cutoff or 0
        if pool is not None and cutoff > pool:
            raise UsageError(
                f"measure {measure.name!r} needs {cutoff} hits, and system {system.name!r} finds at most "
                f"{pool} (limited by the top_n of its branches and the cap of its fusion)",
                remedy=f"increase top_n or cap, or use a cutoff of at most {pool}",
            )


def with_depth(settings: Resolved) -> Resolved:
    """Increase ``top_k`` to the measures' largest cutoff, if the user did not set ``top_k``."""
    part = settings.part(BenchmarkSettings)
    if settings.origins[_TOP_K] != DEFAULT:
        return settings
    try:
        needed = depth_needed(comparisons.declared_measures(part))
    except UsageError:
        return settings  # check_plan reports the error
    [limit] = (int(each.high or 0) for each in settings_of(BenchmarkSettings) if each.name == "top_k")
    if needed <= part.top_k:
        return settings
    deeper = msgspec.structs.replace(part, top_k=min(needed, limit))
    return msgspec.structs.replace(
        settings.with_parts(deeper),
        origins={**settings.origins, _TOP_K: "the deepest measure"},
    )


def _attempt(found: list[BranchRankError], make: Callable[[], T]) -> T | None:
    """Return the result of ``make()``, or add its error to ``found`` if the user's input is invalid."""
    try:
        return make()
    except (UsageError, InputError) as error:
        found.append(error)
        return None


def combined(found: Sequence[BranchRankError]) -> BranchRankError:
    """Combine several errors into one error."""
    kinds = {type(error) for error in found}
    in_files = all(isinstance(error, InputError) for error in found)
    kind = kinds.pop() if len(kinds) == 1 else InputError if in_files else UsageError
    messages = dict.fromkeys(error.message for error in found)
    remedies = dict.fromkeys(error.remedies for error in found)
    return kind(
        "\n".join(messages),
        remedy=[
            remedy._replace(instead=number > 0)
            for alternatives in remedies
            for number, remedy in enumerate(alternatives)
        ],
    )


def plan_from_names(
    predictors: Sequence[object], plan: Plan, *, api_endpoint: str = "", api_predictor: str = ""
) -> Plan:
    """Make a plan from predictors that all use the workspace's default index.

    A predictor is a name (``local``, ``all``, ``api``, ``module:Class``, ``langchain:module:retriever``), a
    :class:`System`, or an object that :func:`~branchrank.runs.bench.predictors.predictor_of` accepts. A
    built-in system that is selected by several names (for example, both ``local`` and ``all``) runs only
    once. ``api_endpoint`` is the URL of the predictor ``api``, and ``api_predictor`` is the name of a
    predictor on that server. ``plan`` has the other fields, such as ``questions``. Raises one
    :class:`UsageError` that lists every problem with the predictors and the plan.
    """
    found: list[BranchRankError] = []
    made: dict[object, PlannedSystem | BenchmarkPredictor | None] = {}
    left_out: dict[str, str] = {}
    settings, repeats = plan.settings, plan.settings.part(LLMSettings).repeats
    for number, thing in enumerate(predictors):
        if isinstance(thing, System):
            made[number] = planned_system(thing, repeats=repeats)
        elif not isinstance(thing, str):
            made[number] = _attempt(found, partial(predictor_of, thing))
        elif ":" in thing:
            made[number] = _attempt(found, partial(outside_predictor, thing))
        elif thing == "api":
            made[number] = _attempt(found, partial(endpoint_predictor, api_endpoint, api_predictor))
        else:
            for system in _attempt(found, partial(builtin_systems, (thing,), settings)) or ():
                try:
                    if thing in GROUPS:
                        check_embedder(system, settings.part(IndexSettings).embedder)
                    made.setdefault(system.name, planned_system(system, repeats=repeats))
                except UsageError as error:
                    left_out[system.name] = f"{system.name} is left out: {error.message}"
    plan = msgspec.structs.replace(
        plan,
        settings=with_depth(settings),
        predictors=tuple(each for each in made.values() if each is not None),
        indexes={DEFAULT_INDEX: settings},
        left_out=tuple(left_out.values()),
    )
    if found:
        raise combined(found + (_checked(plan)[0] if plan.predictors else []))
    return plan


def outside_predictor(
    origin: str, name: str = "", llm: str = "", index: str = DEFAULT_INDEX, *, dry_run: bool = False
) -> BenchmarkPredictor:
    """Return the predictor for ``module:Class``, ``langchain:module:retriever``, ``trec:FILE`` or a command.

    If ``dry_run`` is true, the predictor can only be counted, and no code is run. Raises the errors of
    :func:`~branchrank.runs.bench.predictors.load_class_predictor`, of :class:`TrecPredictor` and of
    :class:`CommandPredictor`.
    """
    if origin.startswith(TREC):
        from branchrank.runs.bench.trec_predictor import TrecPredictor

        return TrecPredictor(origin.removeprefix(TREC), name, llm)
    if origin.startswith(COMMAND):
        from branchrank.runs.bench.command_predictor import AgentCommand, CommandPredictor

        return CommandPredictor(AgentCommand.of(origin), name, llm, index)
    return UnopenedPredictor(origin, name, llm) if dry_run else load_class_predictor(origin, name, llm, index)


def endpoint_predictor(
    url: str, target: str, name: str = "api", llm: str = "", *, from_file: bool = False
) -> ApiPredictor:
    """Return the ``api`` predictor for ``url``, with the token that :func:`key_for` selects.

    ``from_file`` is true if the URL comes from an experiment file, and not from a flag or a trusted run.

    Raises :class:`UsageError` if ``url`` is empty or is not an HTTP URL.
    """
    if not url:
        raise UsageError(
            "--predictor api needs an endpoint", remedy="--api-endpoint http://127.0.0.1:8000/retrieve"
        )
    from branchrank.core.io.keys import key_for

    token = key_for("API", url, os.environ, explicit=not from_file)
    return ApiPredictor(url, target=target, token=token, name=name, llm=llm or NOT_REPORTED)


class PredictorEstimate(Record, frozen=True, kw_only=True):
    """One predictor's number of queries in the quality pass, and upper bounds for its LLM calls and cost.

    ``index`` is empty if the predictor does not use an index. ``model`` is empty and ``llm`` is ``None`` if
    the predictor does not use an LLM. ``cost`` is ``None`` if the model's price is not known.
    """

    predictor: str
    queries: int
    index: str = ""
    model: str = ""
    llm: CallBounds | None = None
    cost: float | None = None


class PlanEstimate(Record, frozen=True, kw_only=True):
    """The estimate for a plan, with one entry per predictor.

    ``to_build`` says of each index that is missing or stale why the run would build it first.
    """

    experiment: str
    questions: int
    predictors: tuple[PredictorEstimate, ...]
    prices: PriceTable | None = None
    to_build: tuple[str, ...] = ()


def estimate_plan(plan: Plan) -> PlanEstimate:
    """Check a plan, and estimate its number of queries and its LLM cost.

    No index is built, no server is contacted, and no code that an experiment file names is run.

    Raises the same errors as :func:`~branchrank.runs.bench.plan.check_plan`, and those of an index that the
    run could neither open nor build.
    """
    from branchrank.search.systems.llm_choice import estimate

    questions = len(check_plan(plan, dry_run=True).questions)
    settings = plan.settings.part(LLMSettings)
    prices = read_prices(Path(settings.price_table)) if settings.price_table else None
    rows = []
    for each in plan.records:
        system, queries = each.system, questions * each.repeats
        row = PredictorEstimate(predictor=each.name, queries=queries, index=each.index)
        if system is not None and system.asks_llm:
            llm = estimate(system, queries, settings.completion_tokens)
            spent = (llm.prompt_tokens, llm.completion_tokens)
            cost = prices.cost_of(system.llm.model, *spent) if prices is not None else None
            row = msgspec.structs.replace(row, model=system.llm.model, llm=llm, cost=cost)
        rows.append(row)
    return PlanEstimate(
        experiment=plan.experiment,
        questions=questions,
        predictors=tuple(rows),
        prices=prices,
        to_build=tuple(_to_build(plan)),
    )


def _to_build(plan: Plan) -> Iterator[str]:
    for name in plan.searched:
        own = plan.workspace(name)
        try:
            # To compare a chunker that is code with that of the index would import the chunker's package.
            (own.generations.pin() if is_code(own.index_settings.chunker) else open_index(own)).close()
        except (BusyError, LostCollectionError):
            raise
        except ArtifactError as error:
            yield error.message
