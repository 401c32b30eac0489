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
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from branchrank.core.execution import Executor
from branchrank.core.execution.executors import InProcess, open_executor
from branchrank.core.io.files import write_jsonl
from branchrank.core.io.progress import Notify, Progress, no_notice, no_progress
from branchrank.core.records import Question, Record
from branchrank.questions.question_files import hashed, sample_questions, write_questions
from branchrank.runs import directory as names
from branchrank.runs.bench.answering import quality_pass
from branchrank.runs.bench.latency_pass import latency_pass
from branchrank.runs.bench.opening import OpenPlan, open_plan
from branchrank.runs.bench.plan import Plan, check_plan
from branchrank.runs.bench.record import check_seal, run_record
from branchrank.runs.bench.trec_predictor import TrecPredictor
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
from branchrank.runs.slices import gold_facts
from branchrank.runs.tables import write_tables
from branchrank.runs.timings import Timing, read_timings, write_timings
from branchrank.runs.warnings import warnings_of

#: A function that writes the report of a run.
Publish = Callable[[RunData], object]


class BenchmarkOptions(Record, frozen=True, kw_only=True):
    """How a plan is run.

    By default, an interrupted run of the same plan under ``plan.reports`` is resumed. A new run is started if
    ``fresh`` is true or if a predictor is a Python object, whose state is not recorded. ``resume`` is the
    directory of an interrupted run, whose plan :func:`~branchrank.runs.bench.resume.plan_from_run` returns.
    If ``resume`` is set, no index is built. ``seal`` is the file with the plan's seal
    (:mod:`branchrank.runs.bench.record`). ``status`` is called with each new status line, such as the costs.
    """

    fresh: bool = False
    resume: str | Path | None = None
    seal: str | Path | None = None
    notify: Notify = no_notice
    progress: Progress = no_progress
    status: Notify = no_notice


def run_plan(
    plan: Plan,
    options: BenchmarkOptions = BenchmarkOptions(),  # noqa: B008  (a frozen record)
    publish: Publish = lambda run: None,
) -> RunData:
    """Run a plan and write the run's directory; ``publish`` writes the report.

    The run is finished once ``publish`` returns. If the process exits before the run is finished, the next
    command resumes the run and writes the report.

    Raises the errors of :func:`check_plan` and :func:`~branchrank.runs.bench.opening.open_plan` before any
    work starts. Raises :class:`~branchrank.core.errors.RunError` if the run in ``options.resume`` has a
    different plan.
    """
    questions = check_plan(plan)
    sealed_by = check_seal(plan, questions, Path(options.seal)) if options.seal is not None else None
    with (
        open_executor(plan.settings, options.notify) as executor,
        open_plan(
            plan,
            questions,
            progress=options.progress,
            notify=options.notify,
            status=options.status,
            build=options.resume is None,
        ) as opened,
    ):
        if not executor.in_process:
            opened.load_models()
        run = replace(run_record(plan, opened, questions), seal=sealed_by)
        if not plan.is_repeatable:
            options = replace(options, fresh=True)
        return run_opened(run, opened, questions, plan.reports, options, publish, executor)


def run_opened(
    run: RunRecord,
    opened: OpenPlan,
    questions: Sequence[Question],
    reports: Path,
    options: BenchmarkOptions,
    publish: Publish = lambda run: None,
    executor: Executor = InProcess(),  # noqa: B008  (without state)
) -> RunData:
    """Run opened predictors in a new run under ``reports``, or complete an interrupted run.

    Raises :class:`~branchrank.core.errors.RunError` if the run to resume has a different plan or is finished.
    """
    begun = _interrupted(run, reports, options)
    directory = (begun or new_directory(reports, run.experiment, run.seed)).absolute()
    shown = questions if opened.settings.question_text == "keep" else list(map(hashed, questions))
    gold = gold_facts(questions, opened.corpus) if opened.corpus is not None else ()
    with RowLog(directory / run.rows_file) as log:
        if begun is None:
            write_questions(directory / names.QUESTIONS, shown)
            write_run(directory, run)
        else:
            options.notify(f"resuming the interrupted run {directory}")
            clear_temporary(directory)
            first = read_run(directory)
            run = replace(run, created=first.created)
            if options.resume is not None:
                run = replace(first, provenance=run.provenance, indexes=run.indexes)
            opened.stages.keep_failures(call for row in log.rows.values() for call in row.calls)
        if log.torn:
            options.notify(f"{log.path}: the last row is incomplete, so its question is answered again")
        run = replace(run, resumed_rows=len(log.rows))
        rows, computed, reused = quality_pass(opened, questions, log, executor, options.progress)
        opened.stages.keep_failures(call for row in rows for call in row.calls)
        timings = _timings(directory, opened, questions, rows, options.progress)
        log.rewrite(rows)
        # The log stays locked until the run's status is `finished`, so that no other process resumes the run.
        finished = replace(
            run,
            status="finished",
            indexes=tuple(opened.measured(facts, questions) for facts in run.indexes),
            computed=dict(sorted(sum((memo.computed for memo in opened.memos), computed).items())),
            reused=dict(sorted(sum((memo.reused for memo in opened.memos), reused).items())),
            failures=sum(row.status == "failed" for row in rows),
            fallbacks=sum(bool(row.fallbacks) for row in rows),
        )
        measured = RunData(
            directory=directory,
            record=replace(finished, warnings=warnings_of(rows, finished, shown)),
            rows=tuple(rows),
            asked=tuple(shown),
            timed=tuple(timings),
            gold_facts=tuple(gold),
        )
        write_jsonl(directory / names.GOLD, measured.gold_facts)
        write_tables(measured)
        publish(measured)
        done = sealed(directory, measured.record)
        write_run(directory, done)
        return dataclasses.replace(measured, record=done)


def _interrupted(run: RunRecord, reports: Path, options: BenchmarkOptions) -> Path | None:
    """Check and return the directory of the interrupted run to resume; return ``None`` for a new run."""
    if options.resume is not None:
        begun: Path | None = check_resumable(Path(options.resume), run.plan)
    else:
        begun = None if options.fresh else latest_unfinished(reports, run.plan)
    if begun is not None:
        check_files(begun)
    return begun


def _timings(
    directory: Path,
    opened: OpenPlan,
    questions: Sequence[Question],
    rows: Sequence[Row],
    progress: Progress,
) -> list[Timing]:
    """Return the run's timings, from the latency pass or from the ``timings.csv`` of a resumed run."""
    path = directory / names.TIMINGS_CSV
    if path.exists():
        return read_timings(path)
    settings = opened.settings
    size = min(settings.latency_sample, len(questions))
    timings = latency_pass(
        [each for each in opened.unmemoized if not isinstance(each, TrecPredictor)],
        sample_questions(questions, size, settings.sample_seed) if size else [],
        settings,
        progress,
        {(row.predictor, row.question_id) for row in rows if row.status == "failed" and not row.repeat},
    )
    write_timings(path, timings)
    return timings
