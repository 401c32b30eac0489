"""Measure the latency of one query at a time, without results of earlier queries, in a seeded random order.

1. Each predictor first answers one question that is timed separately, because the first query of a predictor
   can include one-time work. The index and the models are already open, so the first query is not a cold
   start.
2. Every predictor answers every sampled question. The pairs of predictor and question are shuffled with the
   seed, so that a change in the machine's speed affects all predictors equally.
3. The results are the wall time and CPU time of the whole query and the wall time of each stage, in ms. CPU
   time includes the CPU time of child processes that have exited, such as grep. Time spent waiting for an LLM
   is the stage ``llm wait``, which is not part of the stage ``compute``. For an LLM call that is answered
   from a cache or a cassette, or that failed in the quality pass, the latency of the original call is used,
   so that the latency pass makes no paid calls.
4. All sampled queries are timed ``latency_repeats`` times, each time in a new random order. For each query,
   the repeat with the median total time is used. Each query contributes only one latency, because the
   confidence bound for p95 requires independent measurements. The garbage collector's settings are not
   changed.
5. No query uses memos or cached embeddings of earlier queries, also in a user's own predictor that searches a
   workspace (:func:`~branchrank.search.systems.memo.caches_off`). Queries that fail are counted and not
   timed.
"""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from branchrank.core.io.progress import Progress, no_progress
from branchrank.core.records import Question, Retrieval
from branchrank.core.settings import BenchmarkSettings
from branchrank.runs.bench.answering import FATAL, same_hits
from branchrank.runs.bench.places import HitPlaces
from branchrank.runs.bench.predictors import BenchmarkPredictor, SystemPredictor
from branchrank.runs.rows import Row
from branchrank.runs.timings import COMPUTE, CPU, DIFFERENT, FAILED, FIRST, LLM_WAIT, TOTAL, WARM, Timing
from branchrank.search.systems.memo import caches_off

#: The timing of a query that failed, without its predictor and question.
_failed = partial(Timing, phase=FAILED, stage=TOTAL, ms=0.0)


@caches_off()
def latency_pass(
    predictors: Sequence[BenchmarkPredictor],
    questions: Sequence[Question],
    settings: BenchmarkSettings,
    progress: Progress = no_progress,
    rows: Mapping[tuple[str, str], Row] | None = None,
    places: HitPlaces | None = None,
) -> list[Timing]:
    """Measure the latency of every predictor on every question.

    ``rows`` maps the pairs (predictor, question id) to the answers of the quality pass. The pairs that failed
    are counted as failures without being asked again. A class or an endpoint must return the same hits again;
    their places are found in ``places``, after the time is measured.
    """
    rows = rows or {}
    failed = {pair for pair, row in rows.items() if row.status == "failed"}

    def checked(predictor: BenchmarkPredictor, question: Question, retrieval: Retrieval) -> bool:
        row = rows.get((predictor.name, question.id))
        if isinstance(predictor, SystemPredictor) or row is None or row.status == "failed":
            return True
        return same_hits(predictor, question, retrieval, row, places)

    timings: list[Timing] = []
    if not questions:
        return timings
    for predictor in predictors:
        found = timed(predictor, questions[0], settings.top_k, FIRST, checked)
        timings += (timing for timing in found if timing.phase == FIRST)
    order = random.Random(settings.sample_seed)  # noqa: S311 - an order, not a secret
    pairs = [(predictor, question) for question in questions for predictor in predictors]
    timings += (
        _failed(predictor=each.name, question_id=asked.id)
        for each, asked in pairs
        if (each.name, asked.id) in failed
    )
    pairs = [(each, question) for each, question in pairs if (each.name, question.id) not in failed]
    asked: list[list[Timing]] = []
    whole = settings.latency_repeats * len(pairs)
    for _ in range(settings.latency_repeats):
        order.shuffle(pairs)
        for predictor, question in pairs:
            progress("latency", len(asked), whole)
            asked.append(timed(predictor, question, settings.top_k, WARM, checked))
    progress("latency", whole, whole)
    timings += _medians(asked)
    return sorted(timings, key=lambda timing: (timing.predictor, timing.question_id, timing.phase))


def _medians(asked: Iterable[Sequence[Timing]]) -> list[Timing]:
    """For each predictor and question, return the repeat whose total time is the (lower) median.

    Repeats that failed are ignored, unless all repeats failed.
    """
    found: dict[tuple[str, str], list[Sequence[Timing]]] = {}
    for answer in asked:
        found.setdefault((answer[0].predictor, answer[0].question_id), []).append(answer)

    def total(answer: Sequence[Timing]) -> float:
        return next(each.ms for each in answer if each.stage == TOTAL)

    answered = (
        [each for each in answers if each[0].phase == DIFFERENT]
        or [each for each in answers if each[0].phase != FAILED]
        or answers
        for answers in found.values()
    )
    kept = (sorted(answers, key=total)[(len(answers) - 1) // 2] for answers in answered)
    return [timing for answer in kept for timing in answer]


def timed(
    predictor: BenchmarkPredictor,
    question: Question,
    top_k: int,
    phase: str,
    checked: Callable[[BenchmarkPredictor, Question, Retrieval], bool],
) -> list[Timing]:
    """Answer one question, and return the time for each stage and for the whole query.

    A failure is not an answer: it is returned in the phase ``failed``, and its time is 0. An answer that
    ``checked`` does not accept is returned in the phase ``different``. The time of an empty round trip to a
    class in a process of its own is subtracted, and its CPU time is not known.
    """
    wall, cpu = time.perf_counter(), _cpu_seconds()
    try:
        retrieval = predictor.predict(question, top_k)
    except FATAL:
        raise
    except Exception:
        return [_failed(predictor=predictor.name, question_id=question.id)]
    overhead = getattr(predictor, "overhead_ms", 0.0)
    elapsed = max(0.0, 1000.0 * (time.perf_counter() - wall) - overhead)
    spent = 1000.0 * (_cpu_seconds() - cpu)
    if not checked(predictor, question, retrieval):
        return [_failed(predictor=predictor.name, question_id=question.id, phase=DIFFERENT)]
    stages = dict(retrieval.stage_ms)
    waited = sum(call.latency_ms for call in retrieval.calls)
    remembered = sum(
        call.latency_ms for call in retrieval.calls if call.replayed or call.served_by != "server"
    )
    total = elapsed + remembered
    stages |= {TOTAL: total, LLM_WAIT: waited, COMPUTE: max(0.0, total - waited)}
    if not overhead:
        stages[CPU] = spent
    return [
        Timing(predictor=predictor.name, question_id=question.id, phase=phase, stage=stage, ms=round(ms, 4))
        for stage, ms in stages.items()
    ]


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of its child processes that have exited."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
