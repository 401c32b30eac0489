"""Judge hits, and compute the values of measures for each question and predictor from a run's rows.

The score of an LLM predictor on a question is the mean over the repeats, so that each question counts once. A
question whose query failed scores 0. Questions without gold are not included in the means. Reports show a
risk-coverage curve for questions without gold. Every table, plot and file uses the intervals of
:func:`estimate`, which allow for correlation between questions about the same page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache

import msgspec

from branchrank.core.records import UNPLACED, Hit, Question, Record
from branchrank.documents.chunking import token_counter
from branchrank.runs.rows import Row
from branchrank.runs.slices import GoldFacts
from branchrank.scoring.intervals import Interval, mean_interval, repeat_variance
from branchrank.scoring.matching import SHARES, Judged, JudgedHit, judge, source_cluster, without_excluded
from branchrank.scoring.measures import Mode, NamedMeasure, Ranking, mean, named_measure

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
#: The criteria of ``--mode strict``. A correct hit contains at least one line (``strict``), at least half of
#: the lines (``half``) or all lines (``full``) of a gold item.
STRICT_MODES: tuple[Mode, ...] = ("strict", *SHARES)


def standard_measures(mode: str) -> tuple[NamedMeasure, ...]:
    """Return the standard measures that ``--mode`` selects."""
    modes = {"both": (*STRICT_MODES, "relaxed"), "strict": STRICT_MODES}.get(mode, ("relaxed",))
    return tuple(each for each in map(named_measure, STANDARD) if each.mode in modes)


class Scores:
    """The scores of each predictor for each question of a run."""

    def __init__(
        self, rows: Iterable[Row], questions: Sequence[Question], facts: Iterable[GoldFacts] = ()
    ) -> None:
        self.questions = {question.id: question for question in questions}
        self.answerable = [question.id for question in questions if question.is_scored]
        facts = list(facts)
        self._blank_lines = {each.question_id: each.blank_lines or {} for each in facts}
        #: The cluster of each question whose page shares near-duplicate questions with other pages.
        self.merged = {each.question_id: each.cluster for each in facts if each.cluster}
        self._values: dict[tuple[str, str], dict[str, float]] = {}
        self._rankings: dict[tuple[str, str, int, Mode], Ranking] = {}
        self._rows: dict[str, dict[str, list[Row]]] = {}
        for row in rows:
            self._rows.setdefault(row.predictor, {}).setdefault(row.question_id, []).append(row)

    @property
    def predictors(self) -> list[str]:
        """The predictors that have rows, in the order in which they first appear in the rows."""
        return list(self._rows)

    def rows(self, predictor: str) -> list[Row]:
        """Return all of a predictor's rows."""
        return [row for rows in self._rows[predictor].values() for row in rows]

    def rows_of(self, predictor: str, question_id: str) -> list[Row]:
        """Return a predictor's rows for a question, one per repeat, or an empty list if there are none."""
        return self._rows[predictor].get(question_id, [])

    def hits(self, predictor: str) -> list[tuple[str, int, str, list[tuple[str, int, int]]]]:
        """Return the question, repeat, status and spans of each answer, which identical systems share."""
        rows = sorted(self.rows(predictor), key=lambda row: (row.question_id, row.repeat))
        spans = [[(hit.source, hit.line_start, hit.line_end) for hit in row.hits] for row in rows]
        return [(row.question_id, row.repeat, row.status, of) for row, of in zip(rows, spans, strict=True)]

    def failed_share(self, predictor: str) -> float:
        """Return the share of a predictor's queries that failed."""
        return mean([float(row.status == "failed") for row in self.rows(predictor)])

    def failed(self, predictor: str) -> bool:
        """Return whether every query of a predictor failed, so that nothing is known about its quality."""
        return self.failed_share(predictor) == 1

    def comparable(self, pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the pairs of predictors that both answered at least one query."""
        return [pair for pair in pairs if not any(map(self.failed, pair))]

    def per_question(self, predictor: str, measure: NamedMeasure) -> dict[str, float]:
        """Return the measure's value in 0..1 for each answerable question, averaged over the repeats."""
        key = (predictor, measure.name)
        if key not in self._values:
            self._values[key] = {
                question_id: mean([self.value(row, measure) for row in self.rows_of(predictor, question_id)])
                for question_id in self.answerable
            }
        return self._values[key]

    def unplaced_gain(self, predictor: str, measure: NamedMeasure) -> float:
        """Return by how much the mean could rise if each question's first text without a place were gold."""
        gains = []
        for question_id, value in self.per_question(predictor, measure).items():
            rows = self.rows_of(predictor, question_id)
            if any(row.missing or row.ambiguous for row in rows):
                gains.append(mean([self._value_if_placed(row, measure) for row in rows]) - value)
        return sum(max(0.0, gain) for gain in gains) / max(1, len(self.answerable))

    def _value_if_placed(self, row: Row, measure: NamedMeasure) -> float:
        place = next((place for place, hit in enumerate(row.hits) if hit.source == UNPLACED), None)
        if place is None:
            return self.value(row, measure)
        gold, *others = self.questions[row.question_id].gold
        first, last = (gold.span.line_start, gold.span.line_end) if gold.span else (1, 1)
        found = msgspec.structs.replace(
            row.hits[place],
            source=gold.source_file,
            line_start=first,
            line_end=last,
            gain=gold.relevance or 2,
            gold=0,
            also_gold=tuple(range(1, len(others) + 1)) or msgspec.UNSET,
            page=0,
        )
        changed = msgspec.structs.replace(row, hits=(*row.hits[:place], found, *row.hits[place + 1 :]))
        return measure.measure(self.judged(changed).ranking(measure.mode))

    def value(self, row: Row, measure: NamedMeasure) -> float:
        """Return the measure's value for one row of the run."""
        key = (row.predictor, row.question_id, row.repeat, measure.mode)
        if key not in self._rankings:
            self._rankings[key] = self.judged(row).ranking(measure.mode)
        return measure.measure(self._rankings[key])

    def judged(self, row: Row, depth: int | None = None) -> Judged:
        """Return the first ``depth`` hits of a row, by default all, with what they are judged by."""
        key = row.question_id
        blank_lines = self._blank_lines.get(key, {})
        return Judged(hits=row.hits[:depth], question=self.questions[key], blank_lines=blank_lines)

    def average(self, predictor: str, measure: NamedMeasure) -> float:
        """Return the mean of a predictor's scores over the answerable questions."""
        return mean(self.per_question(predictor, measure).values())

    def estimate(self, predictor: str, measure: NamedMeasure) -> Estimate:
        """Return the mean with its interval, which contains the variance between the repeats."""
        rows = [self.rows_of(predictor, question_id) for question_id in self.answerable]
        repeats = min(map(len, rows), default=0)
        scores = [[self.value(row, measure) for row in each[:repeats]] for each in rows if repeats > 1]
        shared = repeat_variance(scores) if scores else 0.0
        return estimate(self.per_question(predictor, measure), self.clusters, shared)

    @cached_property
    def clusters(self) -> dict[str, str]:
        """A dict from each answerable question's id to its cluster, which is the source file of its gold."""
        return {key: source_cluster(self.questions[key]) for key in self.answerable}

    def answerable_rows(self, predictor: str) -> list[Row]:
        """Return a predictor's rows for answerable questions."""
        return [row for row in self.rows(predictor) if self.questions[row.question_id].is_scored]


def outcome_of(row: Row, values: Mapping[str, float]) -> str:
    """Return a row's outcome, which is failed, hit, in top 5, same page or miss."""
    if row.status == "failed":
        return "failed"
    if values.get("strict_hit@1"):
        return "hit"
    if values.get("strict_hit@5"):
        return "in top 5"
    return "same page" if values.get("relaxed_hit@5") else "miss"


class Estimate(Record, frozen=True, kw_only=True):
    """A mean over ``n`` questions, with its 95% confidence interval.

    ``low`` and ``high`` are ``None`` if the gold is on too few pages to compute an interval.
    """

    value: float
    low: float | None
    high: float | None
    n: int


def estimate(values: Mapping[str, float], clusters: Mapping[str, str], shared: float = 0.0) -> Estimate:
    """Return the mean of a predictor's scores with its interval.

    ``clusters`` maps each question's id to the source of its gold. ``shared`` is the variance of the mean
    that comes from differences between whole repeats.
    """
    scores = list(values.values())
    interval = mean_interval(scores, [clusters[key] for key in values], shared=shared)
    return bounded(mean(scores), interval, len(scores))


def bounded(value: float, interval: Interval | None, n: int) -> Estimate:
    """Return a mean over ``n`` questions with its interval, if there is one."""
    low, high = (None, None) if interval is None else (interval.low, interval.high)
    return Estimate(value=value, low=low, high=high, n=n)


def judged_hits(hits: Sequence[Hit], question: Question) -> tuple[JudgedHit, ...]:
    """Judge the hits for one question, and return them without their text."""
    kept = without_excluded(hits, question)
    return tuple(
        msgspec.structs.replace(judged, tokens=_tokens(hit.plain))
        for hit, judged in zip(kept, judge(kept, question).hits, strict=True)
    )


@lru_cache(maxsize=4096)
def _tokens(text: str) -> int:
    """Count the tokens in a passage (cached, because predictors often return the same passages)."""
    return token_counter()(text)
