"""Restrict a run to the questions in a slice, so that every score is computed from these questions only.

The verdicts of a restricted run are exploratory, since the comparisons were declared for all questions before
the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import msgspec

from branchrank.errors import UsageError, suggestion
from branchrank.questions.question_files import questions_digest
from branchrank.records import Question
from branchrank.runs.slices import LABELS, slice_values

if TYPE_CHECKING:
    from branchrank.runs.run import RunData

R = TypeVar("R", bound="RunData")


def cut_run(run: R, conditions: Sequence[str]) -> R:
    """Restrict the run to the questions that meet the conditions (``SLICE=VALUE``).

    ``LABELS`` lists the slices. Conditions on different slices must all be met. Of several conditions on the
    same slice, at least one must be met. A depth can be written without the word ``depth``: ``depth=1``
    selects the questions whose value in the slice ``depth`` is ``depth 1``. Raises :class:`UsageError` for an
    unknown slice, and for a value that no question of the run has.
    """
    if not conditions:
        return run
    values = {question.id: slice_values(question, run.facts.get(question.id)) for question in run.asked}
    wanted: dict[str, set[str]] = {}
    for condition in conditions:
        name, equals, value = condition.partition("=")
        if name not in LABELS:
            raise UsageError(
                f"--where {condition!r}: there is no slice {name!r}",
                remedy=suggestion(name, LABELS)
                or f"write SLICE=VALUE, with one of the slices {', '.join(LABELS)}",
            )
        there = _present(values, name)
        if not there:
            known = [each for each in LABELS if _present(values, each)]
            raise UsageError(
                f"--where {condition!r}: no question of {run.directory} has a value for {LABELS[name]}",
                remedy=f"use one of the slices {', '.join(known)}" if known else "remove --where",
            )
        choice = f"{name} is one of: {', '.join(there)}"
        if not equals:
            raise UsageError(f"--where {condition!r}: =VALUE is missing", remedy=f"{name}=VALUE; {choice}")
        if f"{name} {value}" in there:
            value = f"{name} {value}"
        if value not in there:
            raise UsageError(
                f"--where {condition!r}: no question of {run.directory} has this {LABELS[name]}",
                remedy=choice,
            )
        wanted.setdefault(name, set()).add(value)
    kept = tuple(
        question
        for question in run.asked
        if all(values[question.id][name] in admitted for name, admitted in wanted.items())
    )
    if not kept:
        raise UsageError(
            f"no question of {run.directory} meets all of the conditions {' and '.join(conditions)}",
            remedy="remove a condition",
        )
    return _only(run, kept, conditions)


def _present(values: Mapping[str, Mapping[str, str]], name: str) -> list[str]:
    """Return the sorted distinct values of the slice ``name``, without unknown values."""
    return sorted({own[name] for own in values.values()} - {""})


def _only(run: R, questions: tuple[Question, ...], conditions: Sequence[str]) -> R:
    ids = {question.id for question in questions}
    rows = tuple(row for row in run.rows if row.question_id in ids)
    cut = (
        f"The run is restricted to {' and '.join(conditions)}: {len(questions)} of its {len(run.asked)} "
        "questions. The slice was not declared before the run, so the verdicts are exploratory."
    )
    record = msgspec.structs.replace(
        run.record,
        question_ids=tuple(question.id for question in questions),
        questions_digest=questions_digest(questions),
        failures=sum(row.status == "failed" for row in rows),
        fallbacks=sum(bool(row.fallbacks) for row in rows),
        warnings=(cut, *run.record.warnings),
    )
    return replace(
        run,
        record=record,
        rows=rows,
        asked=questions,
        timed=tuple(timing for timing in run.timed if timing.question_id in ids),
        gold_facts=tuple(facts for facts in run.gold_facts if facts.question_id in ids),
        conditions=(*run.conditions, *conditions),
    )
