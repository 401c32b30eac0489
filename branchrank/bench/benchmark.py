"""Run a plan: check the plan, answer the questions, and write the run's files.

1. Check the whole plan, and open its endpoints, indexes and predictors.
2. Create the run's directory, or resume an interrupted run of the same plan.
3. Write ``run.json`` with the status ``running`` before any work starts.
4. The quality pass writes ``rows.jsonl``, and the latency pass writes ``timings.csv``.
5. All other files are computed from ``rows.jsonl`` and ``timings.csv``, and the status in ``run.json``
   becomes ``finished``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from branchrank.bench.answering import AnsweringTask
from branchrank.bench.latency_pass import latency_pass
from branchrank.bench.opening import OpenPlan, OpenPredictor, open_plan
from branchrank.bench.plan import Plan, check_plan
from branchrank.bench.quality_pass import Work, quality_pass
from branchrank.bench.record import run_record
from branchrank.bench.seal import check_seal
from branchrank.execution import Executor, InProcess, open_executor
from branchrank.index import Index
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.io.artifacts import write_jsonl
from branchrank.io.progress import Notify, Progress, no_notice, no_progress
from branchrank.questions.question_files import (
    hashed,
    sample_questions,
    write_questions,
)
from branchrank.records import LLMCall, Question
from branchrank.runs import directory as names
from branchrank.runs.directory import (
    IndexFacts,
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
from branchrank.runs.run import RunData
from branchrank.runs.slices import GoldFacts, gold_facts
from branchrank.runs.tables import write_tables
from branchrank.runs.timings import Timing, read_timings, write_timings
from branchrank.runs.warnings import warnings_of
from branchrank.settings import BenchmarkSettings
from branchrank.systems.memo import Memo


def run_plan(
    plan: Plan,
    *,
    progress: Progress = no_progress,
    notify: Notify = no_notice,
    status: Notify = no_notice,
    fresh: bool = False,
    resume: Path | None = None,
    seal: Path | None = None,
    publish: Callable[[RunData], object] = lambda run: None,
) -> RunData:
    """Run a plan and write the run's directory; ``publish`` writes the report.

    The run is finished once ``publish`` returns. If the process exits before the run is finished, the next
    command resumes the run and writes the report.

    By default, an interrupted run of the same plan under ``plan.reports`` is resumed. A new run is started if
    ``fresh`` is true or if a predictor is a Python object, whose state is not recorded. ``resume`` is the
    directory of an interrupted run, whose plan :func:`~branchrank.bench.resume.plan_from_run` returns. If
    ``resume`` is set, no index is built. ``seal`` is the file with the plan's seal
    (:mod:`branchrank.bench.seal`). ``status`` is called with each new status line, such as the costs so far.

    Raises the errors of :func:`check_plan` and :func:`~branchrank.bench.opening.open_plan` before any work
    starts. Raises :class:`~branchrank.errors.RunError` if the run in ``resume`` has a different plan.
    """
    questions = check_plan(plan)
    sealed_by = check_seal(plan, questions, seal) if seal is not None else None
    with (
        open_executor(plan.settings, notify) as executor,
        open_plan(
            plan, questions, progress=progress, notify=notify, status=status, build=resume is None
        ) as opened,
    ):
        root = WorkspaceFolder(plan.data_dir, plan.settings).corpus_root if opened.indexes else None
        if not executor.in_process:
            opened.load_models()
        return run_predictors(
            msgspec.structs.replace(run_record(plan, opened, questions), seal=sealed_by),
            opened.predictors,
            questions,
            plan.settings.part(BenchmarkSettings),
            reports=plan.reports,
            memos=opened.memos,
            measure_index=partial(opened.measured, questions=questions),
            progress=progress,
            notify=notify,
            fresh=fresh or not plan.is_repeatable,
            resume=resume,
            gold_facts=gold_facts(questions, root) if root is not None else (),
            keep_failures=opened.keep_failures,
            publish=publish,
            executor=executor,
            plan=plan,
            indexes=opened.indexes,
            on_row=partial(_count_calls, opened) if not executor.in_process else no_row,
        )


def no_row(row: Row) -> None:
    """Do nothing."""


def _count_calls(opened: OpenPlan, row: Row) -> None:
    """Count the LLM calls that a worker made for one row."""
    for call in row.calls:
        opened.meter.add(call)


def run_predictors(
    run: RunRecord,
    predictors: Sequence[OpenPredictor],
    questions: Sequence[Question],
    settings: BenchmarkSettings,
    *,
    reports: Path,
    memos: Iterable[Memo] = (),
    measure_index: Callable[[IndexFacts], IndexFacts] = lambda facts: facts,
    progress: Progress = no_progress,
    notify: Notify = no_notice,
    fresh: bool = False,
    resume: Path | None = None,
    gold_facts: Sequence[GoldFacts] = (),
    on_row: Callable[[Row], None] = no_row,
    keep_failures: Callable[[Iterable[LLMCall]], None] = lambda calls: None,
    publish: Callable[[RunData], object] = lambda run: None,
    executor: Executor | None = None,
    plan: Plan | None = None,
    indexes: Mapping[str, Index] | None = None,
) -> RunData:
    """Run opened predictors in a new run under ``reports``, or complete an interrupted run.

    ``resume`` is the directory of the run to resume. If neither ``resume`` nor ``fresh`` is given, the newest
    interrupted run of the same plan under ``reports`` is resumed. ``keep_failures`` is called with the LLM
    calls in the finished rows of a resumed run. ``measure_index`` adds facts about an index that are known
    only after all questions are answered. ``executor`` runs the quality pass, by default in this process. The
    executor's workers open ``plan`` and check the digests of ``indexes``.

    Raises :class:`~branchrank.errors.RunError` if the run in ``resume`` has a different plan or is finished.
    """
    begun = _interrupted(run, reports, resume, fresh=fresh)
    directory = (begun or new_directory(reports, run.experiment, run.seed)).absolute()
    with RowLog(directory / run.rows_file) as log:
        if begun is None:
            write_questions(directory / names.QUESTIONS, kept(questions, settings))
            write_run(directory, run)
        else:
            notify(f"resuming the interrupted run {directory}")
            clear_temporary(directory)
            run = _continued(run, read_run(directory), whole=resume is not None)
            keep_failures(call for row in log.rows.values() for call in row.calls)
        if log.torn:
            notify(f"{log.path}: the last row is incomplete, so its question is answered again")
        run = msgspec.structs.replace(run, resumed_rows=len(log.rows))
        memos = tuple(memos)
        asked = [each.predictor for each in predictors]
        depths = {"top_k": run.top_k, "trace_depth": settings.trace_depth}
        rows, work = quality_pass(
            [(each.predictor.name, each.record.repeats) for each in predictors],
            questions,
            log,
            executor=executor or InProcess(),
            task=AnsweringTask(asked, memos, **depths, plan=plan, indexes=indexes),
            progress=progress,
            on_row=on_row,
        )
        timings = _timings(directory, predictors, questions, run, settings, progress)
        log.rewrite(rows)
        run = msgspec.structs.replace(run, indexes=tuple(map(measure_index, run.indexes)))
        # The log stays locked until the run's status is `finished`, so that no other process resumes the run.
        shown = kept(questions, settings)
        measured = _measured(directory, run, (work, *memos), rows, timings, shown, gold_facts)
        publish(measured)
        finished = sealed(directory, measured.record)
        write_run(directory, finished)
        return replace(measured, record=finished)


def _interrupted(run: RunRecord, reports: Path, resume: Path | None, *, fresh: bool) -> Path | None:
    """Check and return the directory of the interrupted run to resume; return ``None`` for a new run."""
    if resume is not None:
        begun: Path | None = check_resumable(resume, run.plan)
    else:
        begun = None if fresh else latest_unfinished(reports, run.plan)
    if begun is not None:
        check_files(begun)
    return begun


def _continued(run: RunRecord, begun: RunRecord, *, whole: bool) -> RunRecord:
    """Return ``run`` with the start time of ``begun``, which is the record of the interrupted run.

    If ``whole`` is true, the command, the paths, the settings and the seal are also copied from ``begun``.
    """
    if not whole:
        return msgspec.structs.replace(run, created=begun.created)
    return msgspec.structs.replace(
        run,
        created=begun.created,
        command=begun.command,
        data_dir=begun.data_dir,
        questions_file=begun.questions_file,
        settings=begun.settings,
        origins=begun.origins,
        seal=begun.seal,
    )


def _measured(
    directory: Path,
    run: RunRecord,
    work: Sequence[Work | Memo],
    rows: Sequence[Row],
    timings: Sequence[Timing],
    questions: Sequence[Question],
    gold_facts: Sequence[GoldFacts],
) -> RunData:
    """Return the finished run, and write the tables that are computed from rows and timings."""
    write_jsonl(directory / names.GOLD, gold_facts)
    finished = msgspec.structs.replace(
        run,
        status="finished",
        computed=_counts(each.computed for each in work),
        reused=_counts(each.reused for each in work),
        failures=sum(row.status == "failed" for row in rows),
        fallbacks=sum(bool(row.fallbacks) for row in rows),
        warnings=warnings_of(rows, run, questions),
    )
    measured = RunData(
        directory=directory,
        record=finished,
        rows=tuple(rows),
        asked=tuple(questions),
        timed=tuple(timings),
        gold_facts=tuple(gold_facts),
    )
    write_tables(measured)
    return measured


def kept(questions: Sequence[Question], settings: BenchmarkSettings) -> list[Question]:
    """Return the questions to store in the run's directory, with their texts or digests of the texts."""
    if settings.question_text == "keep":
        return list(questions)
    return [hashed(question) for question in questions]


def _timings(
    directory: Path,
    predictors: Sequence[OpenPredictor],
    questions: Sequence[Question],
    run: RunRecord,
    settings: BenchmarkSettings,
    progress: Progress,
) -> list[Timing]:
    """Return the run's timings, from the latency pass or from the ``timings.csv`` of a resumed run."""
    path = directory / names.TIMINGS_CSV
    if path.exists():
        return read_timings(path)
    size = min(settings.latency_sample, len(questions))
    timings = latency_pass(
        [each.unmemoized for each in predictors],
        sample_questions(questions, size, run.seed) if size else [],
        top_k=run.top_k,
        seed=run.seed,
        repeats=settings.latency_repeats,
        progress=progress,
    )
    write_timings(path, timings)
    return timings


def _counts(counters: Iterable[Counter[str]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for counter in counters:
        total.update(counter)
    return dict(sorted(total.items()))
