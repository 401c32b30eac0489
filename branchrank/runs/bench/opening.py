"""Open the LLM endpoints, indexes, engines and predictors of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import zip_longest
from pathlib import Path

import msgspec

from branchrank.core.errors import BranchRankError, QuestionError, Remedy, UsageError
from branchrank.core.io.progress import Notify, Progress, no_notice, no_progress
from branchrank.core.records import Question, Record
from branchrank.core.settings import AnchoringSettings, BenchmarkSettings
from branchrank.core.spec import System
from branchrank.documents.loading import corpus_lines
from branchrank.index.generations import CHUNKS
from branchrank.index.reader import Index, open_index, open_or_build
from branchrank.index.stores.vectors import recall_against_exact
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.questions.anchoring import changed_gold, gold_repair, reanchor
from branchrank.questions.question_files import check_sources, path_ends
from branchrank.runs.bench.places import HitPlaces
from branchrank.runs.bench.plan import Plan, PlannedSystem
from branchrank.runs.bench.predictors import (
    ApiPredictor,
    BenchmarkPredictor,
    ClassPredictor,
    SystemPredictor,
    Untraced,
)
from branchrank.runs.directory import IndexFacts, PredictorRecord
from branchrank.search.llm.ledger import LLMMeter
from branchrank.search.systems.branches import branch_kind
from branchrank.search.systems.engine import Engine
from branchrank.search.systems.memo import Memo
from branchrank.search.systems.query import LLMStages, open_llm, read_filters


class OpenPlan(Record, frozen=True, kw_only=True):
    """The open predictors, indexes and engines of a plan."""

    plan: Plan
    questions: tuple[Question, ...]
    #: The records and the predictors are in the plan's order.
    records: tuple[PredictorRecord, ...]
    predictors: tuple[BenchmarkPredictor, ...]
    #: Uncached copies of the predictors, for the latency pass.
    unmemoized: tuple[BenchmarkPredictor, ...]
    #: The folder with the documents.
    corpus: Path | None = None
    places: HitPlaces | None = None
    #: The indexes and the engines, by the index's name.
    indexes: dict[str, Index] = msgspec.field(default_factory=dict)
    engines: dict[str, Engine] = msgspec.field(default_factory=dict)
    stages: LLMStages = msgspec.field(default_factory=LLMStages)
    #: Counts the LLM calls that workers make.
    meter: LLMMeter = msgspec.field(default_factory=LLMMeter)

    @property
    def settings(self) -> BenchmarkSettings:
        """The settings of the benchmark."""
        return self.plan.settings.part(BenchmarkSettings)

    @property
    def memos(self) -> tuple[Memo, ...]:
        """One memo (a cache of stage results) for each engine."""
        return tuple(engine.memo for engine in self.engines.values())

    def load_models(self) -> None:
        """Load the models for vector search before workers are started.

        A worker uses as many PyTorch threads as this process, whose number of threads is known only after
        PyTorch is loaded.
        """
        for name, index in self.indexes.items():
            if searches_vectors(self.plan.systems_on(name)):
                _ = index.embedder

    def measured(self, facts: IndexFacts) -> IndexFacts:
        """Add the recall of the vector store to ``facts`` if the vector search is approximate.

        The recall is the share of the nearest chunks that the store finds. If the recall can't be measured,
        for example because a question can't be embedded, only ``recall_depth`` is added.
        """
        depth = searches_vectors(self.plan.systems_on(facts.name))
        if facts.vector_store == "exact" or not depth:
            return facts
        engine, index = self.engines[facts.name], self.indexes[facts.name]
        recall = None
        with suppress(BranchRankError):
            vectors = [engine.sources.embedding(question.question) for question in self.questions]
            recall = recall_against_exact(index.vectors, index.exact_vectors, vectors, depth)
        return msgspec.structs.replace(facts, recall=recall, recall_depth=depth)


def searches_vectors(systems: Iterable[System]) -> int:
    """Return the largest number of hits that any system requests from a vector search (0 for none).

    >>> from branchrank.core.settings.systems import LOCAL
    >>> searches_vectors([LOCAL])
    40
    """
    searched = (branch for system in systems for branch in system.searched)
    return max((each.top_n for each in searched if branch_kind(each.kind).needs_vector), default=0)


@contextmanager
def open_plan(
    plan: Plan,
    questions: Sequence[Question],
    *,
    progress: Progress = no_progress,
    notify: Notify = no_notice,
    status: Notify = no_notice,
    build: bool = True,
) -> Iterator[OpenPlan]:
    """Open a plan's endpoints, indexes and predictors, and close them at the end of the ``with`` block.

    Endpoints are checked first, because this check is fast and building an index may be slow. A missing or
    stale index is built if ``build`` is true, and is an error otherwise. Raises :class:`QuestionError` for
    gold outside the corpus, and any error that occurs when an endpoint, a model, an index or a branch is
    opened.
    """
    for each in plan.predictors:
        if isinstance(each, ApiPredictor):
            each.check()
    for kind in {branch.kind for system in plan.systems for branch in system.searched}:
        branch_kind(kind).require(plan.settings)
    with ExitStack() as opened:
        meter = LLMMeter(status)
        folder = WorkspaceFolder(plan.data_dir, plan.settings, notify, content=plan.config)
        asked = [system.llm for system in plan.systems if system.asks_llm]
        stages = opened.enter_context(open_llm(folder, asked, meter=meter))
        indexes: dict[str, Index] = {}
        engines: dict[str, Engine] = {}
        uncached: dict[str, Engine] = {}  # for the latency pass
        for name in plan.searched:
            index = opened.enter_context(_open_index(plan, name, notify, progress, build))
            indexes[name] = index
            check_gold(questions, index, folder, plan)
            if searches_vectors(plan.systems_on(name)):
                _ = index.vectors  # a damaged collection raises an error before the first question
            cache = opened.enter_context(closing(folder.open_cache()))
            corpus = (index, folder.corpus_root, plan.indexes[name])
            engines[name] = Engine(
                *corpus, memo=Memo(), cache=cache, open_token_cache=folder.open_token_cache, llm_stages=stages
            )
            uncached[name] = Engine(*corpus, memo=Memo(one_query=True), llm_stages=stages)
            engines[name].others, uncached[name].others = engines, uncached
            opened.callback(engines[name].close)
            opened.callback(uncached[name].close)
        check_chunks(plan, indexes)

        def known_indexes() -> Sequence[Index]:
            return list(indexes.values()) or [opened.enter_context(open_index(folder))]

        for outside in plan.predictors:
            if not isinstance(outside, Untraced):
                continue
            outside.pass_env = plan.pass_env
            if name := outside.index:
                corpus = (indexes[name], folder.corpus_root, plan.indexes[name])
                outside.engine = opened.enter_context(Engine(*corpus))
            outside.open(folder.corpus_root, known_indexes, questions)
        similarity = plan.settings.part(AnchoringSettings).min_similarity
        yield OpenPlan(
            plan=plan,
            questions=tuple(questions),
            records=plan.records,
            predictors=_predictors(plan, engines),
            unmemoized=_predictors(plan, uncached),
            corpus=folder.corpus_root,
            places=HitPlaces(folder.corpus_root, folder.exclude, similarity),
            indexes=indexes,
            engines=engines,
            stages=stages,
            meter=meter,
        )


def _open_index(plan: Plan, name: str, notify: Notify, progress: Progress, build: bool) -> Index:
    """Open an index. If ``build`` is true, it is built first where it lacks what the plan needs of it."""
    workspace = plan.workspace(name, notify)

    def rebuild() -> Index:
        from branchrank.index.index_build import build_index

        return build_index(workspace, progress=progress)

    if not build:
        return open_index(workspace)
    index = open_or_build(workspace, rebuild)
    rescores = plan.rescores_on(name) and workspace.index_settings.chooses_tokens
    if not rescores or index.token_vectors is not None:
        return index
    index.close()
    return rebuild()


def _predictors(plan: Plan, engines: Mapping[str, Engine]) -> tuple[BenchmarkPredictor, ...]:
    """Return the plan's predictors, with systems that run on these engines."""
    filters = read_filters(plan.filters)
    for each in plan.predictors:
        if isinstance(each, ClassPredictor):
            each.limit(plan.settings.part(BenchmarkSettings).predictor_timeout)
    return tuple(
        SystemPredictor(each.system, engines[each.index], filters)
        if isinstance(each, PlannedSystem)
        else each
        for each in plan.predictors
    )


