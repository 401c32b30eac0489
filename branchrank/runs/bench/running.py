"""Run a plan: check the plan, answer the questions, and write the run's files.

1. Check the whole plan, and open its endpoints, indexes and predictors.
2. Create the run's directory, or resume an interrupted run of the same plan.
3. Write ``run.json`` with the status ``running`` before any work starts.
4. The quality pass writes ``rows.jsonl``, and the latency pass writes ``timings.csv``.
5. All other files are computed from ``rows.jsonl`` and ``timings.csv``, and the status in ``run.json``
   becomes ``finished``.

The latency pass measures one query at a time, without results of earlier queries, in a seeded random order.

1. Each predictor first answers one question that is timed separately, because the first query of a predictor
   can include one-time work. The index and the models are already open, so the first query is not a cold
   start.
2. Every predictor answers every sampled question. The pairs of predictor and question are shuffled with the
   seed, so that a change in the machine's speed affects all predictors equally.
3. The results are the wall time and CPU time of the whole query and the wall time of each stage, in ms. CPU
   time includes the CPU time of child processes that have exited, such as grep. Time spent waiting for an LLM
   is the stage ``llm wait``, which is not part of the stage ``compute``. For an LLM call that is answered
   from a cache or a cassette, or that failed in the quality pass, the latency of the original call is used,
   so that the latency pass makes no paid calls.
4. All sampled queries are timed ``latency_repeats`` times, each time in a new random order. For each query,
   the repeat with the median total time is used. Each query contributes only one latency, because the
   confidence bound for p95 requires independent measurements. The garbage collector's settings are not
   changed.
5. No query uses memos or cached embeddings of earlier queries, also in a user's own predictor that searches a
   workspace (:func:`~branchrank.search.systems.memo.caches_off`). Queries that fail are counted and not
   timed.
"""

from __future__ import annotations

import dataclasses
import random
import resource
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from branchrank.core.execution import Executor
from branchrank.core.execution.executors import InProcess, open_executor
from branchrank.core.io.files import write_jsonl
from branchrank.core.io.progress import Notify, Progress, no_notice, no_progress, shown_progress
from branchrank.core.records import Question, Record, Retrieval
from branchrank.core.settings import BenchmarkSettings
from branchrank.questions.question_files import hashed, sample_questions, write_questions
from branchrank.runs import directory as names
from branchrank.runs.bench.answering import FATAL, quality_pass, same_hits
from branchrank.runs.bench.opening import OpenPlan, open_plan
from branchrank.runs.bench.places import HitPlaces
from branchrank.runs.bench.plan import Plan, check_plan
from branchrank.runs.bench.predictors import BenchmarkPredictor, SystemPredictor
from branchrank.runs.bench.record import check_seal, planned_record, with_indexes
from branchrank.runs.directory import (
    RunRecord,
    check_resumable,
    clear_temporary,
    latest_unfinished,
    new_directory,
    read_run,
    sealed,
    write_run,
)
from branchrank.runs.rows import Row, RowLog
from branchrank.runs.run_data import RunData
from branchrank.runs.slices import gold_facts, question_words
from branchrank.runs.tables import write_tables
from branchrank.runs.timings import (
    COMPUTE,
    CPU,
    DIFFERENT,
    FAILED,
    FIRST,
    LLM_WAIT,
    TOTAL,
    WARM,
    Timing,
    read_timings,
    write_timings,
)
from branchrank.runs.warnings import warnings_of
from branchrank.search.systems.memo import caches_off

R = TypeVar("R", bound=RunData)
#: The timing of a query that failed, without its predictor and question.
_failed = partial(Timing, phase=FAILED, stage=TOTAL, ms=0.0)


class BenchmarkOptions(Record, frozen=True, kw_only=True):
    """How a plan is run."""

    #: Start a new run. By default, an interrupted run of the same plan under ``plan.reports`` is resumed,
    #: unless a predictor is a Python object, whose state is not recorded.
    fresh: bool = False
    #: The directory of an interrupted run, whose plan :func:`~branchrank.runs.bench.resume.plan_from_run`
    #: returns. No index is built.
    resume: str | Path | None = None
    #: The file with the plan's seal (:mod:`branchrank.runs.bench.record`).
    seal: str | Path | None = None
    #: Called with messages for the user.
    notify: Notify = no_notice
    #: ``True`` to show progress bars, or a function that is called with stage, done and total.
    progress: bool | Progress = False


