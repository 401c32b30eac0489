"""A run's tables: its CSV files, the same tables as pandas data frames, and its hard questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from branchrank.core.io.files import write_jsonl, write_text
from branchrank.core.io.table import table_csv
from branchrank.core.records import LLMCall, Question
from branchrank.questions.question_files import HASHED, question_line
from branchrank.runs import directory as names
from branchrank.runs.attribution import lost_in
from branchrank.runs.rows import Row
from branchrank.runs.run_data import RunData
from branchrank.runs.scores import STANDARD, Scores, outcome_of
from branchrank.runs.summary import Column, SummaryRow, columns_of
from branchrank.scoring.comparison import Comparison
from branchrank.scoring.matching import gold_level
from branchrank.scoring.measures import NamedMeasure, named_measure

if TYPE_CHECKING:
    import pandas as pd

#: The columns of ``comparisons.csv``, which are fields of a :class:`Comparison`.
COMPARED = (
    *("measure", "baseline", "candidate", "n", "clusters", "mean_a", "mean_b", "difference"),
    *("ci_low", "ci_high", "level", "p", "p_adjusted", "test", "p_mcnemar", "p_t", "wins", "ties", "losses"),
    *("mde", "questions_needed", "p_floor", "more_pages", "corpus_low", "corpus_high", "family", "alpha"),
    *("delta", "verdict", "reason", "failed_a", "failed_b", "odds_ratio", "d_z"),
)

#: The first character of ``questions.csv``, by which a spreadsheet knows that the text is UTF-8.
BOM = "\ufeff"
_MOST_PLACES = 10


class Sheet(NamedTuple):
    """The columns and lines of a CSV file. Each column holds text, floats or whole numbers.

    An empty cell is an empty string in a column of text and ``None`` in a column of floats. Floats are
    rounded to six significant digits.
    """

    header: Sequence[str]
    lines: Sequence[Sequence[object]]

    @property
    def csv(self) -> str:
        """The sheet as CSV text."""
        return table_csv(self.header, self.lines)

    @property
    def frame(self) -> pd.DataFrame:
        """The sheet as a data frame with the values of the CSV file. Empty cells of floats are NaN."""
        import pandas as pd

        lines = [
            [float(f"{cell:.6g}") if isinstance(cell, float) else cell for cell in line]
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
        write_text(directory / name, (BOM if name == names.QUESTIONS_CSV else "") + sheet.csv)
    write_jsonl(directory / names.HARD_SET, map(question_line, run.hard_set))  # replaces a link


def _sheet(rows: Iterable[Mapping[str, object]]) -> Sheet:
    """Return the sheet of rows with the same columns in the same order."""
    found = list(rows)
    return Sheet(list(found[0]) if found else [], [list(row.values()) for row in found])


def summary_sheet(run: RunData) -> Sheet:
    """Return ``summary.csv``, with one row per predictor.

    The first columns are the same for every run (:mod:`branchrank.runs.summary`), followed by the gold
    level and the interval bounds of the standard measures. The next columns are the measures that were
    requested by name, with the bounds of their intervals, and the counts that are not 0 for some predictor.
    If the questions have two gold levels, every measure also has a column for each level, such as
    ``strict_hit@1_span``.
    """
    named = tuple(measure.name for measure in run.extra if measure.name not in STANDARD)
    parts = {level: part for level, part in run.by_gold.items() if part is not run}
    [together] = run.by_gold.keys() - parts.keys()
    shown = columns_of("csv", run.summary_rows)
    return _sheet(
        {
            **_cells(row, [column for column in shown if not column.meaning]),
            "gold": together,
            **_bounds(row, STANDARD),
            **{name: row.rates[name] for name in named},
            **_bounds(row, named),
            **_cells(row, [column for column in shown if column.meaning]),
            **{
                f"{name}_{level}": figure
                for level, part in parts.items()
                for name, figure in _level(part.summary_rows[place], (*STANDARD, *named)).items()
            },
        }
        for place, row in enumerate(run.summary_rows)
    )


def _cells(row: SummaryRow, columns: Iterable[Column[Any]]) -> dict[str, object]:
    return {name: cell for column in columns for name, cell in column.cells(row).items()}


def _bounds(row: SummaryRow, measures: Sequence[str]) -> dict[str, float | None]:
    return {
        f"{name}_{end}": getattr(row.estimates[name], end, None)
        for name in measures
        for end in ("low", "high")
    }


def _level(row: SummaryRow, measures: Sequence[str]) -> dict[str, float | None]:
    return {"answerable_questions": row.answerable_questions, **{name: row.rates[name] for name in measures}}


def comparisons_sheet(comparisons: Sequence[Comparison]) -> Sheet:
    """Return ``comparisons.csv``, with one :class:`Comparison` per line."""

    def cell(comparison: Comparison, name: str) -> object:
        value = getattr(comparison, name)
        # The column of questions_needed has empty cells, so its numbers are floats.
        return float(value) if name == "questions_needed" and value is not None else value

    lines = [[cell(comparison, name) for name in COMPARED] for comparison in comparisons]
    return Sheet(COMPARED, lines)


def questions_sheet(run: RunData) -> Sheet:
    """Return ``questions.csv``, with one row per question, predictor and repeat."""
    scores, standard = run.scores, [named_measure(name) for name in STANDARD]
    named = [measure for measure in run.extra if measure.name not in STANDARD]
    return _sheet(
        _question_line(scores, question, row, (standard, named))
        for question in run.asked
        for predictor in scores.predictors
        for row in scores.rows_of(predictor, question.id)
    )


def _question_line(
    scores: Scores, question: Question, row: Row, measures: Sequence[Sequence[NamedMeasure]]
) -> dict[str, object]:
    values, extra = ({each.name: scores.value(row, each) for each in some} for some in measures)
    return {
        "question_id": question.id,
        "question": "" if question.question.startswith(HASHED) else question.question,
        "predictor": row.predictor,
        "llm": row.llm,
        "repeat": row.repeat,
        "kind": question.kind,
        "difficulty": question.difficulty,
        "gold": gold_level(question) if question.gold else "",
        "gold_location": located(question),
        "status": row.status,
        "outcome": outcome_of(row, values) if question.is_scored else question.unscored,
        **(values if question.is_scored else dict.fromkeys(values)),
        "strict_rank": row.first_gold and float(row.first_gold),
        "relaxed_rank": row.first_page and float(row.first_page),
        "lost": lost_in(row),
        "gold_ranks": " ".join(f"{stage}:{rank}" for stage, rank in row.gold_ranks.items()),
        "first_hit": row.hits[0].span.citation if row.hits else "",
        "fallbacks": "; ".join(row.fallbacks),
        "error": row.error,
        **(extra if question.is_scored else dict.fromkeys(extra)),
    }


def located(question: Question) -> str:
    """Return where the question's gold is, such as ``a.md:3-8; b.md``, with at most ten places."""
    more = len(question.gold) - _MOST_PLACES
    places = [item.citation for item in question.gold[:_MOST_PLACES]]
    return "; ".join([*places, f"and {more} more"] if more > 0 else places)


def calls_sheet(calls: Sequence[LLMCall]) -> Sheet:
    """Return ``llm_calls.csv``, with one line per LLM call (including its retries)."""
    header = [name for name in LLMCall.__struct_fields__ if name != "replayed"]
    return Sheet(header, [[getattr(call, name) for name in header] for call in calls])
