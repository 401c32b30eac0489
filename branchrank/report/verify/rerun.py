"""Run some questions of a run again, and compare the answers with the recorded rows.

A score or distance can differ by up to 0.0001 or 0.01%, whichever is larger, because processors compute
slightly different scores. Times and error messages are not compared. Everything else in a new answer must be
the same as in the recorded answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from math import isclose
from typing import Any

import msgspec
from msgspec.structs import replace

from branchrank.bench.answering import answer
from branchrank.bench.resume import OpenRerun, RunAccess, open_rerun
from branchrank.errors import LLMError
from branchrank.io.progress import Notify, Progress
from branchrank.records import Record
from branchrank.report.verify.derived import Finding, row_finding, some
from branchrank.runs.rows import Row
from branchrank.runs.run import RunData

_TOLERANCE = 1e-4


class Rerun(Record, frozen=True, kw_only=True):
    """The result of running some questions again.

    ``questions`` is the number of questions that were run again, and ``rows`` is the number of rows that were
    compared with new answers. ``identical`` is the number of new answers that are the same as the recorded
    answers. ``left_out`` contains the reason for each predictor that was not run again.
    """

    questions: int
    rows: int
    identical: int
    left_out: Mapping[str, str]

    def __str__(self) -> str:
        lines = [f"rerun: {self.identical} of {self.rows} answers to {self.questions} questions are the same"]
        lines += [f"not rerun: {name}: {reason}" for name, reason in self.left_out.items()]
        return "\n".join(lines)


def ask_again(
    run: RunData, count: int, access: RunAccess, progress: Progress, notify: Notify
) -> tuple[Rerun, list[Finding]]:
    """Run ``count`` questions again, and compare the answers with the recorded rows.

    Raises the same errors as :func:`~branchrank.bench.resume.open_rerun`.
    """
    with open_rerun(run.directory, run.record, count, access, progress, notify) as rerun:
        again = _answers(run, rerun, progress)
    done = Rerun(
        questions=len(rerun.questions),
        rows=len(again),
        identical=sum(not text for _, text in again),
        left_out=rerun.left_out,
    )
    file = run.record.rows_file
    return done, some(file, [row_finding(file, key, text) for key, text in again if text])


def _answers(run: RunData, rerun: OpenRerun, progress: Progress) -> list[tuple[tuple[str, str, int], str]]:
    """Return each compared row's key and the first difference in the new answer ("" if there is none)."""
    rows = {row.key: row for row in run.rows}
    wanted = [
        (question, predictor, repeat)
        for question in rerun.questions
        if rerun.opened is not None
        for each, predictor in zip(rerun.opened.records, rerun.opened.predictors, strict=True)
        for repeat in range(each.repeats)
    ]
    found = []
    for done, (question, predictor, repeat) in enumerate(wanted):
        progress("questions", done, len(wanted))
        kept = rows.get((question.id, predictor.name, repeat))
        if kept is None:
            continue
        try:
            row = answer(predictor, question, run.record.top_k, repeat, run.settings.trace_depth)
            text = _difference(_comparable(kept), _comparable(row))
        except LLMError as error:
            text = f"rerun: {error.message}"
        found.append((kept.key, text))
    progress("questions", len(wanted), len(wanted))
    return found


def _comparable(row: Row) -> dict[str, Any]:
    """Return the parts of a row that a rerun must repeat, as JSON values."""
    calls = [(call.stage, call.outcome, call.prompt_tokens, call.completion_tokens) for call in row.calls]
    return {**msgspec.to_builtins(replace(row, error="", calls=())), "calls": calls}


def _difference(then: Any, now: Any, place: str = "") -> str:
    """Describe the first difference between two JSON values ("" if there is none), and where it is."""
    if isinstance(then, float) and isinstance(now, float):
        if isclose(then, now, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
            return ""
    elif isinstance(then, dict) and isinstance(now, dict) and then.keys() == now.keys():
        found = (_difference(then[key], now[key], f"{place} {key}") for key in then)
        return next(filter(None, found), "")
    elif isinstance(then, (list, tuple)) and isinstance(now, (list, tuple)):
        pairs = enumerate(zip_longest(then, now), start=1)
        found = (_difference(old, new, f"{place} {number}") for number, (old, new) in pairs)
        return next(filter(None, found), "")
    elif then == now:
        return ""
    return f"rerun:{place} is {now!r}, was {then!r}"
