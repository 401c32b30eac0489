"""Running a plan: from the checks to the files of the run's directory.

1. Check the whole plan and open what it needs.
2. Make the run's directory, or resume an interrupted run of the same plan.
3. Write ``run.json`` before any work; its status is ``running`` until the end.
4. The quality pass writes ``rows.jsonl``; the latency pass ``timings.csv``.
5. Everything else is computed from these two, and ``run.json`` becomes ``finished``.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from branchrank.artifacts import digest_of, write_jsonl
from branchrank.bench.credentials import scrubbed
from branchrank.bench.latency_pass import latency_pass
from branchrank.bench.opening import OpenPlan, OpenPredictor, open_plan
from branchrank.bench.plan import Plan, check_plan
from branchrank.bench.quality_pass import quality_pass
from branchrank.index import Index
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.llm.ledger import read_prices
from branchrank.progress import Notify, Progress, no_notice, no_progress
from branchrank.questions.question_files import (
    hashed,
    questions_digest,
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
    latest_unfinished,
    new_directory,
    read_run,
    sealed,
    write_run,
)
from branchrank.runs.provenance import gather
from branchrank.runs.rows import Row, RowLog
from branchrank.runs.run import RunData
from branchrank.runs.slices import GoldFacts, gold_facts
from branchrank.runs.tables import write_tables
from branchrank.runs.timings import Timing, read_timings, write_timings
from branchrank.runs.warnings import lost_branches, lost_llms, shallow, total_failures
from branchrank.settings import BenchmarkSettings, Bm25Settings, IndexSettings, LLMSettings
from branchrank.systems.memo import Memo


def run_plan(
    plan: Plan,
    *,
    progress: Progress = no_progress,
    notify: Notify = no_notice,
    status: Notify = no_notice,
    fresh: bool = False,
    resume: Path | None = None,
    publish: Callable[[RunData], object] = lambda run: None,
) -> RunData:
    """Run a plan and write the run's directory; ``publish`` writes its report.

    The run counts as finished after ``publish``: if the process ends before, the next command resumes the run
    and writes the report.

    An interrupted run of the same plan under ``plan.reports`` is resumed, unless the run is to be ``fresh``
    or a predictor is a Python object, whose state no record holds. ``resume`` is the directory of a run whose
    plan this is (:func:`~branchrank.bench.resume.plan_from_run`); no index is built for it. ``status`` gets a
    line that replaces the one before, such as running costs.

    Raises what :func:`check_plan` and :func:`~branchrank.bench.opening.open_plan` raise, before any work, and
    :class:`~branchrank.errors.RunError` where ``resume`` is the directory of another plan.
    """
    questions = check_plan(plan)
    with open_plan(
        plan, questions, progress=progress, notify=notify, status=status, build=resume is None
    ) as opened:
        root = WorkspaceFolder(plan.data_dir, plan.settings).corpus_root if opened.indexes else None
        return run_predictors(
            run_record(plan, opened, questions),
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
        )


def run_record(plan: Plan, opened: OpenPlan, questions: Sequence[Question]) -> RunRecord:
    """What ``run.json`` says when a run begins, without credentials."""
    part = plan.settings.part(BenchmarkSettings)
    workspace = WorkspaceFolder(plan.data_dir, plan.settings)
    indexes = opened.indexes
    first = next(iter(indexes.values()), None)
    prices = plan.settings.part(LLMSettings).price_table
    record = RunRecord(
        experiment=plan.experiment,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=plan.command,
        data_dir=relative(plan.data_dir),
        seed=part.sample_seed,
        split=plan.split,
        filters=plan.filters,
        corpus=relative(workspace.corpus_root) if first is not None else "",
        corpus_digest=first.manifest.corpus_digest if first is not None else "",
        corpus_exclude=workspace.exclude if first is not None else (),
        questions_file=relative(plan.questions_file),
        questions_digest=questions_digest(questions),
        question_ids=tuple(question.id for question in questions),
        top_k=part.top_k,
        mode=part.mode,
        predictors=tuple(each.record for each in opened.predictors),
        indexes=tuple(index_facts(name, index) for name, index in indexes.items()),
        index_settings={name: _index_table(plan, name) for name in indexes},
        settings={name: msgspec.to_builtins(value) for name, value in plan.settings.parts.items()},
        origins=plan.settings.origins,
        provenance=gather(),
        prices=read_prices(Path(prices)) if prices else None,
    )
    return scrubbed(record, os.environ)


def _index_table(plan: Plan, name: str) -> dict[str, Any]:
    """The settings of an index; those of BM25 where they are its own."""
    settings = plan.indexes[name]
    table: dict[str, Any] = msgspec.to_builtins(settings.part(IndexSettings))
    words = settings.part(Bm25Settings)
    if words != plan.settings.part(Bm25Settings):
        table[Bm25Settings.section] = msgspec.to_builtins(words)
    return table


def index_facts(name: str, index: Index) -> IndexFacts:
    """What ``run.json`` says of an index."""
    manifest = index.manifest
    return IndexFacts(
        name=name,
        generation=index.directory.name,
        digest=digest_of(manifest),
        embedder=manifest.settings.embedder,
        model_revision=manifest.embedder.revision,
        dimension=manifest.embedder.dimension,
        vector_store=index.vector_store,
        chunks=manifest.chunks,
        nodes=manifest.nodes,
        build_seconds=round(sum(index.report.seconds.values()), 3),
        bytes=index.report.bytes,
        distance=manifest.distance,
    )


def relative(path: Path) -> str:
    """A path as a report shows it: relative to here where it lies near, so that it names no home."""
    near = Path(os.path.relpath(path.resolve(), Path.cwd()))
    return (path if near.parts[:3] == ("..", "..", "..") else near).as_posix()


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
    on_row: Callable[[Row], None] = lambda row: None,
    keep_failures: Callable[[Iterable[LLMCall]], None] = lambda calls: None,
    publish: Callable[[RunData], object] = lambda run: None,
) -> RunData:
    """Run predictors that are open; the run is a new one under ``reports`` or an interrupted one.

    ``run`` is resumed where it stopped: in the directory ``resume``, or, unless it is to be ``fresh``, in the
    newest one under ``reports`` that was interrupted and has the same plan; ``keep_failures`` then gets the
    LLM calls of its rows. ``measure_index`` adds what is known of an index when all questions are answered.
    Raises :class:`~branchrank.errors.RunError` where ``resume`` has another plan or is finished.
    """
    if resume is not None:
        begun: Path | None = check_resumable(resume, run.plan)
    else:
        begun = None if fresh else latest_unfinished(reports, run.plan)
    if begun is not None:
        check_files(begun)
    directory = begun or new_directory(reports, run.experiment, run.seed)
    with RowLog(directory / names.ROWS) as log:
        if begun is None:
            write_questions(directory / names.QUESTIONS, kept(questions, settings))
            write_run(directory, run)
        else:
            notify(f"resuming the interrupted run {directory}")
            run = _continued(run, read_run(directory), whole=resume is not None)
            keep_failures(call for row in log.rows.values() for call in row.calls)
        if log.torn:
            notify(f"{log.path}: the last row was cut short; its question is asked again")
        rows = quality_pass(
            [(each.predictor, each.record.repeats) for each in predictors],
            questions,
            log,
            top_k=run.top_k,
            trace_depth=settings.trace_depth,
            progress=progress,
            on_row=on_row,
        )
        timings = _timings(directory, predictors, questions, run, settings, progress)
        log.rewrite(rows)
        run = msgspec.structs.replace(run, indexes=tuple(map(measure_index, run.indexes)))
        # Until run.json says finished the log is held, so that nobody resumes the run.
        measured = _measured(directory, run, memos, rows, timings, kept(questions, settings), gold_facts)
        publish(measured)
        finished = sealed(directory, measured.record)
        write_run(directory, finished)
        return replace(measured, record=finished)


def _continued(run: RunRecord, begun: RunRecord, *, whole: bool) -> RunRecord:
    """The record of a resumed run; one whose ``whole`` plan was read keeps what it said of its making."""
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
    )


def _measured(
    directory: Path,
    run: RunRecord,
    memos: Iterable[Memo],
    rows: Sequence[Row],
    timings: Sequence[Timing],
    questions: Sequence[Question],
    gold_facts: Sequence[GoldFacts],
) -> RunData:
    """The run as it will be when it is finished; writes the tables that follow from rows and timings."""
    write_jsonl(directory / names.GOLD, gold_facts)
    finished = msgspec.structs.replace(
        run,
        status="finished",
        computed=_counts(memo.computed for memo in memos),
        reused=_counts(memo.reused for memo in memos),
        failures=sum(row.status == "failed" for row in rows),
        fallbacks=sum(bool(row.fallbacks) for row in rows),
        warnings=(
            *total_failures(rows, run.predictors),
            *shallow(run.top_k),
            *lost_branches(rows, run.predictors, run.indexes),
            *lost_llms(rows, run.predictors),
        ),
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
    """The questions as the run's directory keeps them, with their wording or its digest."""
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
    """The latency pass's timings, those of an interrupted run's finished pass where they are."""
    path = directory / names.TIMINGS_CSV
    if path.exists():
        return read_timings(path)
    size = min(settings.latency_sample, len(questions))
    timings = latency_pass(
        [each.unmemoised for each in predictors],
        sample_questions(questions, size, run.seed) if size else [],
        top_k=run.top_k,
        seed=run.seed,
        progress=progress,
    )
    write_timings(path, timings)
    return timings


def _counts(counters: Iterable[Counter[str]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for counter in counters:
        total.update(counter)
    return dict(sorted(total.items()))
