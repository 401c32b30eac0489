"""Warnings about a run's scores, computed from the rows, the record and the questions."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Literal

from branchrank.core.records import Question, Record
from branchrank.core.settings import DISTANCE_THRESHOLD, BenchmarkSettings
from branchrank.core.spec import AGENT, System
from branchrank.index.stores.analyzer import unread_letters
from branchrank.questions.anchoring import unrecorded_gold
from branchrank.questions.labels import llm_gold
from branchrank.questions.question_files import EXAMPLE, UNPLACED
from branchrank.runs.directory import IndexFacts, PredictorRecord, RunRecord
from branchrank.runs.rows import Row
from branchrank.runs.words import counted, plural
from branchrank.search.systems.branches import label

#: The largest cutoff of the standard measures.
DEEPEST = 5


def warnings_of(rows: Sequence[Row], run: RunRecord, questions: Sequence[Question]) -> tuple[str, ...]:
    """Return the warnings about a run's scores on ``questions``, except those of :func:`failures`."""
    return (
        *examples(questions),
        *labeled_by_llm(questions),
        *set_apart(questions),
        *unrecorded(questions, run),
        *shallow(run.top_k),
        *lost_branches(rows, run.predictors, run.indexes),
        *avoidable_latency(run),
        *run.left_out,
        *run.llm_notes,
        *different_chunks(run.indexes),
        *chain.from_iterable(
            unread_letters(each.embedder, each.languages, each.scripts) for each in run.indexes
        ),
    )


class Caution(Record, frozen=True, kw_only=True):
    """A reason to doubt the scores of a predictor, or of the whole run if ``predictor`` is empty.

    ``failed`` means that all queries or all LLM calls of the predictor failed.
    """

    kind: Literal["pilot", "tuned", "unasked", "recorded", "judged", "failures", "failed", "factors"]
    words: str
    predictor: str = ""

    def __str__(self) -> str:
        return f"{self.predictor}: {self.words}" if self.predictor else self.words


def failures(rows: Sequence[Row], predictors: Sequence[PredictorRecord]) -> Iterator[Caution]:
    """Yield a caution for each predictor with failures, fallbacks, texts that need a remark, or no hits."""
    for predictor in predictors:
        own = [row for row in rows if row.predictor == predictor.name]
        errors = [row.error for row in own if row.status == "failed"]
        calls = [call for row in own for call in row.calls]
        fallen = [row for row in own if row.fallbacks]
        no_answer = len(errors) == len(own) > 0
        no_reply = bool(calls) and all(call.outcome != "ok" for call in calls)
        parts = []
        if errors:
            counts = "so it is not compared" if no_answer else "each counts as a miss"
            parts.append(f"{_failed(errors, len(own), 'query')} ({counts})")
        if no_reply:
            parts.append(_failed([call.outcome for call in calls], len(calls), "LLM call"))
        elif fallen:
            reasons = [reason for row in fallen for reason in row.fallbacks]
            reason = f"{'most often: ' * (len({*reasons}) > 1)}{_commonest(reasons)}"
            doubt = f"; the rates say little about {predictor.llm}" if 2 * len(fallen) > len(own) else ""
            parts.append(f"{len(fallen)} of {plural(len(own), 'answer')} fell back ({reason}){doubt}")
        if remarks := [row.agent.remark for row in own if row.agent and row.agent.remark]:
            parts.append(f"{len(remarks)} of {plural(len(own), 'answer')}: {_commonest(remarks)}")
        if errors := [call.detail for call in calls if call.detail]:
            parts.append(f"the most frequent error of the LLM's server was {_commonest(errors)!r}")
        if altered := [row for row in own if row.altered]:
            count = plural(sum(row.altered or 0 for row in altered), "hit")
            parts.append(f"the text of {count} is not the text of the lines, and was replaced{_see(altered)}")
        if unplaced := [row for row in own if row.missing or row.ambiguous]:
            lost = sum((row.missing or 0) + (row.ambiguous or 0) for row in unplaced)
            total = sum(len(row.hits) for row in own)
            low = ", so its rates can be too low" if 20 * lost > total else ""
            words = f"{lost} of {plural(total, 'hit')} have no place in the corpus, and each is a miss"
            parts.append(f"{words}{low}{_see(unplaced)}")
        if unknown := [source for row in own for source in row.unknown or ()]:
            words = f"{plural(len(unknown), 'text')} named a source that is not in the corpus, most often"
            parts.append(f"{words} {_commonest(unknown)!r}, and all documents were searched for them")
        if own and not no_answer and not any(row.hits or row.excluded for row in own):
            parts.append(f"no hits for any of {plural(len({row.question_id for row in own}), 'question')}")
        if parts:
            kind: Literal["failed", "failures"] = "failed" if no_answer or no_reply else "failures"
            yield Caution(kind=kind, words="; ".join(parts), predictor=predictor.name)


