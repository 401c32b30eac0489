"""Warnings about a run's scores, computed from the rows, the record and the questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from branchrank.questions.labels import llm_gold
from branchrank.questions.question_files import EXAMPLE
from branchrank.records import Question
from branchrank.runs.directory import IndexFacts, PredictorRecord, RunRecord
from branchrank.runs.rows import Row
from branchrank.settings import DISTANCE_THRESHOLD
from branchrank.systems.branches import label

#: The largest cutoff of the standard measures.
DEEPEST = 5


def warnings_of(rows: Sequence[Row], run: RunRecord, questions: Sequence[Question]) -> tuple[str, ...]:
    """Return all warnings about a run's scores on ``questions``."""
    return (
        *examples(questions),
        *labeled_by_llm(questions),
        *total_failures(rows, run.predictors),
        *shallow(run.top_k),
        *lost_branches(rows, run.predictors, run.indexes),
        *lost_llms(rows, run.predictors),
    )


def total_failures(rows: Sequence[Row], predictors: Sequence[PredictorRecord]) -> Iterator[str]:
    """Yield a warning for each predictor whose queries or LLM calls all failed."""
    for predictor in predictors:
        own = [row for row in rows if row.predictor == predictor.name]
        calls = [call.outcome for row in own for call in row.calls]
        if own and all(row.status == "failed" for row in own):
            what, reasons = f"{len(own)} queries", [row.error for row in own]
        elif calls and "ok" not in calls:
            what, reasons = f"{len(calls)} LLM calls", list(map(str, calls))
        else:
            continue
        yield f"{predictor.name}: all {what} failed, most often with {_commonest(reasons)!r}"


def _commonest(reasons: Iterable[str]) -> str:
    counts = Counter(reasons)
    return min(counts, key=lambda reason: (-counts[reason], reason))


def examples(questions: Sequence[Question]) -> Iterator[str]:
    """Yield a warning if any questions are the examples from ``branchrank init``."""
    if count := sum(EXAMPLE in question.extra for question in questions):
        yield (
            f"{count} of {len(questions)} questions are examples that `branchrank init` wrote; replace them "
            "by questions of your readers before you believe a rate"
        )


def labeled_by_llm(questions: Sequence[Question]) -> Iterator[str]:
    """Yield a warning if any gold was labeled by an LLM and not checked by a person."""
    count, models = llm_gold(questions)
    if count:
        total = sum(len(question.gold) for question in questions)
        yield (
            f"{count} of {total} gold passages were labeled by an LLM ({', '.join(models)}); rates of "
            "systems that use an LLM may be too high"
        )


def shallow(top_k: int) -> Iterator[str]:
    """Yield a warning if ``top_k`` is lower than the deepest cutoff of the standard measures."""
    if top_k < DEEPEST:
        yield (
            f"--top-k {top_k} keeps fewer hits than hit@{DEEPEST} and MRR@{DEEPEST} look at; what comes "
            "after them counts as missed"
        )


def lost_branches(
    rows: Sequence[Row], predictors: Sequence[PredictorRecord], indexes: Sequence[IndexFacts]
) -> Iterator[str]:
    """Yield a warning for each distance threshold that left most questions without vector results."""
    measured = {index.name: index.distance.threshold for index in indexes}
    for predictor in predictors:
        branches = predictor.system.branches if predictor.system is not None else ()
        thresholds = {
            label(branch): measured.get(predictor.index, DISTANCE_THRESHOLD)
            if branch.threshold == "calibrated"
            else branch.threshold
            for branch in branches
            if branch.threshold is not None
        }
        answered = [row for row in rows if row.predictor == predictor.name and row.status == "ok"]
        for name, threshold in thresholds.items():
            empty = sum(
                all(name not in hit.branches for hit in row.hits)
                and not any(stage.stage == name and stage.keys for stage in row.trace)
                for row in answered
            )
            if 2 * empty > len(answered):
                yield (
                    f"{predictor.name}: the distance threshold {threshold:g} leaves {empty} of "
                    f"{len(answered)} questions without any result of {name}; `branchrank calibrate` "
                    "suggests a value for this model"
                )


def lost_llms(rows: Sequence[Row], predictors: Sequence[PredictorRecord]) -> Iterator[str]:
    """Yield a warning for each predictor whose LLM was replaced by a fallback in most answers."""
    for predictor in predictors:
        answered = [row for row in rows if row.predictor == predictor.name and row.status == "ok"]
        fallen = [row for row in answered if row.fallbacks]
        if 2 * len(fallen) > len(answered):
            reason = _commonest(reason for row in fallen for reason in row.fallbacks)
            yield (
                f"{predictor.name}: a fallback replaced the LLM in {len(fallen)} of {len(answered)} "
                f"answers, most often by {reason!r}; the rates say little about {predictor.llm}"
            )
