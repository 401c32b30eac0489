"""What ``run.json`` says about a plan: the record of a run, without credentials, and the seal of a plan.

1. The record contains everything that is needed to describe the run and to repeat it.
2. Credentials are hidden (:func:`~branchrank.core.io.printable.scrubbed`).
3. A seal is a file that is written before a run and contains every part of the plan that can change a row or
   a verdict, such as the questions, the corpus, the predictors, the settings and the baseline. Short values
   are stored unchanged, and long values are stored as SHA-256 digests. If a plan is run with a seal, any
   difference between the plan and the seal is an error. ``branchrank verify`` compares a run with a seal.

A seal alone proves nothing, because a person who can change the run can also write another seal. A copy of
the seal in a commit, an email or a study registry shows when the seal was made.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from branchrank.core.errors import InputError, UsageError
from branchrank.core.execution import usable_cpus
from branchrank.core.io.files import NOT_JSON, digest_of, write_bytes
from branchrank.core.io.printable import scrubbed
from branchrank.core.records import Record
from branchrank.core.settings import (
    BenchmarkSettings,
    Bm25Settings,
    EngineSettings,
    IndexSettings,
    LLMSettings,
    Resolved,
)
from branchrank.documents.loading import digest_now
from branchrank.index.generations import CHUNKS
from branchrank.index.reader import Index
from branchrank.questions.question_files import questions_digest
from branchrank.runs.bench.opening import OpenPlan
from branchrank.runs.bench.plan import AskedQuestions, Plan, check_plan
from branchrank.runs.directory import RUN_JSON, IndexFacts, Provenance, RunRecord, SealRecord
from branchrank.search.llm.ledger import read_prices

#: Packages whose version can change the results.
PACKAGES = (
    "bm25s",
    "chromadb",
    "docutils",
    "markdown-it-py",
    "numpy",
    "onnxruntime",
    "PyStemmer",
    "qdrant-client",
    "qdrant-edge-py",
    "ripgrep",
    "scipy",
    "sentence-transformers",
    "tokenizers",
    "torch",
    "transformers",
)
#: Fields that identify the run (such as names). Text in these fields is kept even if it equals a password.
IDENTITY = {
    *("status", "mode", "split", "predictors", "indexes", "origins", "digests"),
    *("corpus", "corpus_digest", "questions_file", "questions_digest", "question_ids"),
}


def with_indexes(planned: RunRecord, opened: OpenPlan) -> RunRecord:
    """Return the content of ``run.json`` at the start of a run: the planned record with its open indexes."""
    first = next(iter(opened.indexes.values()), None)
    if first is None:
        return planned
    workspace = opened.plan.folder
    return msgspec.structs.replace(
        planned,
        corpus=relative(workspace.corpus_root),
        corpus_digest=first.manifest.corpus_digest,
        corpus_exclude=workspace.exclude,
        indexes=tuple(index_facts(name, index) for name, index in opened.indexes.items()),
    )


def planned_record(plan: Plan, asked: AskedQuestions) -> RunRecord:
    """Return the part of ``run.json`` that depends only on the plan, without credentials."""
    part = plan.settings.part(BenchmarkSettings)
    prices = plan.settings.part(LLMSettings).price_table
    settings = msgspec.to_builtins(plan.settings.parts)
    del settings[EngineSettings.section]  # processes and machines do not change results
    every = plan.settings.origins.items()
    origins = {name: origin for name, origin in every if name.partition(".")[0] in settings}
    record = RunRecord(
        experiment=plan.experiment,
        name=plan.name,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=plan.command,
        data_dir=relative(plan.data_dir),
        seed=part.sample_seed,
        split=plan.split,
        filters=plan.filters,
        corpus="",
        corpus_digest="",
        questions_file=relative(plan.questions_file),
        questions_digest=questions_digest(asked.questions),
        sampled_from=asked.file_digest if part.sample_size or part.reanchor else "",
        question_ids=tuple(question.id for question in asked.questions),
        top_k=part.top_k,
        mode=part.mode,
        predictors=plan.records,
        left_out=plan.left_out,
        index_settings={
            name: _index_table(settings, plan.settings)
            for name, settings in plan.indexes.items()
            if name in plan.searched
        },
        settings=settings,
        origins=origins,
        provenance=gather(),
        prices=read_prices(Path(prices)) if prices else None,
    )
    return scrubbed(record, os.environ, IDENTITY)


def _index_table(settings: Resolved, own: Resolved) -> dict[str, Any]:
    """Return an index's settings. BM25 settings are included only if they differ from those of the run."""
    table = settings.part(IndexSettings).table
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
        digest=manifest.digest,
        embedder=manifest.settings.embedder,
        model_revision=manifest.embedder.revision,
        dimension=manifest.embedder.dimension,
        vector_store=index.vector_store,
        chunks=manifest.chunks,
        nodes=manifest.nodes,
        build_seconds=round(sum(index.report.seconds.values()), 3),
        bytes=index.report.bytes,
        distance=manifest.distance,
        own_files=bool(manifest.given["chunks"] or manifest.given["nodes"]),
        token_vectors=manifest.settings.token_vectors,
        documents=manifest.documents,
        chunk_tokens=manifest.embedder.chunk_tokens(manifest.settings.chunk_tokens),
        chunks_digest=manifest.digests[CHUNKS],
        scripts=manifest.scripts,
        languages=manifest.languages,
        identity=manifest.embedder,
    )


