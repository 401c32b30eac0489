"""Answer one question with a predictor, match the hits against the gold, and return a row."""

from __future__ import annotations

import os
from functools import lru_cache

import msgspec

from branchrank.bench.predictors import BenchmarkPredictor
from branchrank.errors import ReplayError, StorageError, UsageError
from branchrank.llm.request import BudgetError
from branchrank.llm.secrets import hide_credentials
from branchrank.records import Question, StageTrace
from branchrank.runs.attribution import DEPTH, gold_ranks, lost_at
from branchrank.runs.judging import judged_hits
from branchrank.runs.rows import Row

#: Errors that stop the whole run.
FATAL = (BudgetError, ReplayError, StorageError, UsageError)


def answer(
    predictor: BenchmarkPredictor, question: Question, top_k: int, repeat: int = 0, trace_depth: int = 20
) -> Row:
    """Answer one question, and return a failed row for any exception that is not in :data:`FATAL`."""
    try:
        retrieval = predictor.predict(question, top_k, repeat)
    except FATAL:
        raise
    except Exception as error:
        return Row(
            question_id=question.id,
            predictor=predictor.name,
            llm=predictor.llm,
            repeat=repeat,
            status="failed",
            error=hide_credentials(f"{type(error).__name__}: {error}".splitlines()[0], os.environ),
        )
    hits = judged_hits(retrieval.hits, question)
    stages = tuple(dict.fromkeys(stage.stage for stage in retrieval.trace))
    ranks = gold_ranks(retrieval.trace, predictor.gold_keys(question))
    found = any(hit.gold is not None for hit in hits[:DEPTH])
    return Row(
        question_id=question.id,
        predictor=predictor.name,
        llm=predictor.llm,
        repeat=repeat,
        hits=hits,
        trace=tuple(shortened(stage, trace_depth) for stage in retrieval.trace if trace_depth),
        stages=stages,
        gold_ranks=ranks,
        lost=lost_at(stages, ranks, found) if stages and question.answerable else "",
        calls=tuple(msgspec.structs.replace(call, replayed=False) for call in retrieval.calls),
        fallbacks=retrieval.fallbacks,
    )


def shortened(stage: StageTrace, depth: int) -> StageTrace:
    """Return the first ``depth`` entries of a stage's list, with scores rounded to nine decimals."""
    return StageTrace(
        stage=stage.stage,
        unit=stage.unit,
        keys=stage.keys[:depth],
        scores=_rounded(stage.scores[:depth]),
    )


# The rounded scores are cached, because predictors that have a stage in common have equal scores.
@lru_cache(maxsize=4096)
def _rounded(scores: tuple[float, ...]) -> tuple[float, ...]:
    """Round scores to nine decimals."""
    return tuple(round(score, 9) for score in scores)
