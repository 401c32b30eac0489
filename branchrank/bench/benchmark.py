"""One benchmark from plan to files.

1. Make the run's directory, or take up an interrupted run of the same plan.
2. Write ``run.json`` before any work; its status is ``running`` until the end.
3. The quality pass writes ``rows.jsonl``; the latency pass ``timings.csv``.
4. Everything else is computed from these two, and ``run.json`` becomes ``finished``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from branchrank.artifacts import write_jsonl
from branchrank.bench.latency_pass import latency_pass
from branchrank.bench.predictors import Predictor
from branchrank.bench.quality_pass import quality_pass
from branchrank.progress import Progress
from branchrank.questions.question_files import hashed, sample_questions, write_questions
from branchrank.records import Question, Record
from branchrank.runs import directory as names
from branchrank.runs.directory import (
    RunRecord,
    check_resumable,
    latest_unfinished,
    new_directory,
    read_run,
    sealed,
    write_run,
)
from branchrank.runs.rows import Row, RowLog
from branchrank.runs.run import RunData
from branchrank.runs.slices import GoldFacts
from branchrank.runs.tables import write_tables
from branchrank.runs.timings import Timing, read_timings, write_timings
from branchrank.runs.warnings import lost_branches, lost_llms, shallow
from branchrank.settings import BenchmarkSettings
from branchrank.systems.memo import Memo


class Contestant(Record, frozen=True, kw_only=True):
    """A predictor with its twin for the latency pass, which remembers nothing, and its repeats."""

    predictor: Predictor
    unmemoised: Predictor
    repeats: int = 1


def run_benchmark(
    run: RunRecord,
    contestants: Sequence[Contestant],
    questions: Sequence[Question],
    settings: BenchmarkSettings,
    *,
    reports: Path,
    memos: Iterable[Memo],
    progress: Progress,
    notice: Callable[[str], None],
    fresh: bool = False,
    take_up: Path | None = None,
    gold_facts: Sequence[GoldFacts] = (),
    on_row: Callable[[Row], None] = lambda row: None,
) -> RunData:
    """Run ``run`` under ``reports``, or go on with a run of its plan: ``take_up``, or the newest that was
    interrupted, unless it is to be ``fresh``."""
    if take_up is not None:
        taken_up: Path | None = check_resumable(take_up, run.plan)
    else:
        taken_up = None if fresh else latest_unfinished(reports, run.plan)
    directory = taken_up or new_directory(reports, run.experiment, run.seed)
    with RowLog(directory / names.ROWS) as log:
        if taken_up is None:
            write_questions(directory / names.QUESTIONS, kept(questions, settings))
            write_run(directory, run)
        else:
            notice(f"taking up the interrupted run {directory}")
            begun = read_run(directory)
            command = run.command if take_up is None else begun.command
            run = msgspec.structs.replace(run, created=begun.created, command=command)
        if log.torn:
            notice(f"{log.path}: the last row was cut short; its question is asked again")
        rows = quality_pass(
            [(contestant.predictor, contestant.repeats) for contestant in contestants],
            questions,
            log,
            top_k=run.top_k,
            trace_depth=settings.trace_depth,
            progress=progress,
            on_row=on_row,
        )
        timings = _timings(directory, contestants, questions, run, settings, progress)
        log.rewrite(rows)
        # Until run.json says finished the log is held, so that nobody takes the run up.
        return _finished(directory, run, memos, rows, timings, kept(questions, settings), gold_facts)


def _finished(
    directory: Path,
    run: RunRecord,
    memos: Iterable[Memo],
    rows: Sequence[Row],
    timings: Sequence[Timing],
    questions: Sequence[Question],
    gold_facts: Sequence[GoldFacts],
) -> RunData:
    """Write what follows from the rows and the timings, and the finished record last."""
    write_jsonl(directory / names.GOLD, gold_facts)
    finished = msgspec.structs.replace(
        run,
        status="finished",
        computed=_counts(memo.computed for memo in memos),
        reused=_counts(memo.reused for memo in memos),
        failures=sum(row.status == "failed" for row in rows),
        fallbacks=sum(bool(row.fallbacks) for row in rows),
        warnings=(
            *shallow(run.top_k),
            *lost_branches(rows, run.predictors),
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
    finished = sealed(directory, finished)
    write_run(directory, finished)
    return replace(measured, record=finished)


def kept(questions: Sequence[Question], settings: BenchmarkSettings) -> list[Question]:
    """The questions as the run's directory keeps them, with their wording or its digest."""
    if settings.question_text == "keep":
        return list(questions)
    return [hashed(question) for question in questions]


def _timings(
    directory: Path,
    contestants: Sequence[Contestant],
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
        [contestant.unmemoised for contestant in contestants],
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