def relative(path: Path) -> str:
    """Return a path relative to the working directory if possible, to hide the names of home folders."""
    near = Path(os.path.relpath(path.resolve(), Path.cwd()))
    return (path if near.parts[:3] == ("..", "..", "..") else near).as_posix()


def gather() -> Provenance:
    """Return the code version, the package versions and the hardware that this process uses."""
    commit = _git("rev-parse", "HEAD")
    status = _git("status", "--porcelain") if commit else ""
    return Provenance(
        branchrank=_version("branchrank"),
        git_commit=commit,
        git_dirty=bool(status) if commit else None,
        python=platform.python_version(),
        packages={name: found for name in PACKAGES if (found := _version(name))},
        system=f"{platform.system()} {platform.release()}",
        machine=platform.machine(),
        processor=_processor(),
        cores=usable_cpus(),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    )


def _version(package: str) -> str:
    """Return the version of an installed package, or "" if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _git(*words: str) -> str:
    """Return the output of a read-only Git command in this package's checkout, or "" outside a checkout."""
    try:
        answer = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(Path(__file__).parent), *words],  # noqa: S607 - the user's own git
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip()


def _processor() -> str:
    try:
        found = re.search(
            r"^model name\s*:(.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE
        )
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor()


Part = str | int | float | bool | None

_LONGEST = 80


class Seal(Record, frozen=True, kw_only=True):
    """The parts of a sealed plan, and a digest of all parts."""

    digest: str
    parts: dict[str, Part]


def seal_of(run: RunRecord) -> Seal:
    """Return the seal of the plan in a run's record."""
    parts: dict[str, object] = {**run.sealed_plan, "the settings of the indexes": run.index_settings}
    for name, value in run.settings.get("benchmark", {}).items():
        parts[f"benchmark.{name}"] = value
    short = {name: _part(value) for name, value in parts.items()}
    return Seal(digest=digest_of(short), parts=short)


def stored_seal(directory: Path, run: RunRecord) -> Seal:
    """Return the seal of the plan of the stored run ``run``.

    The predictors are those that ``run.json`` contains, without fields that are newer than the run.
    """
    stored = msgspec.json.decode((directory / RUN_JSON).read_bytes())
    return seal_of(msgspec.structs.replace(run, predictors=stored["predictors"]))


def _part(value: object) -> Part:
    if value is None or isinstance(value, int | float) or (isinstance(value, str) and len(value) <= _LONGEST):
        return value
    return f"sha256:{digest_of(value)}"


def seal_plan(plan: Plan, path: Path) -> Seal:
    """Write a plan's seal to a new file.

    Raises the same errors as :func:`~branchrank.runs.bench.plan.check_plan`. Raises :class:`UsageError` if
    the file exists, and for a plan with a Python object, whose state is not recorded.
    """
    seal = _seal_now(plan, planned_record(plan, check_plan(plan)))
    if path.exists():
        raise UsageError(
            f"{path} already exists", remedy="choose another file, or run the benchmark with this seal"
        )
    write_bytes(path, msgspec.json.format(msgspec.json.encode(seal), indent=2) + b"\n")
    return seal


def check_seal(plan: Plan, planned: RunRecord, path: Path) -> SealRecord:
    """Compare a plan with its seal, and return the seal's record for ``run.json``.

    Raises :class:`InputError` if the plan differs from the sealed plan.
    """
    seal = read_seal(path)
    different = differences(seal, _seal_now(plan, planned))
    if different:
        raise InputError(
            f"the plan differs from the plan in the seal {path}:\n" + "\n".join(map(str, different)),
            remedy="run the sealed plan, or seal this plan in another file",
        )
    return SealRecord(file=relative(path), digest=seal.digest)


def read_seal(path: Path) -> Seal:
    """Read a seal. Raises :class:`InputError` if the file is not a seal or was changed."""
    try:
        seal = msgspec.json.decode(path.read_bytes(), type=Seal)
    except OSError as error:
        raise InputError(
            f"cannot read the seal {path}: {error.strerror}", remedy="pass a seal file"
        ) from error
    except NOT_JSON as error:
        raise InputError(f"{path} is not a seal: {error}", remedy="pass a seal file") from None
    if digest_of(seal.parts) != seal.digest:
        raise InputError(f"{path} was changed: its digest differs", remedy="restore the original seal file")
    return seal


class PlanDifference(NamedTuple):
    """A part of a plan whose value is not the sealed one."""

    part: str
    sealed: Part
    now: Part

    def __str__(self) -> str:
        return f"{self.part}: sealed {self.sealed!r}, now {self.now!r}"


def differences(seal: Seal, other: Seal) -> list[PlanDifference]:
    """Return each part in which the seal ``other`` differs from ``seal``."""
    return [
        PlanDifference(name, seal.parts.get(name, "nothing"), other.parts.get(name, "nothing"))
        for name in dict.fromkeys((*seal.parts, *other.parts))
        if seal.parts.get(name, "") != other.parts.get(name, "")
    ]


def _seal_now(plan: Plan, planned: RunRecord) -> Seal:
    if not plan.is_repeatable:
        raise UsageError(
            "a plan with a Python object can't be sealed, because the object's state is not recorded",
            remedy="pass its class instead: module:Class",
        )
    if plan.systems:
        workspace = plan.folder
        digest = digest_now(workspace.corpus_root, workspace.exclude)
        planned = msgspec.structs.replace(planned, corpus_digest=digest)
    return seal_of(planned)