def run_plan(plan: Plan, options: BenchmarkOptions, kind: type[R]) -> R:
    """Run a plan, write the run's directory, and return the finished run as an instance of ``kind``.

    The run is finished once its method ``publish`` returns. If the process exits before the run is finished,
    the next command resumes the run and writes the report.

    Raises the errors of :func:`check_plan` and :func:`~branchrank.runs.bench.opening.open_plan` before any
    work starts. Raises :class:`~branchrank.core.errors.RunError` if the run in ``options.resume`` has a
    different plan or is finished.
    """
    asked = check_plan(plan)
    planned = planned_record(plan, asked)
    if options.seal is not None:
        planned = replace(planned, seal=check_seal(plan, planned, Path(options.seal)))
    if not plan.is_repeatable:
        options = replace(options, fresh=True)
    with (
        shown_progress(options.progress) as progress,
        open_executor(plan.settings, options.notify) as executor,
        open_plan(
            plan,
            asked.questions,
            progress=progress,
            notify=options.notify,
            status=progress.status,
            build=options.resume is None,
        ) as opened,
    ):
        if not executor.in_process:
            opened.load_models()
        return run_opened(with_indexes(planned, opened), opened, options, kind, executor, progress)


def run_opened(
    planned: RunRecord,
    opened: OpenPlan,
    options: BenchmarkOptions,
    kind: type[R],
    executor: Executor = InProcess(),  # noqa: B008  (without state)
    progress: Progress = no_progress,
) -> R:
    """Run opened predictors in a new run, or complete an interrupted run."""
    begun = _interrupted(planned, opened.plan.reports, options)
    directory = (begun or new_directory(opened.plan.reports, planned.experiment, planned.seed)).absolute()
    keeps = opened.settings.question_text == "keep"
    shown = opened.questions if keeps else tuple(map(hashed, opened.questions))
    root = opened.corpus
    gold = gold_facts(opened.questions, root, question_words(planned)) if root is not None else ()
    digests = {}
    with RowLog(directory / planned.rows_file) as log:
        if begun is None:
            digests[names.QUESTIONS] = write_questions(directory / names.QUESTIONS, shown)
            write_run(directory, planned)
        else:
            options.notify(f"resuming the interrupted run {directory}")
            clear_temporary(directory)
        started = planned if begun is None else _resumed(planned, read_run(directory), log, options)
        if log.torn:
            options.notify(f"{log.path}: the last row is incomplete, so its question is answered again")
        earlier = [call for row in log.rows.values() for call in row.calls]
        opened.stages.keep_failures(earlier)
        for call in earlier:
            opened.meter.add(call)
        rows, computed, reused = quality_pass(opened, opened.questions, log, executor, progress)
        opened.stages.keep_failures(call for row in rows for call in row.calls)
        opened.meter.closed = True  # the latency pass repeats calls that are already counted
        timings = _timings(directory, opened, rows, progress)
        log.rewrite(rows)
        # The log stays locked until the run's status is `finished`, so that no other process resumes the run.
        measured = replace(
            started,
            status="finished",
            indexes=tuple(map(opened.measured, started.indexes)),
            computed=dict(sorted(sum((memo.computed for memo in opened.memos), computed).items())),
            reused=dict(sorted(sum((memo.reused for memo in opened.memos), reused).items())),
            failures=sum(row.status == "failed" for row in rows),
            fallbacks=sum(bool(row.fallbacks) for row in rows),
            llm_notes=tuple(opened.stages.notes),
        )
        run = kind(
            directory=directory,
            record=replace(measured, warnings=warnings_of(rows, measured, shown)),
            rows=tuple(rows),
            asked=tuple(shown),
            timed=tuple(timings),
            gold_facts=tuple(gold),
        )
        digests[names.GOLD] = write_jsonl(directory / names.GOLD, run.gold_facts)
        write_tables(run)
        run.publish()
        finished = dataclasses.replace(run, record=sealed(directory, run.record, digests))
        write_run(directory, finished.record)
        return finished


def _interrupted(planned: RunRecord, reports: Path, options: BenchmarkOptions) -> Path | None:
    """Check and return the directory of the interrupted run to resume; return ``None`` for a new run."""
    if options.resume is not None:
        return check_resumable(Path(options.resume), planned.plan)
    return None if options.fresh else latest_unfinished(reports, planned.plan)


def _resumed(planned: RunRecord, first: RunRecord, log: RowLog, options: BenchmarkOptions) -> RunRecord:
    """Return the record of a run that ``first`` describes as it was started."""
    if options.resume is None:
        return replace(planned, created=first.created, resumed_rows=len(log.rows))
    now = {"provenance": planned.provenance, "indexes": planned.indexes}
    return replace(first, resumed_rows=len(log.rows), **now)


def _timings(directory: Path, opened: OpenPlan, rows: Sequence[Row], progress: Progress) -> list[Timing]:
    """Return the run's timings, from the latency pass or from the ``timings.csv`` of a resumed run."""
    path = directory / names.TIMINGS_CSV
    if path.exists():
        return read_timings(path)
    settings = opened.settings
    size = min(settings.latency_sample, len(opened.questions))
    timings = latency_pass(
        [each for record, each in zip(opened.records, opened.unmemoized, strict=True) if record.is_timed],
        sample_questions(opened.questions, size, settings.sample_seed) if size else [],
        settings,
        progress,
        {(row.predictor, row.question_id): row for row in rows if not row.repeat},
        opened.places,
    )
    write_timings(path, timings)
    return timings


