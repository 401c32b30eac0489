"""Run a plan: check the plan, answer the questions, and write the run's files.

1. Check the whole plan, and open its endpoints, indexes and predictors.
2. Create the run's directory, or resume an interrupted run of the same plan.
3. Write ``run.json`` with the status ``running`` before any work starts.
4. The quality pass writes ``rows.jsonl``, and the latency pass writes ``timings.csv``.
5. All other files are computed from ``rows.jsonl`` and ``timings.csv``, and the status in ``run.json``
   becomes ``finished``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from branchrank.core.execution import Executor
from branchrank.core.execution.executors import InProcess, open_executor
from branchrank.core.io.files import write_jsonl
from branchrank.core.io.progress import Notify, Progress, no_notice, no_progress, shown_progress
from branchrank.core.records import Record
from branchrank.questions.question_files import hashed, sample_questions, write_questions
from branchrank.runs import directory as names
from branchrank.runs.bench.answering import quality_pass
from branchrank.runs.bench.latency_pass import latency_pass
from branchrank.runs.bench.opening import OpenPlan, open_plan
from branchrank.runs.bench.plan import Plan, check_plan
from branchrank.runs.bench.record import check_seal, planned_record, with_indexes
from branchrank.runs.directory import (
    RunRecord,
    check_files,
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
from branchrank.runs.timings import Timing, read_timings, write_timings
from branchrank.runs.warnings import warnings_of

R = TypeVar("R", bound=RunData)


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
        begun: Path | None = check_resumable(Path(options.resume), planned.plan)
    else:
        begun = None if options.fresh else latest_unfinished(reports, planned.plan)
    if begun is not None:
        check_files(begun)
    return begun


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
