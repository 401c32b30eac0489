"""The benchmark command's work: plan, run, tables, report."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from branchrank.bench.benchmark import Outcome, run_benchmark
from branchrank.bench.plan import Field, check_systems, index_facts, relative
from branchrank.bench.provenance import gather
from branchrank.bench.questions import check_sources, load_questions, questions_digest, sample_questions
from branchrank.bench.run_directory import RunRecord
from branchrank.cli.opening import extra_sources, llm_stages, open_or_build
from branchrank.cli.terminal import progress_bars
from branchrank.errors import QuestionError, UsageError
from branchrank.records import Question, Record
from branchrank.settings import BenchmarkSettings, LLMSettings, Resolved
from branchrank.stores.index import Index
from branchrank.stores.workspace import Workspace
from branchrank.systems.builtin import builtin_systems


class BenchmarkRequest(Record, frozen=True, kw_only=True):
    """What the command line asks for, settings apart."""

    data_dir: Path
    predictors: tuple[str, ...]
    questions_file: Path | None
    reports: Path
    experiment: str
    split: str
    api_endpoint: str
    api_predictor: str
    fresh: bool
    dry_run: bool
    quiet: bool
    command: str


def benchmark(request: BenchmarkRequest, settings: Resolved) -> None:
    """Run the benchmark that the command line asks for and print its table."""
    own = [name for name in request.predictors if ":" in name]
    built_in = [name for name in request.predictors if ":" not in name and name != "api"]
    systems = builtin_systems(tuple(built_in), settings)
    check_systems(systems)
    if "api" in request.predictors and not request.api_endpoint:
        raise UsageError(
            "--predictor api needs an endpoint", remedy="--api-endpoint http://127.0.0.1:8000/retrieve"
        )
    workspace = Workspace(request.data_dir, settings)
    part = settings.part(BenchmarkSettings)
    questions_file = request.questions_file or workspace.questions_path
    questions = sample_questions(load_questions(questions_file), part.sample_size, part.sample_seed)
    with llm_stages(request.data_dir, settings, systems) as stages:
        index = open_or_build(request.data_dir, settings, quiet=request.quiet)
        check_gold(questions, index, questions_file)
        field = Field()
        if systems:
            field.add_systems(
                systems,
                index,
                extra=extra_sources(index, systems, settings),
                llm_stages=stages,
                repeats=settings.part(LLMSettings).repeats,
            )
        for name in own:
            field.add_class(name)
        if "api" in request.predictors:
            field.add_endpoint(request.api_endpoint, request.api_predictor)
        field.check_names()
        run = RunRecord(
            experiment=request.experiment,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            command=request.command,
            seed=part.sample_seed,
            split=request.split,
            corpus=relative(workspace.corpus_root),
            corpus_digest=index.manifest.corpus_digest,
            questions_file=relative(questions_file),
            questions_digest=questions_digest(questions),
            question_ids=tuple(question.id for question in questions),
            top_k=part.top_k,
            mode=part.mode,
            arms=tuple(field.arms),
            indexes=(index_facts("default", index),),
            settings={name: msgspec.to_builtins(value) for name, value in settings.parts.items()},
            origins=settings.origins,
            provenance=gather(),
        )
        with progress_bars(request.quiet) as progress:
            outcome = run_benchmark(
                run,
                field.contestants,
                questions,
                part,
                reports=request.reports,
                memos=field.memos,
                progress=progress,
                notice=lambda text: click.echo(text, err=True),
                fresh=request.fresh,
            )
    finish(outcome, questions)


def check_gold(questions: list[Question], index: Index, questions_file: Path) -> None:
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


def finish(outcome: Outcome, questions: list[Question]) -> None:
    """Write the report and print the table and where everything lies."""
    from branchrank.report.terminal import print_summary

    print_summary(outcome)
    click.echo(f"report: {outcome.directory}/")