@caches_off()
def latency_pass(
    predictors: Sequence[BenchmarkPredictor],
    questions: Sequence[Question],
    settings: BenchmarkSettings,
    progress: Progress = no_progress,
    rows: Mapping[tuple[str, str], Row] | None = None,
    places: HitPlaces | None = None,
) -> list[Timing]:
    """Measure the latency of every predictor on every question.

    ``rows`` maps the pairs (predictor, question id) to the answers of the quality pass. The pairs that failed
    are counted as failures without being asked again. A class or an endpoint must return the same hits again;
    their places are found in ``places``, after the time is measured.
    """
    rows = rows or {}
    failed = {pair for pair, row in rows.items() if row.status == "failed"}

    def checked(predictor: BenchmarkPredictor, question: Question, retrieval: Retrieval) -> bool:
        row = rows.get((predictor.name, question.id))
        if isinstance(predictor, SystemPredictor) or row is None or row.status == "failed":
            return True
        return same_hits(predictor, question, retrieval, row, places)

    timings: list[Timing] = []
    if not questions:
        return timings
    for predictor in predictors:
        found = timed(predictor, questions[0], settings.top_k, FIRST, checked)
        timings += (timing for timing in found if timing.phase == FIRST)
    order = random.Random(settings.sample_seed)  # noqa: S311 - an order, not a secret
    pairs = [(predictor, question) for question in questions for predictor in predictors]
    timings += (
        _failed(predictor=each.name, question_id=asked.id)
        for each, asked in pairs
        if (each.name, asked.id) in failed
    )
    pairs = [(each, question) for each, question in pairs if (each.name, question.id) not in failed]
    asked: list[list[Timing]] = []
    whole = settings.latency_repeats * len(pairs)
    for _ in range(settings.latency_repeats):
        order.shuffle(pairs)
        for predictor, question in pairs:
            progress("latency", len(asked), whole)
            asked.append(timed(predictor, question, settings.top_k, WARM, checked))
    progress("latency", whole, whole)
    timings += _medians(asked)
    return sorted(timings, key=lambda timing: (timing.predictor, timing.question_id, timing.phase))


def _medians(asked: Iterable[Sequence[Timing]]) -> list[Timing]:
    """For each predictor and question, return the repeat whose total time is the (lower) median.

    Repeats that failed are ignored, unless all repeats failed.
    """
    found: dict[tuple[str, str], list[Sequence[Timing]]] = {}
    for answer in asked:
        found.setdefault((answer[0].predictor, answer[0].question_id), []).append(answer)

    def total(answer: Sequence[Timing]) -> float:
        return next(each.ms for each in answer if each.stage == TOTAL)

    answered = (
        [each for each in answers if each[0].phase == DIFFERENT]
        or [each for each in answers if each[0].phase != FAILED]
        or answers
        for answers in found.values()
    )
    kept = (sorted(answers, key=total)[(len(answers) - 1) // 2] for answers in answered)
    return [timing for answer in kept for timing in answer]


def timed(
    predictor: BenchmarkPredictor,
    question: Question,
    top_k: int,
    phase: str,
    checked: Callable[[BenchmarkPredictor, Question, Retrieval], bool],
) -> list[Timing]:
    """Answer one question, and return the time for each stage and for the whole query.

    A failure is not an answer: it is returned in the phase ``failed``, and its time is 0. An answer that
    ``checked`` does not accept is returned in the phase ``different``. The time of an empty round trip to a
    class in a process of its own is subtracted, and its CPU time is not known.
    """
    wall, cpu = time.perf_counter(), _cpu_seconds()
    try:
        retrieval = predictor.predict(question, top_k)
    except FATAL:
        raise
    except Exception:
        return [_failed(predictor=predictor.name, question_id=question.id)]
    overhead = getattr(predictor, "overhead_ms", 0.0)
    elapsed = max(0.0, 1000.0 * (time.perf_counter() - wall) - overhead)
    spent = 1000.0 * (_cpu_seconds() - cpu)
    if not checked(predictor, question, retrieval):
        return [_failed(predictor=predictor.name, question_id=question.id, phase=DIFFERENT)]
    stages = dict(retrieval.stage_ms)
    waited = sum(call.latency_ms for call in retrieval.calls)
    remembered = sum(
        call.latency_ms for call in retrieval.calls if call.replayed or call.served_by != "server"
    )
    total = elapsed + remembered
    stages |= {TOTAL: total, LLM_WAIT: waited, COMPUTE: max(0.0, total - waited)}
    if not overhead:
        stages[CPU] = spent
    return [
        Timing(predictor=predictor.name, question_id=question.id, phase=phase, stage=stage, ms=round(ms, 4))
        for stage, ms in stages.items()
    ]


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of its child processes that have exited."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
