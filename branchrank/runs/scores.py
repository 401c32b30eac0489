"""Every measure of every question and predictor, from the rows of a run.

Repeats of an LLM predictor are averaged per question first, so that the unit stays the question. A question
whose query failed scores 0. Questions without gold take no part in the rates; they have a risk-coverage
curve of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import fsum

from branchrank.measures.matching import SHARES
from branchrank.measures.names import NamedMeasure, named_measure
from branchrank.measures.passage_size import PassageSize, passage_size
from branchrank.records import Question
from branchrank.runs.judging import hits_of, judged_row
from branchrank.runs.rows import Row, RowHit

#: How many hits the passage sizes cover.
PASSAGE_DEPTH = 5


STANDARD = (
    "strict_hit@1",
    "strict_hit@5",
    "relaxed_hit@1",
    "relaxed_hit@5",
    "strict_MRR@5",
    "strict_nDCG@5",
    "relaxed_MRR@5",
    "half_hit@1",
    "full_hit@1",
    "half_hit@5",
    "full_hit@5",
)
#: The scorings of ``--mode strict``: the same gold at any overlap, at half and at all of its lines.
_STRICT = ("strict", *SHARES)


def standard_measures(mode: str) -> tuple[NamedMeasure, ...]:
    """The measures that ``--mode`` selects."""
    modes = {"both": (*_STRICT, "relaxed"), "strict": _STRICT}.get(mode, ("relaxed",))
    return tuple(each for each in map(named_measure, STANDARD) if each.mode in modes)


class Scores:
    """Scores of a run's rows. ``predictors`` are in the order of the run."""

    def __init__(self, rows: Iterable[Row], questions: Sequence[Question]) -> None:
        self.questions = {question.id: question for question in questions}
        self.answerable = [question.id for question in questions if question.answerable]
        self._values: dict[tuple[str, str], dict[str, float]] = {}
        self._rows: dict[str, dict[str, list[Row]]] = {}
        for row in rows:
            self._rows.setdefault(row.predictor, {}).setdefault(row.question_id, []).append(row)

    @property
    def predictors(self) -> list[str]:
        """Every predictor with rows, in the order of the rows."""
        return list(self._rows)

    def rows(self, predictor: str) -> list[Row]:
        """All rows of a predictor."""
        return [row for rows in self._rows[predictor].values() for row in rows]

    def rows_of(self, predictor: str, question_id: str) -> list[Row]:
        """One row per repeat; empty when the question wasn't asked."""
        return self._rows[predictor].get(question_id, [])

    def per_question(self, predictor: str, measure: NamedMeasure) -> dict[str, float]:
        """Map each answerable question to the measure's value in 0..1, averaged over the repeats."""
        key = (predictor, measure.name)
        if key not in self._values:
            self._values[key] = {
                question_id: mean([self.value(row, measure) for row in self.rows_of(predictor, question_id)])
                for question_id in self.answerable
            }
        return self._values[key]

    def value(self, row: Row, measure: NamedMeasure) -> float:
        """The measure's value of one row."""
        question = self.questions[row.question_id]
        judged = judged_row(row, question, depths=measure.mode in SHARES)
        return measure.measure(judged.ranking(measure.mode))

    def average(self, predictor: str, measure: NamedMeasure) -> float:
        """The mean over the answerable questions."""
        return mean(list(self.per_question(predictor, measure).values()))

    def passage_sizes(self, predictor: str) -> list[PassageSize]:
        """Sizes of the first five hits of every row of an answerable question."""
        return [
            passage_size(hits_of(row)[:PASSAGE_DEPTH], self.questions[row.question_id])
            for row in self._answerable_rows(predictor)
        ]

    def shown_hits(self, predictor: str) -> list[RowHit]:
        """The hits that :meth:`passage_sizes` measures."""
        return [hit for row in self._answerable_rows(predictor) for hit in row.hits[:PASSAGE_DEPTH]]

    def _answerable_rows(self, predictor: str) -> list[Row]:
        return [row for row in self.rows(predictor) if self.questions[row.question_id].answerable]


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean; 0 for no values.

    ``fsum`` rounds once, so every version of Python gives the same digits; ``sum`` compensates since 3.12.
    """
    return fsum(values) / len(values) if values else 0.0


def outcome_of(row: Row, values: Mapping[str, float]) -> str:
    """Return the outcome of a question in a word: failed, hit, in top 5, same page, or miss."""
    if row.status == "failed":
        return "failed"
    if values.get("strict_hit@1"):
        return "hit"
    if values.get("strict_hit@5"):
        return "in top 5"
    return "same page" if values.get("relaxed_hit@5") else "miss"
