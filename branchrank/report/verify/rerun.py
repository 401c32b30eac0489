"""Run some questions of a run again, and compare the answers with the recorded rows.

A score or distance can differ by up to 0.0001 or 0.01%, whichever is larger, because processors compute
slightly different scores. Times and error messages are not compared. Everything else in a new answer must be
the same as in the recorded answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from math import isclose

from branchrank.bench.answering import answer
from branchrank.bench.resume import OpenRerun, RunAccess, open_rerun
from branchrank.errors import LLMError
from branchrank.io.progress import Notify, Progress
from branchrank.records import Record, StageTrace
from branchrank.report.verify.derived import Finding, row_finding, some
from branchrank.runs.rows import Row, RowHit
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
            text = next(_differences(kept, row), "")
        except LLMError as error:
            text = f"rerun: {error.message}"
        found.append((kept.key, text))
    progress("questions", len(wanted), len(wanted))
    return found


def _differences(kept: Row, row: Row) -> Iterator[str]:
    """Describe the differences between a stored row and a new row."""
    if kept.status != row.status:
        yield f"rerun: the status is {row.status}, was {kept.status}"
    for rank, (now, then) in enumerate(zip_longest(row.hits, kept.hits), start=1):
        if now is None or then is None or not _same_hit(now, then):
            fields = RowHit.__struct_fields__ if now is not None and then is not None else ()
            differ = [name for name in fields if getattr(now, name) != getattr(then, name)]
            yield f"rerun: hit {rank} is {_shown(now)}, was {_shown(then)}; different: {', '.join(differ)}"
    for name in ("stages", "gold_ranks", "lost", "fallbacks"):
        if getattr(kept, name) != getattr(row, name):
            yield f"rerun: {name} are {getattr(row, name)!r}, were {getattr(kept, name)!r}"
    for now_stage, then_stage in zip_longest(row.trace, kept.trace):
        if now_stage is None or then_stage is None or not _same_stage(now_stage, then_stage):
            stage = (then_stage or now_stage).stage
            yield f"rerun: the trace of {stage} is different"
    calls = [
        [(call.stage, call.outcome, call.prompt_tokens, call.completion_tokens) for call in each.calls]
        for each in (kept, row)
    ]
    if calls[0] != calls[1]:
        yield f"rerun: {len(calls[1])} LLM calls instead of {len(calls[0])}, or with different tokens"


def _same_hit(hit: RowHit, other: RowHit) -> bool:
    same = all(
        getattr(hit, name) == getattr(other, name)
        for name in RowHit.__struct_fields__
        if name not in ("score", "distance", "branches")
    )
    placed = {name: each.rank for name, each in hit.branches.items()}
    return (
        same
        and placed == {name: each.rank for name, each in other.branches.items()}
        and _close([hit.score], [other.score])
        and _close([hit.distance or 0.0], [other.distance or 0.0])
    )


def _same_stage(stage: StageTrace, other: StageTrace) -> bool:
    named = (stage.stage, stage.unit, stage.keys) == (other.stage, other.unit, other.keys)
    return named and _close(stage.scores, other.scores)


def _close(scores: Sequence[float], others: Sequence[float]) -> bool:
    return len(scores) == len(others) and all(
        isclose(score, other, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
        for score, other in zip(scores, others, strict=True)
    )


def _shown(hit: RowHit | None) -> str:
    return f"{hit.source}:{hit.line_start}-{hit.line_end} ({hit.score:.4g})" if hit is not None else "none"
