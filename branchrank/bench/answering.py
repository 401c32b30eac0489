"""Answer the questions of a run in shards, in this process or in workers.

1. A shard contains :data:`SHARD` consecutive questions. All predictors answer the questions of a shard in the
   same process, so that the predictors share memoized results.
2. The process that opened the plan reuses its open predictors. A worker process opens the plan again and
   checks the digests of the plan's indexes.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from branchrank.bench.answers import answer
from branchrank.bench.experiment import PlannedSystem
from branchrank.bench.opening import open_plan
from branchrank.bench.plan import Plan
from branchrank.bench.predictors import BenchmarkPredictor
from branchrank.errors import ArtifactError
from branchrank.index import Index
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.io.artifacts import digest_of
from branchrank.io.progress import no_notice, no_progress
from branchrank.llm.shards import files_of, with_relative_files
from branchrank.records import Question, Record
from branchrank.runs.rows import Row
from branchrank.systems.memo import Memo

#: The number of questions in a shard.
SHARD = 4


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
    """A task that answers shards of questions and yields one :class:`Answered` for each row.

    A task without a ``plan`` can't be sent to a worker process.
    """

    def __init__(
        self,
        predictors: Sequence[BenchmarkPredictor],
        memos: Sequence[Memo],
        *,
        top_k: int,
        trace_depth: int,
        plan: Plan | None = None,
        indexes: Mapping[str, Index] | None = None,
    ) -> None:
        self._opened: tuple[Sequence[BenchmarkPredictor], Sequence[Memo]] | None = (predictors, memos)
        self._top_k = top_k
        self._trace_depth = trace_depth
        self._plan = plan
        self._digests = {name: digest_of(index.manifest) for name, index in (indexes or {}).items()}

    @property
    def needs(self) -> tuple[Path, ...]:
        """The paths that a worker reads (the plan's workspace, documents and cassette)."""
        return () if self._plan is None else tuple(_paths(self._plan))

    def __getstate__(self) -> dict[str, object]:
        if self._plan is None:
            raise TypeError("a task without a plan can't be sent to a worker")
        return {**self.__dict__, "_opened": None, "_plan": _portable(self._plan)}

    @contextmanager
    def open(self) -> Iterator[Callable[[Sequence[Wanted]], Iterator[Answered]]]:
        """Yield a function that answers the questions in a shard."""
        if self._opened is not None:
            yield self._work(*self._opened)
            return
        assert self._plan is not None
        with open_plan(
            self._plan, (), progress=no_progress, notify=no_notice, status=no_notice, build=False
        ) as opened:
            for name, index in opened.indexes.items():
                if digest_of(index.manifest) != self._digests.get(name):
                    raise ArtifactError(
                        f"the index {name!r} in {self._plan.data_dir} was changed during the run",
                        remedy="run the command again, and do not rebuild the index during the run",
                    )
            yield self._work([each.predictor for each in opened.predictors], opened.memos)

    def _work(
        self, predictors: Sequence[BenchmarkPredictor], memos: Sequence[Memo]
    ) -> Callable[[Sequence[Wanted]], Iterator[Answered]]:
        def work(shard: Sequence[Wanted]) -> Iterator[Answered]:
            for wanted in shard:
                for number, repeat in wanted.answers:
                    row = answer(predictors[number], wanted.question, self._top_k, repeat, self._trace_depth)
                    yield Answered(row=row, **_taken(memos))

        return work


def shards_of(wanted: Iterable[Wanted]) -> list[tuple[Wanted, ...]]:
    """Divide the questions into shards, and omit fully answered questions and empty shards."""
    every = list(wanted)
    parts = (every[start : start + SHARD] for start in range(0, len(every), SHARD))
    shards = (tuple(each for each in part if each.answers) for part in parts)
    return [shard for shard in shards if shard]


def _taken(memos: Sequence[Memo]) -> dict[str, dict[str, int]]:
    """Return the memos' counts of computed and reused results, and reset these counts to 0."""
    computed: Counter[str] = Counter()
    reused: Counter[str] = Counter()
    for memo in memos:
        computed.update(memo.computed)
        reused.update(memo.reused)
        memo.computed.clear()
        memo.reused.clear()
    return {"computed": dict(computed), "reused": dict(reused)}


def _paths(plan: Plan) -> Iterator[Path]:
    if not any(isinstance(each, PlannedSystem) for each in plan.predictors):
        return
    workspace = WorkspaceFolder(plan.data_dir, plan.settings)
    yield plan.data_dir
    yield workspace.corpus_root
    yield from filter(None, (workspace.chunks_file, workspace.nodes_file, workspace.adoption_file))
    yield from files_of(plan.settings)


def _portable(plan: Plan) -> Plan:
    """Return the plan with paths relative to the working directory, so that workers can open the files."""
    return msgspec.structs.replace(
        plan, data_dir=Path(os.path.relpath(plan.data_dir)), settings=with_relative_files(plan.settings)
    )
