"""A seal: a file, written before a run, that fixes what the run is going to do.

1. ``seal_plan`` writes a file that holds every part of the plan that can change a row or a verdict: the
   questions, the corpus, the predictors, their settings, the primary measure, baseline, alpha and the others.
   Short values are stored as they are, long ones as their SHA-256.
2. A run with this seal is refused when a part differs; otherwise its ``run.json`` stores the file's digest.
3. ``branchrank verify`` derives the parts from ``run.json`` again.

A seal proves nothing by itself: anyone who can change the run can also write another seal. A copy of it
somewhere else (a commit, a mail, a registry of studies) shows when it was made.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from branchrank.artifacts import NOT_JSON, digest_of, write_bytes
from branchrank.bench.plan import Plan, check_plan
from branchrank.bench.record import planned_record, relative
from branchrank.corpus.loading import digest_now
from branchrank.errors import InputError, UsageError
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.records import Question, Record
from branchrank.runs.directory import RunRecord, SealRecord

Part = str | int | float | bool | None

#: Parts of :attr:`RunRecord.plan` that a seal omits: indexes, because they are known only once they are built
#: (their settings and corpus are sealed), and the cassette, so that a sealed run can be recorded and
#: replayed.
_LEFT_OUT = ("the index", "--llm-record", "--llm-replay")
_LONGEST = 80


class Seal(Record, frozen=True, kw_only=True):
    """The parts of a plan, and a digest of all parts."""

    digest: str
    parts: dict[str, Part]


def seal_of(run: RunRecord) -> Seal:
    """Return the seal that a run with this record matches."""
    parts: dict[str, object] = {name: value for name, value in run.plan.items() if name not in _LEFT_OUT}
    parts["the settings of the indexes"] = run.index_settings
    for name, value in run.settings.get("benchmark", {}).items():
        parts[f"benchmark.{name}"] = value
    short = {name: _part(value) for name, value in parts.items()}
    return Seal(digest=digest_of(short), parts=short)


def _part(value: object) -> Part:
    if value is None or isinstance(value, int | float) or (isinstance(value, str) and len(value) <= _LONGEST):
        return value
    return f"sha256:{digest_of(value)}"


def seal_plan(plan: Plan, path: Path) -> Seal:
    """Write the seal of a plan to a new file.

    Raises what :func:`~branchrank.bench.plan.check_plan` raises, and :class:`UsageError` for a plan with a
    Python object, whose state is not recorded, or if the file exists.
    """
    seal = _seal_now(plan, check_plan(plan))
    if path.exists():
        raise UsageError(f"{path} exists", remedy="name another file, or run the benchmark with this seal")
    write_bytes(path, msgspec.json.format(msgspec.json.encode(seal), indent=2) + b"\n")
    return seal


def check_seal(plan: Plan, questions: Sequence[Question], path: Path) -> SealRecord:
    """Return what a run stores about its seal.

    Raises :class:`InputError` if the plan differs from the sealed one.
    """
    seal = read_seal(path)
    different = differences(seal, _seal_now(plan, questions))
    if different:
        raise InputError(
            f"the plan is not the one that {path} seals:\n" + "\n".join(different),
            remedy="run what was sealed, or seal this plan in another file",
        )
    return SealRecord(file=relative(path), digest=seal.digest)


def read_seal(path: Path) -> Seal:
    """Read a seal. Raises :class:`InputError` if the file is not a seal or was changed."""
    try:
        seal = msgspec.json.decode(path.read_bytes(), type=Seal)
    except OSError as error:
        raise InputError(
            f"cannot read the seal {path}: {error.strerror}", remedy="name the seal's file"
        ) from error
    except NOT_JSON as error:
        raise InputError(f"{path} is not a seal: {error}", remedy="name the seal's file") from None
    if digest_of(seal.parts) != seal.digest:
        raise InputError(f"{path} was changed: its digest differs", remedy="name an unchanged copy of it")
    return seal


def differences(seal: Seal, other: Seal) -> list[str]:
    """Describe each part in which the second seal differs from the first."""
    return [
        f"{name}: sealed {seal.parts.get(name, 'nothing')!r}, now {other.parts.get(name, 'nothing')!r}"
        for name in dict.fromkeys((*seal.parts, *other.parts))
        if seal.parts.get(name, "") != other.parts.get(name, "")
    ]


def _seal_now(plan: Plan, questions: Sequence[Question]) -> Seal:
    if not plan.is_repeatable:
        raise UsageError(
            "a plan with a Python object can't be sealed: no record holds its state",
            remedy="name its class instead: module:Class",
        )
    record = planned_record(plan, questions, os.environ)
    if plan.systems:
        workspace = WorkspaceFolder(plan.data_dir, plan.settings)
        digest = digest_now(workspace.corpus_root, workspace.exclude)
        record = msgspec.structs.replace(record, corpus_digest=digest)
    return seal_of(record)
