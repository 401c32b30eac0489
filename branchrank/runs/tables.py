"""A run's tables: its CSV files, the same tables as pandas data frames, and its hard questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from branchrank.io.files import write_text
from branchrank.io.table import table_csv
from branchrank.measures.matching import gold_level
from branchrank.measures.measures import NamedMeasure, named_measure
from branchrank.measures.verdicts import Comparison
from branchrank.questions.question_files import write_questions
from branchrank.records import LLMCall, Question
from branchrank.runs import directory as names
from branchrank.runs.attribution import lost_in
from branchrank.runs.rows import Row
from branchrank.runs.run import RunData
from branchrank.runs.scores import STANDARD, Estimate, Scores, outcome_of
from branchrank.runs.summary import SummaryRow
from branchrank.runs.timings import Timing

if TYPE_CHECKING:
    import pandas as pd

FIRST_RATES = STANDARD[:4]
MORE_RATES = STANDARD[4:]


class Sheet(NamedTuple):
    """The columns and lines of a CSV file. Each column holds text, floats or whole numbers.

    An empty cell is an empty string in a column of text and ``None`` in a column of floats. Floats are
    rounded to six significant digits, unless they are ``exact``.
    """

    header: Sequence[str]
    lines: Sequence[Sequence[object]]
    exact: bool = False

    @property
    def csv(self) -> str:
        """The sheet as CSV text."""
        return table_csv(self.header, self.lines)

    @property
    def frame(self) -> pd.DataFrame:
        """The sheet as a data frame with the values of the CSV file. Empty cells of floats are NaN."""
        import pandas as pd

        lines = [
            [float(f"{cell:.6g}") if isinstance(cell, float) and not self.exact else cell for cell in line]
            for line in self.lines
        ]
        frame = pd.DataFrame(lines, columns=list(self.header))
        empty = [name for name in frame.columns if len(frame) and frame[name].isna().all()]
        return frame.astype(dict.fromkeys(empty, float))


def write_tables(run: RunData, into: Path | None = None) -> None:
    """Write a run's CSV files, and the questions that no predictor solved.

    The files are written into the directory ``into``, by default the run's directory.
    """
    directory = into or run.directory
    for name, sheet in (
        (names.SUMMARY_CSV, summary_sheet(run)),
        (names.COMPARISONS_CSV, comparisons_sheet(run.judgment.comparisons)),
        (names.QUESTIONS_CSV, questions_sheet(run)),
        (names.CALLS_CSV, calls_sheet(run.ledger)),
    ):
        write_text(directory / name, sheet.csv)
    write_questions(directory / names.HARD_SET, run.hard_set)


def summary_sheet(run: RunData) -> Sheet:
    """Return ``summary.csv``, with one row per predictor.

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
    return Sheet(header, lines)


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


def comparisons_sheet(comparisons: Sequence[Comparison]) -> Sheet:
    """Return ``comparisons.csv``, with one :class:`Comparison` per line."""
    header = [name for name in Comparison.__struct_fields__ if name != "differences"]
    lines = [{name: getattr(each, name) for name in header} for each in comparisons]
    for line in lines:
        if line["questions_needed"] is not None:
            line["questions_needed"] = float(line["questions_needed"])
    return Sheet(header, [list(line.values()) for line in lines])


def questions_sheet(run: RunData) -> Sheet:
    """Return ``questions.csv``, with one row per question, predictor and repeat."""
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
    return Sheet(header, lines)


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


def _first_rank(right: Sequence[bool]) -> float | None:
    return next((float(rank) for rank, is_right in enumerate(right, start=1) if is_right), None)


def calls_sheet(calls: Sequence[LLMCall]) -> Sheet:
    """Return ``llm_calls.csv``, with one line per LLM call (including its retries)."""
    header = [name for name in LLMCall.__struct_fields__ if name != "replayed"]
    return Sheet(header, [[getattr(call, name) for name in header] for call in calls])


def timings_sheet(timings: Sequence[Timing]) -> Sheet:
    """Return ``timings.csv``, with the time in ms of each stage in each timed query."""
    header = Timing.__struct_fields__
    lines = [
        (each.predictor, each.question_id, each.phase, each.stage, float(f"{each.ms:.4f}"))
        for each in timings
    ]
    return Sheet(header, lines, exact=True)
