"""Answer the questions of a run, in this process or in workers. Every answer becomes a row.

1. Rows of an interrupted run are kept, and their questions are not answered again.
2. The questions are divided into shards of :data:`SHARD` questions. All predictors answer the questions of a
   shard in the same process, so that the predictors share memoized results.
3. The process that opened the plan reuses its open predictors. A worker process opens the plan again and
   checks the digests of the plan's indexes.
4. A failed query becomes a row with the error message, and counts as a miss in every hit rate.
5. Ctrl-C and SIGTERM end the pass between rows, and finished rows are kept. If a pass with several workers is
   interrupted, the answers of unfinished shards are lost.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import msgspec

from branchrank.core.errors import (
    ArtifactError,
    BranchRankError,
    ChildError,
    ReplayError,
    StorageError,
    UsageError,
)
from branchrank.core.execution import Executor
from branchrank.core.io.printable import hide_credentials
from branchrank.core.io.progress import Progress
from branchrank.core.records import AgentLog, Question, Record, Retrieval, StageTrace
from branchrank.runs.attribution import DEPTH, agent_trace, gold_passages, gold_ranks, lost_at, unseen_groups
from branchrank.runs.bench.opening import OpenPlan, open_plan
from branchrank.runs.bench.places import HitPlaces
from branchrank.runs.bench.predictors import BenchmarkPredictor, SystemPredictor
from branchrank.runs.rows import Row, RowLog
from branchrank.runs.scores import judged_hits
from branchrank.search.llm.request import BudgetError
from branchrank.search.systems.memo import Memo

#: The number of questions in a shard.
SHARD = 4
#: Errors that stop the whole run.
FATAL = (BudgetError, ReplayError, StorageError, UsageError)


class Wanted(Record, frozen=True, kw_only=True):
    """A question, and a pair (predictor's position in the plan, repeat number) for each missing answer."""

    question: Question
    answers: tuple[tuple[int, int], ...]


class Answered(Record, frozen=True, kw_only=True):
    """A row, and the numbers of computed and reused results for each stage."""

    row: Row
    computed: dict[str, int]
    reused: dict[str, int]


class AnsweringTask:
    """A task that answers shards of questions and yields one :class:`Answered` for each row."""

    def __init__(self, opened: OpenPlan) -> None:
        self._opened: OpenPlan | None = opened
        self._plan = opened.plan
        self._digests = {name: index.manifest.digest for name, index in opened.indexes.items()}

    @property
    def needs(self) -> tuple[Path, ...]:
        """The paths that a worker reads (the plan's workspace, documents and cassette)."""
        from branchrank.search.llm.session import files_of

        workspace = self._plan.folder
        files = (workspace.given("chunks"), workspace.given("nodes"), workspace.given("adoption"))
        return (
            self._plan.data_dir,
            workspace.corpus_root,
            *filter(None, files),
            *files_of(self._plan.settings),
        )

    def __getstate__(self) -> dict[str, object]:
        from branchrank.search.llm.session import with_relative_files

        plan = self._plan  # with relative paths, so that workers on other machines can open the files
        portable = msgspec.structs.replace(
            plan, data_dir=Path(os.path.relpath(plan.data_dir)), settings=with_relative_files(plan.settings)
        )
        return {**self.__dict__, "_opened": None, "_plan": portable}

    @contextmanager
    def open(self) -> Iterator[Callable[[Sequence[Wanted]], Iterator[Answered]]]:
        """Yield a function that answers the questions in a shard."""
        if self._opened is not None:
            yield partial(self._answers, self._opened)
            return
        with open_plan(self._plan, (), build=False) as opened:
            for name, index in opened.indexes.items():
                if index.manifest.digest != self._digests.get(name):
                    raise ArtifactError(
                        f"the index {name!r} in {self._plan.data_dir} was changed during the run",
                        remedy="run the command again, and do not rebuild the index during the run",
                    )
            yield partial(self._answers, opened)

    def _answers(self, opened: OpenPlan, shard: Sequence[Wanted]) -> Iterator[Answered]:
        for wanted in shard:
            for number, repeat in wanted.answers:
                top_k, trace_depth = opened.settings.top_k, opened.settings.trace_depth
                asked = (opened.predictors[number], wanted.question, top_k, repeat, trace_depth)
                yield Answered(row=answer(*asked, places=opened.places), **_taken(opened.memos))


def quality_pass(
    opened: OpenPlan, questions: Sequence[Question], log: RowLog, executor: Executor, progress: Progress
) -> tuple[list[Row], Counter[str], Counter[str]]:
    """Answer every question with every predictor.

    Returns the rows, and the numbers of computed and of reused results by stage. Rows are sorted by question,
    predictor and repeat, even in a resumed run.
    """
    pairs = [
        (number, each.name, repeat)
        for number, each in enumerate(opened.records)
        for repeat in range(each.repeats)
    ]
    wanted = []
    for question in questions:
        missing = (
            (number, repeat) for number, name, repeat in pairs if (question.id, name, repeat) not in log.rows
        )
        wanted.append(Wanted(question=question, answers=tuple(missing)))
    total = len(questions) * len(pairs)
    done = total - sum(len(each.answers) for each in wanted)
    computed: Counter[str] = Counter()
    reused: Counter[str] = Counter()
    progress("questions", done, total)
    # The LLM stages of this process count the calls of its systems.
    counted = {each.name for each in opened.records if each.system is not None and executor.in_process}
    for answered in executor.map(AnsweringTask(opened), shards_of(wanted)):
        log.append(answered.row)
        if answered.row.predictor not in counted:
            for call in answered.row.calls:
                opened.meter.add(call)
        computed.update(answered.computed)
        reused.update(answered.reused)
        done += 1
        progress("questions", done, total)
    rows = [log.rows[question.id, name, repeat] for question in questions for _, name, repeat in pairs]
    return rows, computed, reused


def shards_of(wanted: Iterable[Wanted]) -> list[tuple[Wanted, ...]]:
    """Divide the questions into shards, and omit fully answered questions and empty shards."""
    every = list(wanted)
    parts = (every[start : start + SHARD] for start in range(0, len(every), SHARD))
    shards = (tuple(each for each in part if each.answers) for part in parts)
    return [shard for shard in shards if shard]


def answer(
    predictor: BenchmarkPredictor,
    question: Question,
    top_k: int,
    repeat: int = 0,
    trace_depth: int = 20,
    *,
    places: HitPlaces | None = None,
) -> Row:
    """Answer one question, and return a failed row for any exception that is not in :data:`FATAL`.

    The lines and the text of hits that a system did not make are those of the documents of ``places``.
    """
    row = Row(question_id=question.id, predictor=predictor.name, llm=predictor.llm, repeat=repeat)
    try:
        retrieval, counts = _placed(predictor, predictor.predict(question, top_k, repeat), places)
    except FATAL:
        raise
    except Exception as error:
        told = error.message if isinstance(error, ChildError) else f"{type(error).__name__}: {error}"
        reason = hide_credentials(told.splitlines()[0], os.environ)
        log = getattr(error, "agent", None)
        steps = log if isinstance(log, AgentLog) else msgspec.UNSET
        return msgspec.structs.replace(row, status="failed", error=reason, agent=steps)
    hits = judged_hits(retrieval.hits, question)
    removed = retrieval.removed + len(retrieval.hits) - len(hits)
    agent, trace = retrieval.agent, retrieval.trace
    if agent is not None and not trace:
        trace = agent_trace(agent, retrieval.hits)
    stages = tuple(dict.fromkeys(stage.stage for stage in trace))
    passages = gold_passages(question, trace, places.lines) if places else {}
    ranks = gold_ranks(trace, predictor.gold_keys(question) | passages.keys())
    found = any(hit.gold is not None for hit in hits[:DEPTH])
    return msgspec.structs.replace(
        row,
        hits=hits[:top_k],
        excluded=removed or msgspec.UNSET,
        **{name: count for name, count in counts.items() if count},
        trace=tuple(shortened(stage, trace_depth) for stage in trace if trace_depth),
        stages=stages,
        gold_ranks=ranks,
        lost=lost_at(stages, ranks, found, answered=agent is None or agent.answered)
        if stages and question.answerable
        else "",
        calls=tuple(msgspec.structs.replace(call, replayed=False) for call in retrieval.calls),
        fallbacks=retrieval.fallbacks,
        agent=msgspec.UNSET if agent is None else msgspec.structs.replace(agent, text=""),
        unseen=unseen_groups(question, trace, passages) or msgspec.UNSET,
    )


def _placed(
    predictor: BenchmarkPredictor, retrieval: Retrieval, places: HitPlaces | None
) -> tuple[Retrieval, dict[str, Any]]:
    """Return a result with the places of its hits, and the fields of a row about hits that need a remark."""
    if places is None or isinstance(predictor, SystemPredictor):
        return retrieval, {}
    hits, counts = places.placed(retrieval)
    return msgspec.structs.replace(retrieval, hits=hits), counts


def same_hits(
    predictor: BenchmarkPredictor,
    question: Question,
    retrieval: Retrieval,
    row: Row,
    places: HitPlaces | None,
) -> bool:
    """Return whether the hits of a result are at the places of the hits of a row."""
    try:
        hits = judged_hits(_placed(predictor, retrieval, places)[0].hits, question)
    except BranchRankError:
        return False
    return [hit.span for hit in hits[: len(row.hits)]] == [hit.span for hit in row.hits]


def shortened(stage: StageTrace, depth: int) -> StageTrace:
    """Return the first ``depth`` entries of a stage's list, with scores rounded to nine decimals."""
    return StageTrace(
        stage=stage.stage,
        unit=stage.unit,
        keys=stage.keys[:depth],
        scores=_rounded(stage.scores[:depth]),
    )


# The rounded scores are cached, because predictors that have a stage in common have equal scores.
@lru_cache(maxsize=4096)
def _rounded(scores: tuple[float, ...]) -> tuple[float, ...]:
    """Round scores to nine decimals."""
    return tuple(round(score, 9) for score in scores)


def _taken(memos: Sequence[Memo]) -> dict[str, dict[str, int]]:
    """Return the memos' counts of computed and reused results, and reset these counts to 0."""
    taken: dict[str, dict[str, int]] = {}
    for name in ("computed", "reused"):
        counts: list[Counter[str]] = [getattr(memo, name) for memo in memos]
        taken[name] = dict(sum(counts, Counter()))
        for each in counts:
            each.clear()
    return taken
