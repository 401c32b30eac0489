"""A seal is a file that is written before a run and records the plan of the run.

1. A seal contains every part of the plan that can change a row or a verdict, such as the questions, the
   corpus, the predictors, the settings and the baseline. Short values are stored unchanged, and long values
   are stored as SHA-256 digests.
2. If a plan is run with a seal, any difference between the plan and the seal is an error. The ``run.json`` of
   a sealed run contains the digest of the seal.
3. ``branchrank verify`` recomputes the parts of the plan from ``run.json`` and compares them with the seal.

A seal alone proves nothing, because a person who can change the run can also write another seal. A copy of
the seal in a commit, an email or a study registry shows when the seal was made.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from branchrank.bench.plan import Plan, check_plan
from branchrank.bench.record import planned_record, relative
from branchrank.corpus.loading import digest_now
from branchrank.errors import InputError, UsageError
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.io.files import NOT_JSON, digest_of, write_bytes
from branchrank.records import Question, Record
from branchrank.runs.directory import RunRecord, SealRecord

Part = str | int | float | bool | None

#: Parts of :attr:`RunRecord.plan` that a seal omits. The digest of each index is omitted, because a seal
#: contains the settings of the indexes instead. Cassette flags are omitted, so that a recorded run and its
#: replay match the same seal.
_LEFT_OUT = ("the index", "--llm-record", "--llm-replay")
_LONGEST = 80


class Seal(Record, frozen=True, kw_only=True):
    """The parts of a sealed plan, and a digest of all parts."""

    digest: str
    parts: dict[str, Part]


def seal_of(run: RunRecord) -> Seal:
    """Return the seal of the plan in a run's record."""
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
    """Write a plan's seal to a new file.

    Raises the same errors as :func:`~branchrank.bench.plan.check_plan`. Raises :class:`UsageError` if the
    file exists, and for a plan with a Python object, whose state is not recorded.
    """
    seal = _seal_now(plan, check_plan(plan))
    if path.exists():
        raise UsageError(
            f"{path} already exists", remedy="choose another file, or run the benchmark with this seal"
        )
    write_bytes(path, msgspec.json.format(msgspec.json.encode(seal), indent=2) + b"\n")
    return seal


def check_seal(plan: Plan, questions: Sequence[Question], path: Path) -> SealRecord:
    """Compare a plan with its seal, and return the seal's record for ``run.json``.

    Raises :class:`InputError` if the plan differs from the sealed plan.
    """
    seal = read_seal(path)
    different = differences(seal, _seal_now(plan, questions))
    if different:
        raise InputError(
            f"the plan differs from the plan in the seal {path}:\n" + "\n".join(different),
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


def differences(seal: Seal, other: Seal) -> list[str]:
    """Describe each part in which the seal ``other`` differs from ``seal``."""
    return [
        f"{name}: sealed {seal.parts.get(name, 'nothing')!r}, now {other.parts.get(name, 'nothing')!r}"
        for name in dict.fromkeys((*seal.parts, *other.parts))
        if seal.parts.get(name, "") != other.parts.get(name, "")
    ]


def _seal_now(plan: Plan, questions: Sequence[Question]) -> Seal:
    if not plan.is_repeatable:
        raise UsageError(
            "a plan with a Python object can't be sealed, because the object's state is not recorded",
            remedy="pass its class instead: module:Class",
        )
    record = planned_record(plan, questions, os.environ)
    if plan.systems:
        workspace = WorkspaceFolder(plan.data_dir, plan.settings)
        digest = digest_now(workspace.corpus_root, workspace.exclude)
        record = msgspec.structs.replace(record, corpus_digest=digest)
    return seal_of(record)
