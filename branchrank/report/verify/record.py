"""Checks of ``run.json``, ``timings.csv`` and ``gold.jsonl`` against the plan in ``run.json``.

1. A value that ``run.json`` records in two places must be the same in both, and the counts in ``run.json``
   must be correct.
2. The ids of a question's gold chunks and gold nodes are computed once for each index, and reused for all
   other answers to the question. The counts of computed and reused results in ``run.json`` must agree with
   the number of answers.
3. The timed questions must be the random sample that the run's seed generates. The time of a stage must not
   exceed the time of its whole query.
4. If the run searched a corpus, ``gold.jsonl`` must contain exactly the questions that have gold.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from branchrank.bench.seal import differences, read_seal, seal_of
from branchrank.questions.question_files import sample_questions
from branchrank.report.verify.findings import Finding, some
from branchrank.runs import directory as names
from branchrank.runs.directory import PredictorRecord
from branchrank.runs.run import RunData
from branchrank.runs.timings import COMPUTE, CPU, FIRST, LLM_WAIT, TOTAL, WARM, Timing
from branchrank.runs.warnings import warnings_of
from branchrank.spec import System
from branchrank.systems.checks import timed_together

#: The tolerance for rounded times, in milliseconds.
_ROUNDING = 0.01
_GOLD_KEYS = "gold keys"


def check_record(run: RunData) -> list[Finding]:
    """Check the values in ``run.json`` against the plan and the rows."""
    record, settings = run.record, run.settings
    said = {
        "seed": (record.seed, settings.sample_seed),
        "top_k": (record.top_k, settings.top_k),
        "mode": (record.mode, settings.mode),
    }
    found = [
        (place, f"is {value}, but the settings have {other}")
        for place, (value, other) in said.items()
        if value != other
    ]
    counted = {
        "failures": (record.failures, sum(row.status == "failed" for row in run.rows)),
        "fallbacks": (record.fallbacks, sum(bool(row.fallbacks) for row in run.rows)),
        "warnings": (record.warnings, warnings_of(run.rows, record, run.asked)),
    }
    found += [
        (place, f"is {value}, should be {again}")
        for place, (value, again) in counted.items()
        if value != again
    ]
    if record.seal is not None and record.seal.digest != seal_of(record).digest:
        found.append(("seal", "does not match the plan of this run"))
    indexes = {index.name for index in record.indexes}
    for predictor in record.predictors:
        found += [(f"predictor {predictor.name!r}", text) for text in _predictor_faults(predictor, indexes)]
    found += [("computed", text) for text in _counter_faults(run)]
    return [Finding(file=names.RUN_JSON, place=place, message=message) for place, message in found]


def check_seal_copy(run: RunData, path: Path) -> list[Finding]:
    """Compare the run with a copy of its seal. Raises :class:`InputError` if the file is not a seal."""
    found = differences(read_seal(path), seal_of(run.record))
    return [Finding(file=names.RUN_JSON, place="seal", message=text) for text in found]


def _predictor_faults(predictor: PredictorRecord, indexes: set[str]) -> Iterator[str]:
    system = predictor.system
    if system is None:
        return
    if system.name != predictor.name:
        yield f"has a system with another name, {system.name!r}"
    if system.llm_label != predictor.llm:
        yield f"has the LLM {predictor.llm!r}, but its system has {system.llm_label!r}"
    if predictor.index not in indexes:
        yield f"searches the index {predictor.index!r}, which the run does not have"
    if predictor.repeats > 1 and not system.asks_llm:
        yield "has repeats, but does not use an LLM"


def _counter_faults(run: RunData) -> Iterator[str]:
    """Check the numbers of computed and reused results in ``run.json`` against the rows."""
    record = run.record
    index_of = {each.name: each.index for each in record.predictors if each.system is not None}
    answers = [row for row in run.rows if row.predictor in index_of and row.status == "ok"]
    if record.resumed_rows or not answers:
        return
    computed = len({(index_of[row.predictor], row.question_id) for row in answers})
    expected = (computed, len(answers) - computed)
    counted = (record.computed.get(_GOLD_KEYS, 0), record.reused.get(_GOLD_KEYS, 0))
    if counted != expected:
        yield f"{_GOLD_KEYS} were computed and reused {counted} times, should be {expected}"
    for name in ("embed", *record.computed):
        if record.computed.get(name, 0) <= 0 < record.reused.get(name, 0):
            yield f"{name} was reused, but never computed"


def check_timings(run: RunData) -> list[Finding]:
    """Check that ``timings.csv`` contains every query in the latency pass, with plausible times."""
    timed = defaultdict(list)
    for timing in run.timed:
        timed[timing.predictor, timing.question_id, timing.phase].append(timing)
    wanted = _wanted(run)
    found = [
        Finding(file=names.TIMINGS_CSV, place=_place(*key), message=message)
        for keys, message in (
            (wanted - timed.keys(), "is missing"),
            (timed.keys() - wanted, "is not part of the plan"),
        )
        for key in sorted(keys)
    ]
    systems = {each.name: each.system for each in run.record.predictors}
    for key, timings in timed.items():
        found += [
            Finding(file=names.TIMINGS_CSV, place=_place(*key), message=message)
            for message in _time_faults(timings, systems.get(key[0]))
        ]
    return some(names.TIMINGS_CSV, found)


def _wanted(run: RunData) -> set[tuple[str, str, str]]:
    """Return ``(predictor, question, phase)`` for every query that belongs to the latency pass."""
    size = min(run.settings.latency_sample, len(run.asked))
    if not size:
        return set()
    drawn = sample_questions(run.asked, size, run.record.seed)
    predictors = [each.name for each in run.record.predictors]
    return {(name, drawn[0].id, FIRST) for name in predictors} | {
        (name, question.id, WARM) for name in predictors for question in drawn
    }


def _place(predictor: str, question: str, phase: str) -> str:
    return f"predictor {predictor!r}, question {question!r}, {phase}"


def _time_faults(timings: list[Timing], system: System | None) -> Iterator[str]:
    times: Mapping[str, float] = {timing.stage: timing.ms for timing in timings}
    if Counter(timing.stage for timing in timings).most_common(1)[0][1] > 1:
        yield "has the same stage twice"
    lacking = [stage for stage in (TOTAL, CPU, LLM_WAIT, COMPUTE) if stage not in times]
    if lacking:
        yield f"does not have a time for {lacking[0]}"
        return
    total, wait = times[TOTAL], times[LLM_WAIT]
    if abs(times[COMPUTE] - max(0.0, total - wait)) > _ROUNDING:
        yield f"has a time for {COMPUTE} that is not its {TOTAL} minus the {LLM_WAIT}"
    if system is None:
        return
    apart = (TOTAL, CPU, LLM_WAIT, COMPUTE, "embed cpu")
    stages = [ms for stage, ms in times.items() if stage not in apart]
    longest = max(stages, default=0.0) if timed_together(system) else sum(stages)
    if longest > total + _ROUNDING:
        yield f"has stages of {longest:g} ms in a {TOTAL} of {total:g} ms"


def check_gold_facts(run: RunData) -> list[Finding]:
    """If the run searched a corpus, check that ``gold.jsonl`` contains exactly the questions with gold."""
    about = [facts.question_id for facts in run.gold_facts]
    golden = [question.id for question in run.asked if question.gold]
    if about == (golden if run.record.corpus else []):
        return []
    message = f"has {len(about)} questions, but {len(golden)} questions of the run have gold"
    return [Finding(file=names.GOLD, place="", message=message)]