def check_chunks(plan: Plan, indexes: Mapping[str, Index]) -> None:
    """Raise :class:`UsageError` if a system searches two indexes that have different chunks."""
    for each in plan.planned:
        own = indexes[each.index]
        for name in each.system.other_indexes:
            if own.manifest.digests[CHUNKS] == indexes[name].manifest.digests[CHUNKS]:
                continue
            pairs = zip_longest(own.chunks.stream(), indexes[name].chunks.stream())
            first = next((pair for pair in pairs if pair[0] != pair[1]), None)
            if first is not None:
                places = (chunk.span.citation if chunk else "none" for chunk in first)
                raise UsageError(
                    f"system {each.name!r} cannot fuse chunks of the indexes {each.index!r} and {name!r}, "
                    f"because they differ ({_cut(own)}, and {_cut(indexes[name])}); the first difference is "
                    f"{' and '.join(places)}",
                    remedy="use the same chunker, chunk_tokens and chunk_overlap for both indexes",
                )


def _cut(index: Index) -> str:
    """Return how an index divides the documents, for error messages."""
    manifest = index.manifest
    tokens = manifest.embedder.chunk_tokens(manifest.settings.chunk_tokens)
    return f"{manifest.chunks} chunks with chunker = {manifest.settings.chunker} and chunk_tokens = {tokens}"


def check_gold(questions: Sequence[Question], index: Index, folder: WorkspaceFolder, plan: Plan) -> None:
    """Raise :class:`QuestionError` if gold is outside the corpus, or has changed since it was recorded."""
    line_counts: dict[str, int] = {}
    named = {source for each in questions for source in each.source_aliases}
    named |= {item.source_file for each in questions for item in each.gold}
    named |= {end for source in named for end in path_ends(source)}
    for node in index.tree.of_sources(named):
        line_counts[node.source] = max(line_counts.get(node.source, 0), node.line_end or 0)
    found = check_sources(questions, line_counts) or changed_gold(questions, folder.corpus_root, line_counts)
    if found:
        more = [f"... and {len(found) - 10} more"] if len(found) > 10 else []
        moved = reanchor(questions, corpus_lines(folder.corpus_root, folder.exclude)).moved
        raise QuestionError(
            "\n".join([f"{plan.questions_file} does not match the corpus:", *found[:10], *more]),
            remedy=(
                gold_repair(plan.questions_file, plan.data_dir, moves=bool(moved)),
                Remedy("leave the file as it is and use {}", "--reanchor"),
            ),
        )
