"""Write a run's CSV files (summary, comparisons, questions and LLM calls) and its hard questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from branchrank.io.files import write_text
from branchrank.io.table import table_csv
from branchrank.measures.matching import gold_level
from branchrank.measures.names import NamedMeasure, named_measure
from branchrank.measures.verdicts import Comparison
from branchrank.questions.question_files import write_questions
from branchrank.records import LLMCall, Question
from branchrank.runs import directory as names
from branchrank.runs.attribution import lost_in
from branchrank.runs.estimates import Estimate
from branchrank.runs.rows import Row
from branchrank.runs.scores import STANDARD, Scores, outcome_of
from branchrank.runs.summary import SummaryRow

if TYPE_CHECKING:
    from branchrank.runs.run import RunData

FIRST_RATES = STANDARD[:4]
MORE_RATES = STANDARD[4:]


def write_tables(run: RunData, into: Path | None = None) -> None:
    """Write a run's CSV files, and the questions that no predictor solved.

    The files are written into the directory ``into``, by default the run's directory.
    """
    directory = into or run.directory
    write_text(directory / names.SUMMARY_CSV, summary_csv(run))
    write_text(directory / names.COMPARISONS_CSV, comparisons_csv(run.judgment.comparisons))
    write_text(directory / names.QUESTIONS_CSV, questions_csv(run))
    write_text(directory / names.CALLS_CSV, calls_csv(run))
    write_questions(directory / names.HARD_SET, run.hard_set)


def summary_csv(run: RunData) -> str:
    """Return the text of ``summary.csv``, with one row per predictor.

    The first columns are the same for every run, and include the interval bounds of the standard measures.
    The next columns are the measures that were requested by name, with the bounds of their intervals. If the
    questions have two gold levels, every measure also has a column for each level, such as
    ``strict_hit@1_span``.
    """
    fixed = (
        "lines_per_hit",
        "latency_p50_ms",
        "latency_p95_ms",
        "llm_calls_per_query",
        "llm_tokens_per_query",
    )
    more = tuple(name for name in SummaryRow.__struct_fields__[4:] if name not in fixed)
    named = tuple(measure.name for measure in run.extra if measure.name not in STANDARD)
    standard = (*FIRST_RATES, *MORE_RATES)
    first = ("predictor", "llm", "questions", *FIRST_RATES, *fixed, *MORE_RATES, *more, "gold")
    parts = {level: part for level, part in run.by_gold.items() if part is not run}
    [together] = run.by_gold.keys() - parts.keys()
    header = (*first, *_bound_names(standard), *named, *_bound_names(named), *_level_names(parts, named))
    lines = [
        (
            row.predictor,
            row.llm,
            row.questions,
            *(row.rates[name] for name in FIRST_RATES),
            *(getattr(row, name) for name in fixed),
            *(row.rates[name] for name in MORE_RATES),
            *(getattr(row, name) for name in more),
            together,
            *(bound for name in standard for bound in _bounds(row.estimates[name])),
            *(row.rates[name] for name in named),
            *(bound for name in named for bound in _bounds(row.estimates[name])),
            *_level_cells(parts, place, named),
        )
        for place, row in enumerate(run.summary_rows)
    ]
    return table_csv(header, lines)


def _bound_names(measures: Sequence[str]) -> list[str]:
    return [f"{name}_{end}" for name in measures for end in ("low", "high")]


def _level_names(parts: Mapping[str, RunData], named: Sequence[str]) -> list[str]:
    names = ("answerable_questions", *STANDARD, *named)
    return [f"{name}_{level}" for level in parts for name in names]


def _level_cells(parts: Mapping[str, RunData], place: int, named: Sequence[str]) -> list[float | None]:
    """Return the cells of the predictor at position ``place``, computed separately for each gold level."""
    rows = [part.summary_rows[place] for part in parts.values()]
    return [
        figure
        for row in rows
        for figure in (row.answerable_questions, *(row.rates[name] for name in (*STANDARD, *named)))
    ]


def _bounds(found: Estimate | None) -> tuple[float | None, float | None]:
    return (None, None) if found is None else (found.low, found.high)


def comparisons_csv(comparisons: Sequence[Comparison]) -> str:
    """Return the text of ``comparisons.csv``, with one :class:`Comparison` per row."""
    header = Comparison.__struct_fields__
    return table_csv(header, ([getattr(each, name) for name in header] for each in comparisons))


def questions_csv(run: RunData) -> str:
    """Return the text of ``questions.csv``, with one row per question, predictor and repeat."""
    scores = run.scores
    standard = [named_measure(name) for name in STANDARD]
    named = [measure for measure in run.extra if measure.name not in STANDARD]
    header = (
        "question_id",
        "predictor",
        "llm",
        "repeat",
        "kind",
        "difficulty",
        "gold",
        "status",
        "outcome",
        *STANDARD,
        "strict_rank",
        "relaxed_rank",
        "lost",
        "gold_ranks",
        "first_hit",
        "fallbacks",
        "error",
        *(measure.name for measure in named),
    )
    lines = [
        _question_line(scores, question, row, standard, named)
        for question in run.asked
        for predictor in scores.predictors
        for row in scores.rows_of(predictor, question.id)
    ]
    return table_csv(header, lines)


def _question_line(
    scores: Scores,
    question: Question,
    row: Row,
    standard: Sequence[NamedMeasure],
    named: Sequence[NamedMeasure],
) -> tuple[object, ...]:
    values = {measure.name: scores.value(row, measure) for measure in standard}
    extra = [scores.value(row, measure) for measure in named]
    return (
        question.id,
        row.predictor,
        row.llm,
        row.repeat,
        question.kind,
        question.difficulty,
        gold_level(question) if question.gold else "",
        row.status,
        outcome_of(row, values) if question.answerable else "unanswerable",
        *(values.values() if question.answerable else [None] * len(values)),
        _first_rank([hit.gold is not None for hit in row.hits]),
        _first_rank([hit.page is not None for hit in row.hits]),
        lost_in(row),
        " ".join(f"{stage}:{rank}" for stage, rank in row.gold_ranks.items()),
        f"{row.hits[0].source}:{row.hits[0].line_start}-{row.hits[0].line_end}" if row.hits else "",
        "; ".join(row.fallbacks),
        row.error,
        *(extra if question.answerable else [None] * len(extra)),
    )


def _first_rank(right: Sequence[bool]) -> int | None:
    return next((rank for rank, is_right in enumerate(right, start=1) if is_right), None)


def calls_csv(run: RunData) -> str:
    """Return the text of ``llm_calls.csv``, with one row per LLM call (including its retries)."""
    header = [name for name in LLMCall.__struct_fields__ if name != "replayed"]
    return table_csv(header, ([getattr(call, name) for name in header] for call in run.ledger))
