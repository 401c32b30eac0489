"""Which questions two runs have in common, and what changed for each, also if the documents changed.

1. A question is the same in both runs if its text and the digest of its gold are the same, wherever the gold
   is. The digest is that of the text of the gold lines, or of the page for file-level gold.
2. A question whose gold changed or is gone in one of the runs is compared apart, by page.
3. Runs of older versions have no digests. Their questions must have the same gold in the same lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from branchrank.core.errors import RunError
from branchrank.core.records import Question, Record
from branchrank.questions.question_files import HASHED, hashed
from branchrank.runs.run_data import RunData
from branchrank.runs.tables import located
from branchrank.scoring.measures import NamedMeasure, mean, named_measure

Kind = Literal["won", "lost", "gold changed", "gold gone", "gold new"]
KINDS: tuple[Kind, ...] = ("won", "lost", "gold changed", "gold gone", "gold new")


class QuestionChange(Record, frozen=True, kw_only=True):
    """What changed for one question between two runs. ``str()`` returns one line.

    ``question`` is empty if the run does not store the text of its questions. ``gold`` is where the gold was
    in the baseline run (in the candidate run, if it is new), and ``first`` is the candidate's first hit.
    """

    kind: Kind
    id: str
    question: str
    gold: str
    first: str

    def __str__(self) -> str:
        text = f" ({self.question})" if self.question else ""
        return f"{self.kind}: {self.id}{text}; gold: {self.gold}; first hit now: {self.first or 'none'}"


class CommonQuestions(NamedTuple):
    """The questions with the same gold in two runs, and the kind of change of each other question."""

    same: list[str]
    apart: dict[str, Kind]

    def restricted(self, run: RunData) -> RunData:
        """Return the run restricted to the questions with the same gold."""
        return run.asking(self.same) if self.apart else run


def common_questions(candidate: RunData, baseline: RunData) -> CommonQuestions:
    """Compare the questions and the gold of two runs.

    Raises :class:`RunError` if the two runs have different questions, if their gold differs although their
    documents do not, or if no question has the same gold in both runs.
    """
    new, old = candidate.record, baseline.record
    alone = sorted(set(old.question_ids) ^ set(new.question_ids))
    if alone:
        shown = _first(alone)
        raise RunError(
            f"the runs have different questions: {len(alone)} are in only one of the runs ({shown})",
            remedy="run both with the same questions, sample size and seed",
        )
    kinds = {
        question.id: _kind(baseline.scores.questions[question.id], question, baseline, candidate)
        for question in candidate.asked
    }
    if refused := [key for key, kind in kinds.items() if kind == "refused"]:
        raise RunError(
            f"the text or gold of these questions differs between the two runs: {_first(refused)}",
            remedy="run both again with the same question file",
        )
    found = CommonQuestions(
        [key for key, kind in kinds.items() if kind == "same"],
        {key: kind for key, kind in kinds.items() if kind != "same" and kind != "refused"},
    )
    if found.apart and not candidate.asking(found.same).scores.answerable:
        raise RunError(
            f"no question has the same gold in the two runs: {_first(list(found.apart))}",
            remedy="add questions about other pages, or make a new baseline run",
        )
    return found


def _kind(
    before: Question, now: Question, baseline: RunData, candidate: RunData
) -> Kind | Literal["same", "refused"]:
    if (hashed(before).question, before.answerable) != (hashed(now).question, now.answerable):
        return "refused"
    if "gone" in (now.gold_state, before.gold_state):
        return "gold gone" if now.gold_state == "gone" else "gold new"
    if now.gold_state or before.gold_state:
        return "gold changed"
    digests = [run.facts[now.id].digest if now.id in run.facts else "" for run in (baseline, candidate)]
    if not all(digests):
        return "same" if _asked(before) == _asked(now) else "refused"
    if digests[0] == digests[1]:
        return "same"
    edited = candidate.record.corpus_digest != baseline.record.corpus_digest
    return "gold changed" if edited else "refused"


def _asked(question: Question) -> tuple[object, ...]:
    """Return the parts of a question on which scores depend: not its labels, digests and slices."""
    gold = tuple(msgspec.structs.replace(item, answer_digest=None) for item in hashed(question).gold)
    level, spans, aliases = question.gold_level, question.excluded_spans, question.source_aliases
    return gold, question.needs, level, spans, aliases


def _first(ids: Sequence[str]) -> str:
    """Return the first five ids, separated by commas, and an ellipsis if there are more."""
    return ", ".join(ids[:5]) + (", ..." if len(ids) > 5 else "")


def question_changes(
    before: Mapping[str, float], now: Mapping[str, float], apart: Mapping[str, Kind]
) -> Iterator[tuple[str, Kind]]:
    """Yield each question whose score or gold changed, with the kind of change, in the order of ``KINDS``."""
    kinds: dict[str, Kind] = {key: "won" for key, value in now.items() if value > before[key]}
    kinds |= {key: "lost" for key, value in now.items() if value < before[key]}
    yield from sorted({**kinds, **apart}.items(), key=lambda each: KINDS.index(each[1]))


def described(key: str, kind: Kind, candidate: RunData, baseline: RunData, predictor: str) -> QuestionChange:
    """Describe what changed for the question with this id, for a predictor of the candidate run."""
    question = candidate.scores.questions[key]
    asked = question if kind == "gold new" else baseline.scores.questions[key]
    hits = candidate.scores.rows_of(predictor, key)[0].hits
    return QuestionChange(
        kind=kind,
        id=key,
        question="" if question.question.startswith(HASHED) else question.question,
        gold=located(asked),
        first=hits[0].span.citation if hits else "",
    )


def by_page(
    run: RunData, predictor: str, measure: NamedMeasure, apart: Mapping[str, Kind]
) -> tuple[NamedMeasure, list[float]]:
    """Return the relaxed variant of the measure, and its value for each question whose gold changed."""
    relaxed = named_measure(f"relaxed_{measure.name.removeprefix(f'{measure.mode}_')}")
    scores = run.scores
    changed = [key for key, kind in apart.items() if kind == "gold changed"]
    return relaxed, [
        mean([scores.value(row, relaxed) for row in scores.rows_of(predictor, key)]) for key in changed
    ]