def several_factors(
    pairs: Iterable[tuple[PredictorRecord, PredictorRecord]], of: str = ""
) -> Iterator[Caution]:
    """Yield a caution for each compared pair of agents that differ in more than one of their factors.

    The second of a pair is compared with the first, whose name is followed by ``of``.
    """
    for old, new in pairs:
        a, b = agent_factors(old.system), agent_factors(new.system)
        different = [name for name in a if b and a[name] != b[name]]
        if len(different) > 1:
            words = (
                f"it differs from {old.name}{of} in {' and '.join(different)}, so no single cause is shown"
            )
            yield Caution(kind="factors", words=words, predictor=new.name)


def agent_factors(system: System | None) -> dict[str, str]:
    """Return what the answers of an agent depend on, or nothing for other predictors."""
    for branch in system.branches if system else ():
        if system and branch.kind == AGENT:
            agent = branch.agent
            form = " as JSON" if agent.tool_calls == "json" else ""
            return {
                "model": system.llm.model,
                "prompt": str(agent.prompt),
                "tools": (", ".join(agent.tools) or "none") + form,
                "budget": f"{plural(agent.max_steps, 'step')}, {agent.context_tokens:,} tokens of context",
            }
    return {}


def recorded(text: str, predictors: Iterable[str]) -> Caution:
    """Return a warning of ``run.json``, which begins with its predictor's name and a colon if it has one."""
    name = next((name for name in predictors if text.startswith(f"{name}: ")), "")
    return Caution(kind="recorded", words=text.removeprefix(f"{name}: ") if name else text, predictor=name)


def _see(rows: Sequence[Row]) -> str:
    return f" (see `branchrank explain RUN {shlex.quote(rows[0].question_id)}`)"


def avoidable_latency(run: RunRecord) -> Iterator[str]:
    """Yield a warning if systems rescored by token vectors that the index does not contain."""
    without = {facts.name for facts in run.indexes if facts.token_vectors == "none"}  # noqa: S105 - no secret
    slow = [
        each.name
        for each in run.predictors
        if each.system and each.system.rescore.method == "maxsim" and each.index in without
    ]
    if slow:
        yield (
            f"{' and '.join(slow)}: each query computed the token vectors of its candidates, which takes "
            "most of its time; to store them in the index, run: branchrank index --data-dir "
            f"{shlex.quote(run.data_dir)} --token-vectors int8"
        )


def different_chunks(indexes: Sequence[IndexFacts]) -> Iterator[str]:
    """Yield a warning if embedders are compared on different chunks. Older runs have no digest of them."""
    chunks: dict[str, set[str]] = {facts.embedder: set() for facts in indexes}
    for facts in indexes:
        chunks[facts.embedder].add(facts.chunks_digest)
    if all(facts.chunks_digest for facts in indexes) and len({*map(frozenset, chunks.values())}) > 1:
        yield f"the embedders {' and '.join(chunks)} have different chunks, so not only the models differ"


def _failed(reasons: Sequence[str], total: int, noun: str) -> str:
    count = "all" if len(reasons) == total else f"{len(reasons)} of"
    return f"{count} {plural(total, noun)} failed, most often with {_commonest(reasons)!r}"


def _commonest(reasons: Iterable[str]) -> str:
    """Return the most frequent reason, and of several the first in alphabetical order."""
    return Counter(sorted(reasons)).most_common(1)[0][0]


def examples(questions: Sequence[Question]) -> Iterator[str]:
    """Yield a warning if any questions are the examples of ``branchrank init``, or imported without gold."""
    if count := sum(EXAMPLE in question.extra for question in questions):
        yield (
            f"{counted(count, len(questions), 'question', 'is an example', 'are examples')} of branchrank "
            "init; replace them with questions of your readers before you believe a rate"
        )
    if count := sum(UNPLACED in question.extra and not question.answerable for question in questions):
        yield (
            f"{counted(count, len(questions), 'question', 'was', 'were')} imported without gold; label them "
            f"with branchrank view, or delete the key {UNPLACED} where the corpus has no answer"
        )


def labeled_by_llm(questions: Sequence[Question]) -> Iterator[str]:
    """Yield a warning if any gold was labeled by an LLM and not checked by a person."""
    count, models = llm_gold(questions)
    if count:
        total = sum(len(question.gold) for question in questions)
        yield (
            f"{counted(count, total, 'gold passage', 'was', 'were')} labeled by an LLM "
            f"({', '.join(models)}); rates of systems that use an LLM may be too high"
        )


def set_apart(questions: Sequence[Question]) -> Iterator[str]:
    """Yield a warning for the questions whose gold changed in the documents, and for those whose is gone."""
    for state in ("changed", "gone"):
        if ids := [question.id for question in questions if question.gold_state == state]:
            yield f"gold {state}: {plural(len(ids), 'question')}, not in the rates ({', '.join(ids)})"


def unrecorded(questions: Sequence[Question], run: RunRecord) -> Iterator[str]:
    """Yield a warning for gold that a run with ``--reanchor`` can't follow."""
    note = unrecorded_gold(questions)
    if note and run.settings.get(BenchmarkSettings.section, {}).get("reanchor"):
        yield note


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
            label(branch): measured.get(branch.index or predictor.index, DISTANCE_THRESHOLD)
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
                    f"{len(answered)} questions without any result of {name}; branchrank calibrate "
                    "suggests a value for this model"
                )
