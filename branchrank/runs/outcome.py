"""What a finished run holds, and the tables that are computed from it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from branchrank.artifacts import write_text
from branchrank.questions.question_files import write_questions
from branchrank.records import Question, Record
from branchrank.runs import directory as names
from branchrank.runs.directory import RunRecord
from branchrank.runs.rows import Row
from branchrank.runs.scores import Scores, named_measure, standard_measures
from branchrank.runs.slices import GoldFacts
from branchrank.runs.summary import SummaryRow, calls_csv, questions_csv, summarise, summary_csv
from branchrank.runs.timings import Timing


class Outcome(Record, frozen=True, kw_only=True):
    """A finished run."""

    directory: Path
    run: RunRecord
    rows: tuple[Row, ...]
    timings: tuple[Timing, ...]
    summary: tuple[SummaryRow, ...]
    gold_facts: tuple[GoldFacts, ...] = ()


def write_tables(
    directory: Path,
    run: RunRecord,
    rows: Sequence[Row],
    timings: Sequence[Timing],
    questions: Sequence[Question],
) -> list[SummaryRow]:
    """Write the CSV files and the hard set of a run; returns the summary."""
    scores = Scores(rows, questions)
    summary = summarise(scores, timings, standard_measures(run.mode))
    write_text(directory / names.SUMMARY_CSV, summary_csv(summary))
    write_text(directory / names.QUESTIONS_CSV, questions_csv(scores))
    write_text(directory / names.CALLS_CSV, calls_csv(rows))
    write_questions(directory / names.HARD_SET, hard_set(scores))
    return summary


def hard_set(scores: Scores) -> list[Question]:
    """The answerable questions that no predictor answers strictly at rank 1."""
    first = named_measure("strict_hit@1")
    solved: set[str] = set()
    for predictor in scores.predictors:
        solved |= {key for key, value in scores.per_question(predictor, first).items() if value > 0}
    return [scores.questions[key] for key in scores.answerable if key not in solved]
