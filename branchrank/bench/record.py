"""The content of ``run.json`` at the start of a run, computed from the plan and its open indexes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from branchrank.bench.credentials import scrubbed
from branchrank.bench.experiment import PlannedSystem
from branchrank.bench.opening import OpenPlan, predictor_record
from branchrank.bench.plan import Plan
from branchrank.index.reader import Index
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.io.files import digest_of
from branchrank.llm.ledger import read_prices
from branchrank.questions.question_files import questions_digest
from branchrank.records import Question
from branchrank.runs.directory import IndexFacts, RunRecord
from branchrank.runs.provenance import gather
from branchrank.settings import (
    BenchmarkSettings,
    Bm25Settings,
    EngineSettings,
    IndexSettings,
    LLMSettings,
    Resolved,
)


def run_record(plan: Plan, opened: OpenPlan, questions: Sequence[Question]) -> RunRecord:
    """Return the content of ``run.json`` at the start of a run, without credentials."""
    record = planned_record(plan, questions, os.environ)
    first = next(iter(opened.indexes.values()), None)
    if first is None:
        return record
    workspace = WorkspaceFolder(plan.data_dir, plan.settings)
    return msgspec.structs.replace(
        record,
        corpus=relative(workspace.corpus_root),
        corpus_digest=first.manifest.corpus_digest,
        corpus_exclude=workspace.exclude,
        indexes=tuple(index_facts(name, index) for name, index in opened.indexes.items()),
    )


def planned_record(plan: Plan, questions: Sequence[Question], environment: Mapping[str, str]) -> RunRecord:
    """Return the part of ``run.json`` that depends only on the plan, without credentials."""
    part = plan.settings.part(BenchmarkSettings)
    prices = plan.settings.part(LLMSettings).price_table
    used = {each.index for each in plan.predictors if isinstance(each, PlannedSystem)}
    record = RunRecord(
        experiment=plan.experiment,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=plan.command,
        data_dir=relative(plan.data_dir),
        seed=part.sample_seed,
        split=plan.split,
        filters=plan.filters,
        corpus="",
        corpus_digest="",
        questions_file=relative(plan.questions_file),
        questions_digest=questions_digest(questions),
        question_ids=tuple(question.id for question in questions),
        top_k=part.top_k,
        mode=part.mode,
        predictors=tuple(predictor_record(plan, each) for each in plan.predictors),
        index_settings={
            name: _index_table(settings, plan.settings)
            for name, settings in plan.indexes.items()
            if name in used
        },
        settings={
            name: msgspec.to_builtins(value)
            for name, value in plan.settings.parts.items()
            if name != EngineSettings.section  # processes and machines do not change results
        },
        origins={
            name: origin
            for name, origin in plan.settings.origins.items()
            if not name.startswith(f"{EngineSettings.section}.")
        },
        provenance=gather(),
        prices=read_prices(Path(prices)) if prices else None,
    )
    return scrubbed(record, environment)


def _index_table(settings: Resolved, own: Resolved) -> dict[str, Any]:
    """Return an index's settings. BM25 settings are included only if they differ from those of the run."""
    table: dict[str, Any] = msgspec.to_builtins(settings.part(IndexSettings))
    words = settings.part(Bm25Settings)
    if words != own.part(Bm25Settings):
        table[Bm25Settings.section] = msgspec.to_builtins(words)
    return table


def index_facts(name: str, index: Index) -> IndexFacts:
    """Return the entry for an index in ``run.json``."""
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
        own_files=bool(manifest.chunks_digest or manifest.nodes_digest),
    )


def relative(path: Path) -> str:
    """Return a path relative to the working directory if possible, to hide the names of home folders."""
    near = Path(os.path.relpath(path.resolve(), Path.cwd()))
    return (path if near.parts[:3] == ("..", "..", "..") else near).as_posix()
