"""What ``benchmark`` and ``run`` share: plan, run, tables, report."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from branchrank.bench.benchmark import run_benchmark
from branchrank.bench.credentials import scrubbed
from branchrank.bench.plan import Field, check_names, check_systems, index_facts, relative
from branchrank.bench.predictors import ApiPredictor, ClassPredictor, load_class_predictor
from branchrank.cli.job import Job
from branchrank.cli.opening import LLMMeter, llm_stages, open_or_build
from branchrank.cli.terminal import progress_bars, say
from branchrank.errors import QuestionError, UsageError
from branchrank.index import Index
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.llm.ledger import read_prices
from branchrank.questions.question_files import (
    check_sources,
    check_wording,
    load_questions,
    questions_digest,
    sample_questions,
)
from branchrank.records import Question
from branchrank.runs.comparisons import check_plan
from branchrank.runs.directory import RunRecord
from branchrank.runs.provenance import gather
from branchrank.runs.run import RunData
from branchrank.runs.slices import gold_facts
from branchrank.settings import BenchmarkSettings, LLMSettings


def execute(job: Job) -> None:
    """Check everything, run, write the report, print the table."""
    systems = [system for lineup in job.lineups for system in lineup.systems]
    check_systems(systems)
    part = job.settings.part(BenchmarkSettings)
    outside = _outside(job)
    names = [competitor.name for competitor in (*systems, *outside)]
    check_names(names)
    check_plan(part, names)
    workspace = WorkspaceFolder(job.data_dir, job.settings, notify=say)
    questions_file = job.questions_file or workspace.questions_path
    questions = sample_questions(load_questions(questions_file), part.sample_size, part.sample_seed)
    check_wording(questions, questions_file)
    if job.dry_run:
        from branchrank.cli.dry_run import print_plan

        print_plan(job, questions)
        return
    meter = LLMMeter()
    with ExitStack() as opened:
        # The endpoints are checked first: that is quick, and an index may take long to build.
        stages = opened.enter_context(llm_stages(job.data_dir, job.settings, systems, meter))
        field, indexes = Field(), {}
        for lineup in job.lineups:
            index = opened.enter_context(open_or_build(job.data_dir, lineup.settings, quiet=job.quiet))
            check_gold(questions, index, questions_file)
            indexes[lineup.index] = index
            field.add_systems(
                lineup.systems,
                index,
                index_name=lineup.index,
                corpus_root=workspace.corpus_root,
                settings=lineup.settings,
                cache=opened.enter_context(closing(workspace.open_cache())),
                llm_stages=stages,
                repeats=job.repeats,
            )
        for engine in field.engines:
            opened.callback(engine.close)
        for predictor in outside:
            field.add(predictor)
        with progress_bars(job.quiet) as progress:
            meter.show = progress.status
            outcome = run_benchmark(
                _scrubbed(_record(job, workspace, field, indexes, questions_file, questions)),
                field.contestants,
                questions,
                part,
                reports=job.reports,
                memos=field.memos,
                progress=progress,
                notice=say,
                fresh=job.fresh,
                take_up=job.take_up,
                gold_facts=gold_facts(questions, workspace.corpus_root) if indexes else (),
            )
    finish(outcome)


def _scrubbed(record: RunRecord) -> RunRecord:
    clean = scrubbed(record, os.environ)
    return msgspec.structs.replace(clean, command_scrubbed=clean.command != record.command)


def _outside(job: Job) -> list[ClassPredictor | ApiPredictor]:
    """The predictors that are no systems. Raises :class:`UsageError` when one can't be had."""
    made: list[ClassPredictor | ApiPredictor] = [load_class_predictor(name) for name in job.classes]
    if job.endpoint:
        token = os.environ.get("BRANCHRANK_API_TOKEN", "")
        endpoint = ApiPredictor(job.endpoint, target=job.endpoint_predictor, token=token)
        if not job.dry_run:
            endpoint.check()
        made.append(endpoint)
    return made


def _record(
    job: Job,
    workspace: WorkspaceFolder,
    field: Field,
    indexes: dict[str, Index],
    questions_file: Path,
    questions: Sequence[Question],
) -> RunRecord:
    part = job.settings.part(BenchmarkSettings)
    first = next(iter(indexes.values()), None)
    return RunRecord(
        experiment=job.experiment,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=job.command,
        seed=part.sample_seed,
        split=job.split,
        corpus=relative(workspace.corpus_root) if first is not None else "",
        corpus_digest=first.manifest.corpus_digest if first is not None else "",
        corpus_exclude=workspace.exclude if first is not None else (),
        questions_file=relative(questions_file),
        questions_digest=questions_digest(questions),
        question_ids=tuple(question.id for question in questions),
        top_k=part.top_k,
        mode=part.mode,
        predictors=tuple(field.predictors),
        indexes=tuple(index_facts(name, index) for name, index in indexes.items()),
        settings={name: msgspec.to_builtins(value) for name, value in job.settings.parts.items()},
        origins=job.settings.origins,
        provenance=gather(),
        prices=read_prices(Path(table)) if (table := job.settings.part(LLMSettings).price_table) else None,
    )


def check_gold(questions: Sequence[Question], index: Index, questions_file: Path) -> None:
    """Raise :class:`QuestionError` when gold lies outside the corpus."""
    line_counts: dict[str, int] = {}
    for node in index.tree.sections:
        line_counts[node.source] = max(line_counts.get(node.source, 0), node.line_end or 0)
    found = check_sources(questions, line_counts)
    if found:
        more = [f"... and {len(found) - 10} more"] if len(found) > 10 else []
        raise QuestionError(
            "\n".join([f"{questions_file} does not fit the corpus:", *found[:10], *more]),
            remedy="name the corpus's own questions with --questions, or `branchrank questions reanchor`",
        )


def finish(run: RunData) -> None:
    """Write the report and print the table and where everything lies."""
    from branchrank.report.terminal import print_summary
    from branchrank.report.writing import write_report

    written = write_report(run)
    print_summary(run)
    click.echo(f"report: {written[0]}, {written[1].name}")


def require_endpoint(predictors: Sequence[str], endpoint: str) -> None:
    """Raise :class:`UsageError` when ``api`` competes without an endpoint."""
    if "api" in predictors and not endpoint:
        raise UsageError(
            "--predictor api needs an endpoint", remedy="--api-endpoint http://127.0.0.1:8000/retrieve"
        )
